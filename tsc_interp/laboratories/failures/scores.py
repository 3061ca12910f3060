"""How well a rule tells wrong strings from right ones, over all of them; and how near right is."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_cdt
from scipy.special import logsumexp

from tsc_interp.laboratories.every_string import Flags, Floats, Integers, Judged


def precision_and_recall(told: Flags, wrong: Flags, log_weight: Floats) -> tuple[float, float]:
    """Of what is told wrong, how much is; of what is wrong, how much is told. 0 for nothing."""
    both = _sum(log_weight[told & wrong])
    return _share(both, _sum(log_weight[told])), _share(both, _sum(log_weight[wrong]))


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
