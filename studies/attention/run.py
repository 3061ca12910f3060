"""Study 1: attention that is meant to last, trained exactly as in the report.

Scores scaled by log n in three ways are verified: `proved` is what the independent checker accepted
for every length. Plain softmax is verified up to its first error. Adaptive temperature (applied to
plain models after training, as its authors do) and a norm after attention have no bounds, so there
every string of up to `SHORT` letters is evaluated in float64, and longer ones in families only:
their first error is exact up to `SHORT`, and beyond it an error that was found.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studies.tables import Row
from studies.training import Config, Trained, judged, mark, reads, trained
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts

VARIANTS: dict[str, dict[str, Any]] = {
    "plain softmax": {},
    "log n": {"score_scale": "sqrt_d_head_log_n"},
    "log n, CLS counted": {"score_scale": "sqrt_d_head_log_n_cls"},
    "SSMax": {"score_scale": "sqrt_d_head_ssmax"},
    "adaptive temperature": {"adaptive_temperature": True},
    "norm after attention": {"attention_norm": "rms"},
}
EVALUATED = ("adaptive temperature", "norm after attention")
SHORT = 40
LONG = 10**6

Cell = tuple[str, int, int, range]


def cells() -> list[Cell]:
    """256 seeds with two heads, 64 of the widest and with four; 32 of what is only evaluated."""
    verified = [name for name in VARIANTS if name not in EVALUATED]
    parts = [range(start, start + 64) for start in range(0, 256, 64)]
    cells = [(name, 2, d, part) for name in verified for d in (2, 16) for part in parts]
    cells += [(name, *shape, parts[0]) for name in verified for shape in ((2, 64), (4, 16))]
    cells += [("adaptive temperature", 2, d, range(32)) for d in (2, 16, 64)]
    return [*cells, ("norm after attention", 2, 16, range(32))]


def rows(cell: Cell) -> list[Row]:
    variant, heads, d_model, seeds = cell
    return [_row(cell, model) for model in models(variant, heads, d_model, seeds)]


def models(variant: str, heads: int, d_model: int, seeds: range) -> list[Trained]:
    options = {} if variant == "adaptive temperature" else VARIANTS[variant]
    return trained(Config(d_model=d_model, n_heads=heads, **options), seeds)


def _row(cell: Cell, model: Trained) -> Row:
    variant, heads, d_model, _ = cell
    checkpoint = model.checkpoint
    if variant == "adaptive temperature":
        warm = checkpoint.config.replace(adaptive_temperature=True)
        checkpoint = Checkpoint(warm, checkpoint.weights)
    found = (
        evaluated(checkpoint)
        if variant in EVALUATED
        else judged(checkpoint.folded(), prove=variant != "plain softmax")
    )
    return {
        "variant": variant,
        "heads": heads,
        "d_model": d_model,
        "seed": model.seed,
        **found,
        "reads": reads(checkpoint.weights),
        "weights": mark(checkpoint),
    }


def evaluated(checkpoint: Checkpoint) -> dict[str, Any]:
    """The first error among short strings and families, in float64."""
    config = checkpoint.config
    counts = tried(config.n_letters)
    weights = {name: torch.from_numpy(w).double() for name, w in checkpoint.weights.items()}
    with torch.no_grad():
        logits = forward(config, weights, from_counts(config, torch.from_numpy(counts))).numpy()
    wrong = np.flatnonzero((logits > 0) != (config.task.labels(counts) > 0))
    if not len(wrong):
        return {"outcome": "open", "first_error": None, "string": None}
    first = counts[wrong[0]]
    string = config.alphabet.write(first)
    return {"outcome": "wrong", "first_error": int(first.sum()), "string": string}


@cache
def tried(letters: int) -> NDArray[np.int64]:
    """All counts of up to `SHORT` letters; longer, one each of some letters and n of another."""
    short = np.array([c for c in product(range(SHORT + 1), repeat=letters) if 0 < sum(c) <= SHORT])
    many = np.unique(np.geomspace(SHORT, LONG, 200).astype(np.int64))
    rows = [short]
    for size in range(letters):
        for others in combinations(range(letters), size):
            for letter in set(range(letters)) - set(others):
                family = np.zeros((len(many), letters), dtype=np.int64)
                family[:, list(others)], family[:, letter] = 1, many
                rows.append(family)
    counts = np.concatenate(rows)
    return counts[np.argsort(counts.sum(axis=1), kind="stable")]
