"""The largest value of a function of letter counts, over all real counts from 1 to 10^9.

Counts are searched on a logarithmic scale, where attention is smooth: a key's weight is a softmax
of score + log count. Where only ratios matter, the first letter's log count is zero and the others
lie in a box of both signs, one dimension fewer. Up to two dimensions are covered by a dense grid,
more by a low-discrepancy sequence; then compass search climbs from the best points that lie apart,
halving its step. A peak narrower than the spacing can be missed: the result is a value that is
reached, and so a lower bound on the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from einops import rearrange

from tsc_interp.config import ClassifierConfig
from tsc_interp.probes.inputs import Floats, as_array, compact, logits_of
from tsc_interp.strings import MAX_REPEAT

REACH = float(np.log(MAX_REPEAT))
LINE, PLANE, SPACE = 2001, 101, 2**11
"""Points for one dimension, per side for two, and in all for more."""
STARTS, ROUNDS = 12, 200

Function = Callable[[Floats], Floats]
"""Counts `[point letter]` to values `[point]`."""


@dataclass(frozen=True)
class Maximum:
    value: float
    counts: Floats
    """`[letter]`, real, at least 1."""
    seen: Floats
    """`[point letter]`: counts at which the function was positive."""
    dense: bool
    """Whether a grid covered the whole range."""


def maximise(function: Function, letters: int, *, ratios_only: bool) -> Maximum:
    """Over counts of `letters` letters; `ratios_only` when the function ignores their sum."""
    dimensions = letters - 1 if ratios_only else letters
    logs = _normal(_cover(dimensions, letters, ratios_only), ratios_only)
    values = function(np.exp(logs))
    seen = [logs[values > 0]]
    starts = _best_apart(logs, values)
    points, heights = logs[starts], values[starts]
    step = 2 * REACH / (PLANE if dimensions <= 2 else 20)
    directions = np.concatenate([np.eye(letters), -np.eye(letters)])
    for _ in range(ROUNDS if dimensions else 0):
        near = rearrange(
            points[:, None] + step * directions, "start way letter -> (start way) letter"
        )
        near = _normal(near, ratios_only)
        logits = rearrange(function(np.exp(near)), "(start way) -> start way", start=len(points))
        seen.append(near[logits.ravel() > 0])
        best = logits.argmax(axis=1)
        # Less than this is rounding, and following it along a plateau would never end.
        better = logits.max(axis=1) > heights + 1e-9 * (1 + np.abs(heights))
        if better.any():
            around = rearrange(near, "(start way) letter -> start way letter", start=len(points))
            moved = around[np.arange(len(points)), best]
            points = np.where(better[:, None], moved, points)
            heights = np.where(better, logits.max(axis=1), heights)
        elif step < 1e-5:
            break
        else:
            step /= 2
    top = int(heights.argmax())
    return Maximum(
        float(heights[top]), np.exp(points[top]), np.exp(np.concatenate(seen)), dimensions <= 2
    )


def _cover(dimensions: int, letters: int, ratios_only: bool) -> Floats:
    """Log counts all over the range, `[point letter]`."""
    low = -REACH if ratios_only else 0.0
    if dimensions == 0:
        return np.zeros((1, letters))
    if dimensions <= 2:
        side = np.linspace(low, REACH, LINE if dimensions == 1 else PLANE)
        free = np.stack(np.meshgrid(*[side] * dimensions), axis=-1).reshape(-1, dimensions)
    else:
        # Takes a while to import, and only four letters and more need it.
        from scipy.stats import qmc

        unit = qmc.Sobol(dimensions, scramble=True, rng=0).random(SPACE)
        # The middle is where letters compete; the corners are the sets with fewer letters.
        free = low + (REACH - low) * np.concatenate([unit, unit.round(), 0.5 + (unit - 0.5) / 4])
    return np.insert(free, 0, 0.0, axis=1) if ratios_only else free


def _best_apart(logs: Floats, values: Floats, apart: float = 1.0) -> list[int]:
    """The highest points no two of which are near each other, so that each climbs its own peak."""
    chosen: list[int] = []
    left = values.copy()
    starts = max(3, min(STARTS, 36 // logs.shape[1]))  # more letters make each start dearer
    while len(chosen) < starts and np.isfinite(left.max()):
        chosen.append(int(left.argmax()))
        left[np.abs(logs - logs[chosen[-1]]).max(axis=1) <= apart] = -np.inf
    return chosen


def _normal(logs: Floats, ratios_only: bool) -> Floats:
    """Within the range; where only ratios matter, the rarest letter occurs once."""
    if ratios_only:
        logs = logs - logs.min(axis=1, keepdims=True)
    return np.asarray(np.clip(logs, 0.0, REACH))


# -- strings of a set of letters, shortest first: which is the first that crosses? -----------------


def logits64(model: Any, config: ClassifierConfig, letters: str) -> Function:
    """The same forward pass in float64, for real counts of these letters."""
    import torch

    from tsc_interp.model.forward import forward

    weights = {name: weight.detach().double() for name, weight in model.named_parameters()}

    def logits(counts: Floats) -> Floats:
        with torch.no_grad():
            given = compact(config, full_counts(config, letters, counts))
            return as_array(forward(config, weights, given))

    return logits


def full_counts(config: ClassifierConfig, letters: str, counts: Floats) -> Floats:
    """Counts of these letters as counts of the whole alphabet, along the last axis."""
    full = np.zeros((*counts.shape[:-1], config.n_letters))
    full[..., [config.alphabet.index(letter) for letter in letters]] = counts
    return full


def write_counts(config: ClassifierConfig, letters: str, counts: Floats) -> str:
    return config.alphabet.write(full_counts(config, letters, counts).astype(np.int64))


def all_counts(letters: int, ratios_only: bool, budget: int) -> tuple[Floats, int]:
    """Every count vector (each letter at least once) up to the longest length that fits the budget.

    Shortest first. One letter alone, where only ratios matter, is one string at every length.
    """
    if letters == 1:
        longest = budget if not ratios_only else 1
        return np.arange(1.0, longest + 1)[:, None], MAX_REPEAT if ratios_only else longest
    longest = letters
    while comb(longest + 1, letters) <= budget:
        longest += 1
    # Bars and stars: counts are the gaps between increasing partial sums.
    sums = np.array(list(combinations(range(1, longest + 1), letters)))
    counts = np.diff(sums, axis=1, prepend=0).astype(np.float64)
    return counts[np.argsort(counts.sum(axis=1), kind="stable")], longest


def first_positive(
    model: Any, config: ClassifierConfig, letters: str, counts: Floats
) -> Floats | None:
    hits = np.flatnonzero(logits_of(model, full_counts(config, letters, counts)) > 0)
    return counts[hits[0]] if len(hits) else None


def shrink(model: Any, config: ClassifierConfig, letters: str, maximum: Maximum) -> Floats | None:
    """A crossing string longer than all those evaluated: rounded mixtures, then made shorter."""
    mixtures = np.concatenate([maximum.counts[None] * k for k in range(1, 65)] + [maximum.seen])
    counts = np.unique(np.clip(mixtures.round(), 1, MAX_REPEAT), axis=0)
    counts = counts[np.argsort(counts.sum(axis=1), kind="stable")]
    best = first_positive(model, config, letters, counts)
    if best is None:
        return None
    step = 2.0 ** int(np.log2(best.max()))
    while step >= 1:
        shorter = best - step * np.eye(len(letters))
        shorter = shorter[(shorter >= 1).all(axis=1)]
        better = first_positive(model, config, letters, shorter) if len(shorter) else None
        if better is None:
            step /= 2
        else:
            best = better
    return best
