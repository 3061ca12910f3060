"""Float64 intervals, many at once: the few operations a transformer block needs.

An interval is a pair of arrays (low, high) that encloses the real number. Each operation moves its
ends outwards by more than its own rounding error (`_SLACK` relative, `_TINY` absolute), which is
simpler than switching the processor's rounding mode and costs a few bits.

What overflows becomes NaN or an infinity on the harmless side, never a false end: `low > 0` and
`high <= 0` are then false, so nothing is proved by it. `sure` turns what is NaN in the end into
"anything". Of NumPy it is assumed, and tested against `arb`, that `exp` and `log` are good to 4
units in the last place. Activations are in activations.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[Array, Array]

UNIT = 2.0**-53
LEAST_WEIGHT = 2.0**-600
"""Weights whose sum is below this are not divided by: their products may have underflowed."""
MEAN_TINY = 2.0**-450
"""More than underflow can move a mean: a few times 2^-1075 per token, over `LEAST_WEIGHT`."""
_SLACK = 16 * UNIT
_TINY = 1e-300
_NUMBERS_AT_ONCE = 1 << 22


def outward(low: Array, high: Array, terms: int = 1) -> Interval:
    """Make room for the rounding of a sum of about `terms` terms no larger than the ends."""
    slack = _SLACK + terms * UNIT
    return low - slack * np.abs(low) - _TINY, high + slack * np.abs(high) + _TINY


def sure(low: Array, high: Array) -> Interval:
    """An end that is not a number says nothing."""
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def in_slices(
    function: Callable[..., tuple[Array, ...]], numbers_a_row: int, *rows: Array
) -> tuple[Array, ...]:
    """`function(*rows)`, a few rows at a time where all at once would take too much memory."""
    at_once = max(1, _NUMBERS_AT_ONCE // numbers_a_row)
    total = len(rows[0])
    # What overflows is dealt with where it is compared; there is nothing to warn of.
    with np.errstate(all="ignore"):
        if total <= at_once:
            return function(*rows)
        starts = range(0, total, at_once)
        parts = [function(*(row[start : start + at_once] for row in rows)) for start in starts]
        return tuple(map(np.concatenate, zip(*parts, strict=True)))


def times_matrix(x: Interval, matrix: Array) -> Interval:
    """x @ matrix for a constant matrix: each end picks the end of x that the sign asks for."""
    low, high = x
    up, down = np.maximum(matrix, 0), np.minimum(matrix, 0)
    size = np.maximum(np.abs(low), np.abs(high)) @ np.abs(matrix)
    slack = size * (_SLACK + 2 * len(matrix) * UNIT) + _TINY
    return low @ up + high @ down - slack, high @ up + low @ down + slack


def multiply(x: Interval, y: Interval) -> Interval:
    products = [a * b for a in x for b in y]
    return outward(np.minimum.reduce(products), np.maximum.reduce(products))


def square(x: Interval) -> Interval:
    low, high = x
    largest = np.maximum(np.abs(low), np.abs(high)) ** 2
    smallest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)) ** 2)
    low, high = outward(smallest, largest)
    return np.maximum(low, 0.0), high


def add(x: Interval, y: Interval) -> Interval:
    return outward(x[0] + y[0], x[1] + y[1])


def exp_bounds(low: Array, high: Array) -> Interval:
    """Of numbers ≤ 0 that are themselves off by two units: exp magnifies that by their size."""
    units = 16 * UNIT
    least = np.exp(low) * (1 - units * (1 + np.abs(low))) - _TINY
    most = np.exp(high) * (1 + units * (1 + np.abs(high))) + _TINY
    return np.maximum(least, 0.0), most


def mean_bounds(light: Array, heavy: Array, values: Interval) -> Interval:
    """The range of Σ w v / Σ w over the last axis, each weight free in [light, heavy] ≥ 0.

    At the maximum, tokens valued above it weigh as much as they can and the rest as little as they
    can: with values in order, one of the n - 1 ways to cut the order in two. That is the
    linear-fractional corner argument with n - 1 corners looked at instead of 2^n. Weights that can
    all be zero leave the values themselves as the only bound.
    """
    size = 8 * light.shape[-1]
    low = -_largest_mean(light, heavy, -values[0])
    high = _largest_mean(light, heavy, values[1])
    reach = np.maximum(np.abs(values[0]), np.abs(values[1])).max(-1) * (_SLACK + size * UNIT)
    return low - reach - MEAN_TINY, high + reach + MEAN_TINY


def _largest_mean(light: Array, heavy: Array, values: Array) -> Array:
    order = np.argsort(values, axis=-1)
    values = np.take_along_axis(values, order, -1)
    shape = values.shape
    light = np.take_along_axis(np.broadcast_to(light, shape), order, -1)
    heavy = np.take_along_axis(np.broadcast_to(heavy, shape), order, -1)
    return largest_sorted_mean(light, heavy, values)


def largest_sorted_mean(light: Array, heavy: Array, values: Array) -> Array:
    """`_largest_mean` of values that ascend along the last axis.

    The last token is never below the mean and the first never above it, so n - 1 cuts are left.
    """
    below_weight = np.cumsum(light, axis=-1)
    below_sum = np.cumsum(light * values, axis=-1)
    above_weight = heavy[..., -1]
    above_sum = above_weight * values[..., -1]
    best: Array | float = -np.inf
    for cut in range(values.shape[-1] - 2, -1, -1):
        # Tokens after `cut` are heavy, tokens up to it light.
        mean = (above_sum + below_sum[..., cut]) / (above_weight + below_weight[..., cut])
        # A sum that overflowed downwards hides what its mean is.
        best = np.maximum(best, np.where(mean == -np.inf, np.inf, mean))
        above_weight = above_weight + heavy[..., cut]
        above_sum = above_sum + heavy[..., cut] * values[..., cut]
    # Where a total is no number to divide by, the largest value is still a bound.
    usable = (below_weight[..., -1] > LEAST_WEIGHT) & (above_weight < np.inf) & np.isfinite(best)
    return np.where(usable, best, values[..., -1])
