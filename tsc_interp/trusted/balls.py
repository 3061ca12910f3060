"""Every comparison and bound on `arb` balls; an unknown ball proves nothing.

A ball holds a real number that is not known exactly. One that is not finite (NaN, an infinite
radius, an overflow) holds no information, and every function here answers so: a question is
answered False, a bound is `UNKNOWN`. So nothing that goes wrong in the arithmetic can ever prove
anything; it can only fail to. Balls are compared here and nowhere else, and takes no `min`
or `max` of them in Python, where a NaN would vanish (`test_kernel.py` holds both).

+, -, * and / of balls are `arb`'s own: they enclose, and keep what is not finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flint import arb

Ball = Any
"""A `flint.arb`, which has no types of its own."""
Range = tuple[Ball, Ball]
"""Exact ends, the lower one first."""

UNKNOWN: Ball = arb("nan")

# An activation falls to its only minimum, which lies between the first two and is above the third,
# and rises after it.
_DIPS: dict[str, tuple[Ball, Ball, Ball]] = {
    "gelu": (arb(-0.7518), arb(-0.7517), arb(-0.16997120748)),
    "gelu_new": (arb(-0.7525), arb(-0.7524), arb(-0.17004075058)),
    "silu": (arb(-1.2785), arb(-1.2784), arb(-0.27846454277)),
}


# -- questions: True only when it is proved ----------------------------------------------------


def is_positive(x: Ball) -> bool:
    return is_less(arb(0), x)


def is_not_positive(x: Ball) -> bool:
    return is_at_most(x, arb(0))


def is_less(x: Ball, y: Ball) -> bool:
    return bool(x.is_finite() and y.is_finite() and x < y)


def is_at_most(x: Ball, y: Ball) -> bool:
    return bool(x.is_finite() and y.is_finite() and x <= y)


# -- bounds ------------------------------------------------------------------------------------


def hull(balls: Iterable[Ball]) -> Ball:
    """A ball around all of these, `UNKNOWN` if one of them is not finite or there are none."""
    whole: Ball | None = None
    for ball in balls:
        if not ball.is_finite():
            return UNKNOWN
        whole = ball if whole is None else whole.union(ball)
    return UNKNOWN if whole is None else whole


def smallest(balls: Iterable[Ball]) -> Ball:
    """A ball around the smallest of these, `UNKNOWN` if one is not finite or there are none."""
    least: Ball | None = None
    for ball in balls:
        if not ball.is_finite():
            return UNKNOWN
        least = ball if least is None else least.min(ball)
    return UNKNOWN if least is None else least


def largest(balls: Iterable[Ball]) -> Ball:
    return -smallest(-ball for ball in balls)


def square(x: Ball) -> Ball:
    """x² without the values below zero that x · x would admit."""
    return hull([x.abs_lower() ** 2, x.abs_upper() ** 2])


def root(x: Ball) -> Ball:
    """√x of a number known to be ≥ 0, though its ball may reach below."""
    if not x.is_finite():
        return UNKNOWN
    low, high = x.lower(), x.upper()
    return hull([low.sqrt() if is_positive(low) else arb(0), high.sqrt()])


def clamp(x: Ball, most: Ball) -> Ball:
    """x, of which -most ≤ x ≤ most is known as well."""
    if not x.is_finite():
        return UNKNOWN
    low, high = x.lower(), x.upper()
    return hull([low if is_less(-most, low) else -most, high if is_less(high, most) else most])


def exp_range(x: Ball) -> Range:
    """Ends of exp over a ball; exp is above zero, whatever the ball's rounding says."""
    power = x.exp()
    low, high = power.lower(), power.upper()
    return (low if is_positive(low) else arb(0)), high


def activation(name: str, x: Ball) -> Ball:
    """An activation over a ball: its extremes are at the ends or in the dip."""
    low, high = x.lower(), x.upper()
    if name == "relu":
        if not x.is_finite():
            return UNKNOWN
        return hull([end if is_positive(end) else arb(0) for end in (low, high)])
    values = [formula(name, end) for end in (low, high)]
    left, right, below = _DIPS[name]
    falls, rises = is_at_most(high, left), is_at_most(right, low)
    return hull(values if falls or rises else [*values, below])


def formula(name: str, x: Ball) -> Ball:
    """An activation by its formula, of a ball or of a power series; nothing where x is not."""
    if name == "gelu":  # x Φ(x)
        return x * (-x / arb(2).sqrt()).erfc() / 2
    if name == "silu":
        return x / (1 + (-x).exp())
    if name == "gelu_new":  # x (1 + tanh u) / 2 with a cubic u
        cubic = (arb(2) / arb.pi()).sqrt() * (x + arb(44715) / 10**6 * x * x * x)
        return x / (1 + (-2 * cubic).exp())
    return UNKNOWN


def score_factor(d_head: int, stated: float) -> Ball:
    """What a query times a key is multiplied by, besides log n; `stated` is a divisor, or zero."""
    return 1 / (arb(stated) if stated else arb(d_head).sqrt())


def dot(a: Sequence[Ball], b: Sequence[Ball]) -> Ball:
    return sum((p * q for p, q in zip(a, b, strict=True)), arb(0))
