"""Study 10: how much training length is enough, exactly, and what published bounds say.

A bound on length generalisation names a length N: a model that is right up to N is right at every
length (or at the lengths of interest). For each trained model the first error is known, so the
least such N is known for the whole sample. What goes into the bounds is stored beside it:

    gap     the smallest difference between two letters' scores in a head, before the factor log n
    slope   an upper bound on how fast the logit changes with the weights of attention
    margin  the smallest |logit| over all strings of up to the training length
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import torch

from studies.tables import Row
from studies.training import Config, judged, mark, scores, trained
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.data import TRAIN
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts
from tsc_interp.training.config import TrainingConfig

SCALES = {"plain": "sqrt_d_head", "log n": "sqrt_d_head_log_n"}
SEEDS, PART = 384, 128
_STEEPEST = 1.13
"""More than the slope of GELU anywhere."""

Cell = tuple[str, int, range]


def cells() -> list[Cell]:
    parts = [range(first, first + PART) for first in range(0, SEEDS, PART)]
    return [(name, length, part) for name in SCALES for length in (4, 10, 20) for part in parts]


def rows(cell: Cell) -> list[Row]:
    attention, length, seeds = cell
    config = Config(score_scale=SCALES[attention])
    training = TrainingConfig(max_epochs=8, train=TRAIN.replace(max_length=length))
    every = torch.from_numpy(vectors(config.n_letters, length))
    found = []
    for model in trained(config, seeds, training=training):
        checkpoint = model.checkpoint
        found.append(
            {
                "attention": attention,
                "train_length": length,
                "seed": model.seed,
                **judged(checkpoint, prove=attention == "log n"),
                "gap": float(f"{gap(checkpoint):.4g}"),
                "slope": float(f"{slope(checkpoint):.4g}"),
                "margin": float(f"{margin(checkpoint, every):.4g}"),
                "weights": mark(checkpoint),
            }
        )
    return found


def vectors(n_letters: int, length: int) -> np.ndarray:
    """Every count vector of 1 to `length` letters."""
    grid = np.stack(np.meshgrid(*[np.arange(length + 1)] * n_letters), -1).reshape(-1, n_letters)
    return grid[(grid.sum(1) > 0) & (grid.sum(1) <= length)]


def gap(checkpoint: Checkpoint) -> float:
    found = scores(checkpoint.weights)
    return float(min(np.abs(found[:, i] - found[:, j]).min() for i, j in combinations(range(3), 2)))


def slope(checkpoint: Checkpoint) -> float:
    """Heads' largest values, through W_O, past the MLP, along the read-out; norms multiplied."""
    w = {name: weight.astype(np.float64) for name, weight in checkpoint.weights.items()}
    moved = np.einsum(
        "td,hdk,hke->hte", w["embed.W_E"][2:], w["blocks.0.attn.W_V"], w["blocks.0.attn.W_O"]
    )
    size = np.linalg.norm
    mlp = size(w["blocks.0.mlp.W_in"], 2) * size(w["blocks.0.mlp.W_out"], 2)
    heads = size(moved, axis=2).max(axis=1).sum()
    return float(size(w["unembed.W_U"]) * (1 + _STEEPEST * mlp) * heads)


def margin(checkpoint: Checkpoint, counts: torch.Tensor) -> float:
    weights = {name: torch.from_numpy(w).double() for name, w in checkpoint.weights.items()}
    return float(
        forward(checkpoint.config, weights, from_counts(checkpoint.config, counts)).abs().min()
    )
