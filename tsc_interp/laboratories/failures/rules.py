"""What predicts a failure: features of the problem, and rules read off the weights.

Features are of the string alone: counts (as logarithms), the length, and ratios of counts. Rules
know the model, and nothing of its answers but its first errors:

    margin     a positive string fails where some letter of the task has less than half of the
               weight in every head
    cone       a positive string fails where that letter has no more of the weight than in the
               first error it caused: a linear inequality in the counts, so the region is a cone;
               a negative string fails where its most frequent letter outweighs the other by at
               least as much as in the first error over the same letters
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_cdt
from scipy.special import logsumexp

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.laboratories.every_string import (
    Flags,
    Floats,
    Integers,
    Judged,
    judge,
    letter_scores,
    letter_weights,
)
from tsc_interp.verification.horizons import horizon

FEATURES = (
    "log count of a",
    "log count of b",
    "log count of c",
    "log length",
    "log ratio of a to b",
    "log ratio of the letters of the task to c",
    "largest log ratio",
    "label",
)


def largest_ratio(judged: Judged) -> Floats:
    """The most frequent letter's count over that of the rarest one that occurs."""
    counts = judged.counts
    rarest = np.where(counts > 0, counts, counts.max(initial=1) + 1).min(axis=1)
    return np.asarray(counts.max(axis=1) / rarest)


def features(judged: Judged) -> Floats:
    """`[vector feature]`; a letter that does not occur counts as half a letter in logarithms."""
    counts = judged.counts
    logs = np.log(np.maximum(counts, 0.5))
    return np.stack(
        [
            *logs.T,
            np.log(judged.lengths),
            logs[:, 0] - logs[:, 1],
            np.minimum(logs[:, 0], logs[:, 1]) - logs[:, 2],
            np.log(largest_ratio(judged)),
            judged.labels.astype(np.float64),
        ],
        axis=1,
    )


def shares(checkpoint: Checkpoint, judged: Judged) -> Floats:
    """`[vector letter]`, of the task's letters: the most weight that a head gives it."""
    named = [checkpoint.config.alphabet.index(letter) for letter in checkpoint.config.task.needs]
    weights = letter_weights(letter_scores(checkpoint), judged.counts.astype(np.float64))
    return np.asarray(weights[:, :, named].max(axis=1))


def margin_rule(held: Floats, judged: Judged) -> Flags:
    """`held` are the shares."""
    return np.asarray(judged.labels & (held.min(axis=1) < 0.5))


def cone_rule(checkpoint: Checkpoint, held: Floats, judged: Judged) -> Flags:
    """One number for each letter of the task, and for each set of letters with label 0."""
    predicted = np.zeros(len(judged.counts), dtype=bool)
    victim, least = held.argmin(axis=1), held.min(axis=1)
    critical = np.full(held.shape[1], -1.0)
    for support in horizon(checkpoint, prove=False, limit=100_000).by_letters:
        if (error := support.shortest) is None:
            continue
        first = judge(checkpoint, np.array([error.counts]))
        if error.label:
            own = shares(checkpoint, first)[0]
            critical[own.argmin()] = max(critical[own.argmin()], own.min())
        else:
            predicted |= _beyond(judged, first)
    return np.asarray(predicted | (judged.labels & (least <= critical[victim] + 1e-12)))


def _beyond(judged: Judged, first: Judged) -> Flags:
    """Strings over the letters of this one in which the same letter is as far ahead or farther."""
    same = ((judged.counts > 0) == (first.counts > 0)).all(axis=1)
    leads = judged.counts.argmax(axis=1) == first.counts.argmax()
    return np.asarray(same & leads & (largest_ratio(judged) >= largest_ratio(first)))


# -- how well a rule tells wrong strings from right ones, over all of them; and how near right is --


def precision_and_recall(predicted: Flags, wrong: Flags, log_weight: Floats) -> tuple[float, float]:
    """The share of the predicted that is wrong, and of the wrong that is predicted; 0 if none."""
    both = _sum(log_weight[predicted & wrong])
    return _share(both, _sum(log_weight[predicted])), _share(both, _sum(log_weight[wrong]))


def _sum(logs: Floats) -> float:
    return float(logsumexp(logs)) if len(logs) else -np.inf


def _share(part: float, whole: float) -> float:
    return float(np.exp(part - whole)) if np.isfinite(whole) and np.isfinite(part) else 0.0


def steps_to_right(judged: Judged, longest: int) -> Integers:
    """For each wrong vector of at most `longest` letters: letters to add or drop until right.

    Right with the same label. Vectors are looked for up to the longest judged, so `longest` should
    be well below it.
    """
    size = int(judged.lengths.max()) + 1
    nearest = np.zeros(int(judged.wrong.sum()), dtype=np.int64)
    for label in (False, True):
        kind = judged.labels == label
        rows = kind & judged.wrong
        if not rows.any():
            continue
        away = np.ones((size,) * judged.counts.shape[1], dtype=np.int8)
        away[tuple(judged.counts[kind & ~judged.wrong].T)] = 0
        steps = distance_transform_cdt(away, metric="taxicab")
        nearest[rows[judged.wrong]] = steps[tuple(judged.counts[rows].T)]
    near = judged.lengths[judged.wrong] <= longest
    return np.asarray(nearest[near])
