"""Study 8: how fast weight decay shortens horizons, predicted without a fitted parameter.

A score is a product of CLS's embedding, W_Q, W_K and a letter's embedding. AdamW multiplies every
weight by 1 - rate * decay at each step, so without gradients a product of k decayed factors falls
like exp(-k * decay * sum of rates). The horizon is about the exponential of a score margin, so

    log H(t) = log H(1) * exp(-k * decay * (sum of rates from epoch 2 to t)).

k is 4, and 2 where a norm without weights takes the size of the embeddings away.
"""

from __future__ import annotations

import numpy as np

from studies.epochs.run import ALL_EPOCHS
from studies.tables import Row
from studies.training import Config, judged, mark, scores, trained
from tsc_interp.checkpoints.checkpoint import WeightArrays
from tsc_interp.training.config import TrainingConfig

EPOCHS = (1, 2, 3, 5, 7, 10, 15, 20, 30)
FACTORS = {"off": 4, "rms_pre": 2}
"""How many decayed factors a score has, by norm."""

Cell = tuple[str, float, float, range]


def cells() -> list[Cell]:
    rates = [("off", 0.01, rate) for rate in (0.003, 0.03)]
    decays = [("off", decay, 0.01) for decay in (0.0, 0.003, 0.01, 0.03)]
    normed = [("rms_pre", decay, 0.01) for decay in (0.01, 0.03)]
    return [(*cell, range(32)) for cell in decays + rates + normed]


def rows(cell: Cell) -> list[Row]:
    norm, decay, rate, seeds = cell
    wanted = EPOCHS if norm == "off" else EPOCHS[:6]
    training = ALL_EPOCHS.replace(
        weight_decay=decay, learning_rate=rate, max_epochs=wanted[-1], schedule_epochs=30
    )
    found = []
    for model in trained(Config(d_model=16, norm=norm), seeds, training=training):
        for epoch in wanted:
            checkpoint = model.at(epoch)
            exact = judged(checkpoint)
            found.append(
                {
                    "norm": norm,
                    "weight_decay": decay,
                    "learning_rate": rate,
                    "seed": model.seed,
                    "epoch": epoch,
                    "decayed": float(f"{decayed(training, epoch):.6g}"),
                    "spread": float(f"{spread(checkpoint.weights, norm):.4g}"),
                    "outcome": exact["outcome"],
                    "first_error": exact["first_error"],
                    "weights": mark(checkpoint),
                }
            )
    return found


def decayed(training: TrainingConfig, epoch: int) -> float:
    """Weight decay times the sum of the learning rates of all steps after the first epoch."""
    steps = training.train.batches  # type: ignore[union-attr]
    return training.weight_decay * steps * sum(training.rate(e) for e in range(2, epoch + 1))


def spread(weights: WeightArrays, norm: str) -> float:
    """The largest score less the smallest, of the head where that is largest."""
    x = weights["embed.W_E"]
    if norm != "off":
        x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)
    return float(np.ptp(scores({**weights, "embed.W_E": x}), axis=1).max())
