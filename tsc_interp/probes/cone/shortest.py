"""Strings of a set of letters, shortest first: which is the first that crosses?"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from tsc_interp.probes.cone.maximise import Function, Maximum
from tsc_interp.probes.running import Floats, as_array, compact, logits_of
from tsc_interp.strings import MAX_REPEAT

if TYPE_CHECKING:
    from tsc_interp.config import ClassifierConfig


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


def shrink(model: Any, config: ClassifierConfig, letters: str, found: Maximum) -> Floats | None:
    """A crossing string longer than all those evaluated: rounded mixtures, then made shorter."""
    mixtures = np.concatenate([found.counts[None] * k for k in range(1, 65)] + [found.seen])
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
