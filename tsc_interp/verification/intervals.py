"""Float64 intervals, many at once: the few operations a transformer block needs.

An interval is a pair of arrays (low, high) that encloses the real number. Each operation moves its
ends outwards by more than its own rounding error (`_SLACK` relative, `_TINY` absolute), which is
simpler than switching the processor's rounding mode and costs a few bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[Array, Array]

UNIT = 2.0**-53
_SLACK = 16 * UNIT
_TINY = 1e-300

# GELU falls to its only minimum and rises after it; both numbers rounded outwards.
_GELU_ARGMIN = -0.7517915246935645
_GELU_MIN = -0.1699712074799037


def outward(low: Array, high: Array, terms: int = 1) -> Interval:
    """Make room for the rounding of a sum of about `terms` terms no larger than the ends."""
    slack = _SLACK + terms * UNIT
    return low - slack * np.abs(low) - _TINY, high + slack * np.abs(high) + _TINY


def gelu(x: Array) -> Array:
    from scipy.special import ndtr

    return np.asarray(x * ndtr(x))


def gelu_bounds(low: Array, high: Array) -> Interval:
    at_low, at_high = gelu(low), gelu(high)
    dips = (low < _GELU_ARGMIN) & (high > _GELU_ARGMIN)
    least = np.where(dips, _GELU_MIN, np.minimum(at_low, at_high))
    return outward(least, np.maximum(at_low, at_high))


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


def mean_bounds(light: Array, heavy: Array, values: Interval) -> Interval:
    """The range of Σ w v / Σ w over the last axis, each weight free in [light, heavy] ≥ 0.

    At the maximum, tokens valued above it weigh as much as they can and the rest as little as they
    can: with values in order, one of the n + 1 ways to cut the order in two. That is the
    linear-fractional corner argument with n + 1 corners looked at instead of 2^n. Weights that can
    all be zero leave the values themselves as the only bound.
    """
    size = 8 * light.shape[-1]
    low = -_largest_mean(light, heavy, -values[0])
    high = _largest_mean(light, heavy, values[1])
    reach = np.maximum(np.abs(values[0]), np.abs(values[1])).max(-1) * (_SLACK + size * UNIT)
    return low - reach - _TINY, high + reach + _TINY


def _largest_mean(light: Array, heavy: Array, values: Array) -> Array:
    order = np.argsort(values, axis=-1)
    values = np.take_along_axis(values, order, -1)
    shape = values.shape
    light = np.take_along_axis(np.broadcast_to(light, shape), order, -1)
    heavy = np.take_along_axis(np.broadcast_to(heavy, shape), order, -1)
    return largest_sorted_mean(light, heavy, values)


def largest_sorted_mean(light: Array, heavy: Array, values: Array) -> Array:
    """`_largest_mean` of values that ascend along the last axis."""
    best = np.full(np.broadcast_shapes(light.shape, values.shape)[:-1], -np.inf)
    above_weight: Array = np.zeros(heavy.shape[:-1])
    above_sum: Array = np.zeros(best.shape)
    below_weight = np.cumsum(light, axis=-1)
    below_sum = np.cumsum(light * values, axis=-1)
    for cut in range(values.shape[-1] - 1, -2, -1):
        # Tokens after `cut` are heavy, tokens up to it light.
        weight = above_weight + (below_weight[..., cut] if cut >= 0 else 0.0)
        total = above_sum + (below_sum[..., cut] if cut >= 0 else 0.0)
        usable = weight > 1e-280
        mean = total / np.where(usable, weight, 1.0)
        best = np.maximum(best, np.where(usable, mean, -np.inf))
        if cut >= 0:
            above_weight = above_weight + heavy[..., cut]
            above_sum = above_sum + heavy[..., cut] * values[..., cut]
    # A light total too small to divide by may hide a larger mean: fall back on the largest value.
    hidden = below_weight[..., -1] <= 1e-280
    return np.where(hidden | ~np.isfinite(best), values[..., -1], best)
