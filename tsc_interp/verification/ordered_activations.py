"""The four activations over float64 intervals.

Each falls to its only minimum and rises after it (ReLU does not fall). For x σ(z(x)), with z = x
(SiLU) or z = 2 √(2/π) (x + 0.044715 x³) (the tanh form of GELU), the derivative is
σ(z) (1 + x z' (1 - σ(z))): x z' and 1 - σ(z) both grow in size as x falls below zero, so there is
one zero, and none above zero.
"""

from __future__ import annotations

import numpy as np

from tsc_interp.verification.intervals import UNIT, Array, Interval, gelu_bounds

_TINY = 1e-300
_DIPS = {
    "silu": (-1.278464542761, -0.278464542761074),
    "gelu_new": (-0.752461422071, -0.1700407505712541),
}
"""Where the minimum is, and a number just below it."""


def activation_bounds(name: str, low: Array, high: Array) -> Interval:
    if name == "gelu":
        return gelu_bounds(low, high)
    if name == "relu":
        return np.maximum(low, 0.0), np.maximum(high, 0.0)
    argmin, least = _DIPS[name]
    ends = [_gated(name, end) for end in (low, high)]
    lows = np.minimum(*[value - off for value, off in ends])
    # Near the minimum a function is flat: a margin around it costs nothing.
    dips = (low < argmin + 1e-6) & (high > argmin - 1e-6)
    return np.where(dips, least, lows), np.maximum(*[value + off for value, off in ends])


def _gated(name: str, x: Array) -> tuple[Array, Array]:
    """x σ(z), and how far off: exp magnifies the few units of z by its size."""
    z = x if name == "silu" else 1.5957691216057308 * (x + 0.044715 * x**3)
    value = x / (1 + np.exp(-z))
    # Beyond 745 exp is 0 or infinite; the value is then x or zero, nearly.
    return value, np.abs(value) * UNIT * (64 + 32 * np.minimum(np.abs(z), 800)) + _TINY
