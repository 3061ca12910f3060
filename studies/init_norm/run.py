"""Study 2: is it the initial norm of the embeddings that makes models last? One thing at a time.

The report's explanation: wide embeddings start with large norms, and those avoid false negatives.
What moves together there is taken apart here, by changing initial weights only:

    width        d_model alone changes (the norm grows with its root)
    fixed norm   d_model changes, embeddings are scaled to the norm they have at d_model 2
    embeddings   d_model 16, embeddings times a factor: scores grow with its square, values with it
    scores       d_model 16, W_Q times a factor: the initial scores alone
    values       d_model 16, W_V times a factor: what is attended to alone
    rate         d_model 16, the learning rate times a factor
    decay        d_model 16, the weight decay times a factor

each from the default initialisation, and from the report's one of lower magnitude.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from studies.tables import Row
from studies.training import SMALL, Begin, Config, judged, mark, scores, trained
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.training.config import RunConfig, TrainingConfig
from tsc_interp.training.ensemble import TrainingState, start

SEEDS = range(32)
WIDTHS = (2, 4, 8, 16, 32, 64, 256)
FACTORS = (0.25, 0.5, 2.0, 4.0)
BASE = 16
BEGINS = ("default", "small")
SCALED = {"embeddings": "embed.W_E", "scores": "blocks.0.attn.W_Q", "values": "blocks.0.attn.W_V"}

Cell = tuple[str, str, int, float, range]


def cells() -> list[Cell]:
    """What changes, how it begins, d_model, the factor, seeds."""
    cells = [(what, "default", d, 1.0, SEEDS) for what in ("width", "fixed norm") for d in WIDTHS]
    cells += [("nothing", "small", BASE, 1.0, SEEDS)]
    cells += [("decay", begins, BASE, factor, SEEDS) for begins in BEGINS for factor in (0.0, 4.0)]
    return cells + [
        (what, begins, BASE, factor, SEEDS)
        for begins in BEGINS
        for what in (*SCALED, "rate")
        for factor in FACTORS
    ]


def rows(cell: Cell) -> list[Row]:
    what, begins, d_model, factor, seeds = cell
    config = Config(d_model=d_model, **(SMALL if begins == "small" else {}))
    report = TrainingConfig()
    training = report.replace(
        learning_rate=report.learning_rate * (factor if what == "rate" else 1.0),
        weight_decay=report.weight_decay * (factor if what == "decay" else 1.0),
    )
    found = []
    for model in trained(config, seeds, begin=_beginning(what, factor), training=training):
        exact = judged(model.checkpoint)
        begun, ended = (_sizes(weights) for weights in (model.initial, model.checkpoint.weights))
        found.append(
            {
                "what": what,
                "begins": begins,
                "d_model": d_model,
                "factor": factor,
                "seed": model.seed,
                "norm": begun[0],
                "spread": begun[1],
                "final_spread": ended[1],
                "epochs": len(model.losses),
                "first_error": exact["first_error"],
                "string": exact["string"],
                "weights": mark(model.checkpoint),
            }
        )
    return found


def _beginning(what: str, factor: float) -> Begin:
    def begin(config: RunConfig, seed: int) -> TrainingState:
        state = start(config, seed)
        weights = {name: weight.copy() for name, weight in state.weights.items()}
        if what in SCALED:
            weights[SCALED[what]] *= np.float32(factor)
        if what == "fixed norm":
            weights["embed.W_E"] *= np.float32((2 / config.classifier.d_model) ** 0.5)
        return replace(state, weights=weights)

    return begin


def _sizes(weights: dict[str, np.ndarray]) -> tuple[float, float]:
    """The mean norm of a letter's embedding; the mean over heads of how far its scores differ."""
    norms = np.linalg.norm(weights["embed.W_E"][FIRST_LETTER:], axis=1)
    spread = np.ptp(scores(weights), axis=1)
    return round(float(norms.mean()), 4), round(float(spread.mean()), 4)
