"""The activations of an MLP over float64 intervals, each good to a stated error.

All but ReLU fall to their only minimum and rise after it, so their extremes over an interval are at
its ends or in the dip. Where each of them is close to zero far to the left, how exact NumPy's and
SciPy's functions are, and where the dip is, is tested against `arb`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tsc_interp.verification.bounds.intervals import UNIT, Array, Interval

_TINY = 1e-300


@dataclass(frozen=True)
class Activation:
    value: Callable[[Array], Array]
    growth: Callable[[Array], Array]
    """Units by which `value` is off relatively, beyond 64, for x ≤ 0."""
    argmin: float
    minimum: float
    """Both rounded outwards."""
    gone: float
    """Up to here the activation lies between -1e-300 and 0."""

    def bounds(self, low: Array, high: Array) -> Interval:
        ends = np.maximum((low, high), self.gone)
        values = self.value(ends)
        units = 64 + self.growth(np.minimum(ends, 0.0))
        slack = np.abs(values) * (UNIT * units) + _TINY
        dips = (low < self.argmin) & (high > self.argmin)
        least = np.where(dips, self.minimum, np.minimum(*(values - slack)))
        return least, np.maximum(*(values + slack))


def gelu(x: Array) -> Array:
    from scipy.special import ndtr

    return np.asarray(x * ndtr(x))


def _gelu_new(x: Array) -> Array:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(x / (1 + np.exp(-2 * inner)))


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


ACTIVATIONS = {
    # SciPy has Φ(x) = erfc(|x| / √2) / 2 left of -√2, and erfc as exp(-x²/2) times a rational
    # function. Three roundings on the way to x²/2 move it by up to 2.5 x² units, and exp makes that
    # a relative error; the rest, and Φ nearer to zero and beyond, is good to a few units.
    # |x Φ(x)| ≤ exp(-x²/2).
    "gelu": Activation(gelu, lambda x: 4 * x**2, -0.7517915246935645, -0.1699712074799037, -40.0),
    # x times the logistic function of a cubic, whose relative error exp makes an absolute one.
    "gelu_new": Activation(
        _gelu_new,
        lambda x: 32 * (np.abs(x) + 0.05 * np.abs(x) ** 3),
        -0.7524614220710163,
        -0.17004075057125408,
        -22.0,
    ),
    "silu": Activation(
        _silu, lambda x: 8 * np.abs(x), -1.2784645427610738, -0.2784645427610739, -720.0
    ),
    "relu": Activation(_relu, np.zeros_like, 0.0, 0.0, -1.0),
}
