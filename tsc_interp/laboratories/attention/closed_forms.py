"""Softmax attention over keys in special position, worked out.

With all other scores equal, the leading one of n keys has weight 1 / (1 + (n - 1) exp(-margin)).
The logistic of a normal number with standard deviation s has the cumulative distribution
Φ(logit(w) / s). Its moments are integrals of a smooth function against the normal density, for
which the trapezoidal rule is exact to rounding once its step is small beside 1 / s.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtr

Floats = NDArray[np.float64]
_REACH, _STEPS = 10.0, 40_001


def margin_for(epsilon: float, keys: int) -> float:
    """By how much a score must lead `keys - 1` others for a weight of 1 - epsilon."""
    return math.log(keys - 1) + math.log1p(-epsilon) - math.log(epsilon)


def weight_on_pair(scale: float, keys: int) -> float:
    """On a and b together, for orthonormal keys and the query C (k_a + k_b)."""
    return 2 / (2 + (keys - 2) * math.exp(-scale))


def deviation(scale: float, spread: float, alpha: float, *, varying: int) -> float:
    """Of q·k_a - q·k_b with q = C (μ_a + μ_b); `varying` of the two keys vary in norm."""
    return scale * math.sqrt(varying * spread + 4 * alpha)


def share_at_most(shares: ArrayLike, deviation: float) -> Floats:
    """How often the logistic of N(0, deviation²) is at most this."""
    return np.asarray(ndtr(logit(np.asarray(shares, dtype=np.float64)) / deviation))


def logistic_moments(mean: float, deviation: float) -> tuple[float, float]:
    """Mean and variance of the logistic of a normal number."""
    z = np.linspace(-_REACH, _REACH, _STEPS)
    density = np.exp(-(z**2) / 2)
    density /= density.sum()
    shares = expit(mean + deviation * z)
    first = float(density @ shares)
    return first, float(density @ (shares - first) ** 2)


def one_head(scale: float, spread: float, alpha: float, *, varying: int) -> tuple[float, float]:
    """Mean and variance of v_a's share of the output, two keys, one query for both."""
    return logistic_moments(0.0, deviation(scale, spread, alpha, varying=varying))


def two_heads(scale: float, spread: float, alpha: float, *, varying: int) -> tuple[float, float]:
    """The same for the mean of two heads, with queries C μ_a and C μ_b.

    Head 1's weight of a is the logistic of C μ_a·(k_a - k_b), head 2's weight of b that of
    C μ_b·(k_b - k_a). Both have mean C, and they are independent: noise along μ_a is none of μ_b's.
    """
    of_a, of_b = (
        logistic_moments(scale, scale * math.sqrt(own * spread + 2 * alpha))
        for own in (varying >= 1, varying >= 2)
    )
    return (of_a[0] + 1 - of_b[0]) / 2, (of_a[1] + of_b[1]) / 4


def turned(spread: float) -> float:
    """How often a key drawn around norm 1 points the other way: its head then turns from it."""
    return float(ndtr(-1 / math.sqrt(spread)))
