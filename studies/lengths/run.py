"""Study 10: up to which length must a model be right, to be right at every length?

A bound on length generalisation names a length N: a model that is right up to N is right at every
length. For each trained model the first error is known, so the least such N is known for the whole
sample.
"""

from __future__ import annotations

from studies.tables import Row
from studies.training import Config, judged, mark, trained
from tsc_interp.data import TRAIN
from tsc_interp.training.config import TrainingConfig

SCALES = {"plain": "sqrt_d_head", "log n": "sqrt_d_head_log_n"}
SEEDS, PART = 384, 128

Cell = tuple[str, int, range]


def cells() -> list[Cell]:
    parts = [range(first, first + PART) for first in range(0, SEEDS, PART)]
    return [(name, length, part) for name in SCALES for length in (4, 10, 20) for part in parts]


def rows(cell: Cell) -> list[Row]:
    attention, length, seeds = cell
    config = Config(score_scale=SCALES[attention])
    training = TrainingConfig(max_epochs=8, train=TRAIN.replace(max_length=length))
    return [
        {
            "attention": attention,
            "train_length": length,
            "seed": model.seed,
            **judged(model.checkpoint, prove=attention == "log n"),
            "weights": mark(model.checkpoint),
        }
        for model in trained(config, seeds, training=training)
    ]
