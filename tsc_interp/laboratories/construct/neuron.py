"""Contains a and b with one head and one neuron: the fewest weights that can do it.

Measure positions from a threshold: a stands at -A, b at 1, every other letter at -C. The head
weighs a letter at u by e^(K u): b weighs B = e^(K (1 + A)) times what a does, any other letter next
to nothing, G = e^(-K (C - A)). With u the mean position in a string, one GELU neuron gives the
logit the sign of

    u (Phi(-2 u) / Phi(-2 h) - 1),    which is positive exactly where 0 < u < h.

- Without b, u is negative. b alone stands at 1 > h, and c is too light to pull it below h.
- One a among many b pulls the mean below h, and many a do not pull one b below 0.

L letters a outweigh one b and L - 1 do not, which makes the horizon L. The other conditions hold
for strings twice as long. The documentation (laboratories/construct) has the proofs, and shows that
no model of this family has fewer weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import lambertw, ndtr

from tsc_interp.config import ClassifierConfig
from tsc_interp.laboratories.construct.written import Construction, embedding, written

GATE = 2.0
"""W_in: a larger one separates h from its neighbours better, until float32 loses Phi(-2 h)."""


@dataclass(frozen=True)
class Placed:
    """Where letters stand, in units of b's distance from the threshold."""

    sharpness: float
    """K."""
    a: float
    """A."""
    apart: int
    """C - A, how far the other letters are from a."""
    end: float
    """h."""


def placed(length: int) -> Placed:
    """Positions for a horizon of exactly `length`.

    Example:
        >>> placed(1000)  # doctest: +ELLIPSIS
        Placed(sharpness=1.0, a=0.002727..., apart=19, end=0.999816...)
    """
    sharpness = min(1.0, length / 10)
    # A = B / (L - 1/2) with B = e^(K (1 + A)): the smaller solution.
    a = -float(lambertw(-sharpness * math.exp(sharpness) / (length - 0.5)).real) / sharpness
    b, twice = math.exp(sharpness * (1 + a)), 2 * length
    beyond = (1 + a) / (1 + b * (twice - 1))  # 1 - u of one a among b
    apart = 1
    while _pulled(b, math.exp(-sharpness * apart), 1 + a + apart, twice) > beyond:
        apart += 1
    return Placed(sharpness, a, apart, 1 - beyond)


def _pulled(b: float, other: float, distance: float, length: int) -> float:
    """1 - u of one b among other letters that weigh `other` and stand `distance` from it."""
    return distance * other * (length - 1) / (b + other * (length - 1))


def one_neuron(config: ClassifierConfig, positive: str, length: int) -> Construction:
    """The model for two letters, right up to exactly `length`: one head, one neuron."""
    small = config.replace(n_heads=1, d_mlp=1)
    at = placed(length)
    first, second = positive[0], positive[1]
    others = {t: at.apart for t in config.alphabet.letters if t not in positive}
    size = math.sqrt(at.sharpness / at.a)
    weights = {
        # The first letter is at the origin, and CLS plus the mean of the letters is -u.
        "W_E": embedding(small, at.a, {second: -(1 + at.a), **others}),
        "W_Q": -size,
        "W_K": size,
        "W_V": 1,
        "W_O": 1,
        "W_in": GATE,
        "W_out": -1 / (GATE * ndtr(-GATE * at.end)),
        "W_U": 1,
    }
    how = f"one head finds {second}, {first} pulls it back, and a neuron makes an interval positive"
    return written(small, weights, how, length, exactly=True)
