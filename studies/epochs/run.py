"""Study 6: the horizon after every epoch, over hundreds of seeds; nothing stops early here."""

from __future__ import annotations

from studies.tables import Row
from studies.training import Config, judged, mark, trained
from tsc_interp.training.config import TrainingConfig

ALL_EPOCHS = TrainingConfig(patience=30, stop_below=0.0)
"""The report's 30 epochs without its stopping rule; up to where that stops, the same weights."""

Cell = tuple[str, int, range]


def cells() -> list[Cell]:
    parts = [range(start, start + 32) for start in range(0, 128, 32)]
    wide = [("plain", 16, part) for part in parts]
    others = [("log n", 2, part) for part in parts[:2]]
    others += [("plain, no weight decay", d, part) for d in (2, 16) for part in parts[:2]]
    return [("plain", 2, part) for part in parts] + wide + others


def rows(cell: Cell) -> list[Row]:
    attention, d_model, seeds = cell
    scale = "sqrt_d_head_log_n" if attention == "log n" else "sqrt_d_head"
    config = Config(d_model=d_model, score_scale=scale)
    training = ALL_EPOCHS.replace(weight_decay=0.0) if "no weight" in attention else ALL_EPOCHS
    found = []
    for model in trained(config, seeds, training=training):
        for epoch, loss in enumerate(model.losses, 1):
            exact = judged(model.at(epoch), prove=attention == "log n")
            found.append(
                {
                    "attention": attention,
                    "d_model": d_model,
                    "seed": model.seed,
                    "epoch": epoch,
                    "validation_loss": float(f"{loss:.6g}"),
                    "outcome": exact["outcome"],
                    "first_error": exact["first_error"],
                    "weights": mark(model.at(epoch)),
                }
            )
    return found
