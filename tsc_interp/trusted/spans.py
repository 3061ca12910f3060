"""Interval arithmetic on arrays of float64, rounded outwards.

Balls (balls.py) are exact but slow; these decide thousands of leaves at once. The only assumption
is IEEE 754: +, -, *, / and √ of single numbers are rounded to the nearest, and a sum of n products,
in any order and with or without fused multiply-adds, is off by at most n units of the sum of their
sizes. `exp` and the like are never called: an activation is a table of Taylor polynomials whose
coefficients, and whose remainder over each cell, are balls, and exp is its series, squared.

A NaN stays in every minimum and maximum and fails every comparison, so it can only fail to prove.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, arb_series, ctx
from numpy.typing import NDArray

from tsc_interp.trusted import balls
from tsc_interp.trusted.balls import Ball

Floats = NDArray[np.float64]
UNIT = 2.0**-52
"""Twice what one operation rounds, relatively."""
TINY = 1e-300
"""More than all that underflows in one sum."""

_CELL, _ORDER = 1 / 32, 8
_REACH = {"gelu": 10.0, "gelu_new": 10.0, "silu": 40.0}
"""Beyond, an activation is next to zero on the left, and next to its argument on the right."""


_HALF, _LEAST, _MOST = 2.0**-53 * (1 + 2.0**-52), 2.0**-1074, float(np.finfo(np.float64).max)


def up(x: Any) -> Floats:
    """At least the next number above: x + (φ |x| + η), which is many times faster to find.

    φ |x| is more than half of how far numbers are apart there, so the sum is nearer to the next one
    than to x; where it underflows, η is as far as that.
    """
    finite = np.maximum(x, -_MOST)
    with np.errstate(over="ignore"):
        return np.asarray(finite + (np.abs(finite) * _HALF + _LEAST))


def down(x: Any) -> Floats:
    """At most the next number below."""
    return -up(np.negative(x))


@dataclass(frozen=True)
class Span:
    """Numbers between `low` and `high`."""

    low: Floats
    high: Floats

    @classmethod
    def exact(cls, x: Any) -> Span:
        return cls(np.asarray(x, dtype=np.float64), np.asarray(x, dtype=np.float64))

    @classmethod
    def of(cls, rows: Sequence[Sequence[Ball]]) -> Span:
        """Balls, with ends outside of them; NaN for what is not finite."""
        low = np.array([[_float(ball.lower()) for ball in row] for row in rows], dtype=np.float64)
        high = np.array([[_float(ball.upper()) for ball in row] for row in rows], dtype=np.float64)
        # Twice, for whichever way `float` has rounded.
        return cls(down(down(low)), up(up(high)))

    @property
    def middle(self) -> Floats:
        """Numbers near the middle, exact in themselves."""
        return np.asarray(self.low / 2 + self.high / 2)

    @property
    def radius(self) -> Floats:
        """At least the distance of both ends from `middle`."""
        return np.maximum(up(self.high - self.middle), up(self.middle - self.low))

    @property
    def size(self) -> Floats:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def __getitem__(self, at: Any) -> Span:
        return Span(self.low[at], self.high[at])

    def __neg__(self) -> Span:
        return Span(-self.high, -self.low)

    def __add__(self, other: Span) -> Span:
        return Span(down(self.low + other.low), up(self.high + other.high))

    def __sub__(self, other: Span) -> Span:
        return self + -other

    def __mul__(self, other: Span) -> Span:
        a, b, c, d = self.low, self.high, other.low, other.high
        first, second, third, fourth = a * c, a * d, b * c, b * d
        least = np.minimum(np.minimum(first, second), np.minimum(third, fourth))
        most = np.maximum(np.maximum(first, second), np.maximum(third, fourth))
        return Span(down(least), up(most))

    def __matmul__(self, other: Span) -> Span:
        """Matrix products, by middles and radii."""
        a, b, ra, rb = self.middle, other.middle, self.radius, other.radius
        terms = a.shape[-1] + 8
        apart = np.abs(a) @ rb + ra @ (np.abs(b) + rb)
        rounded = np.abs(a) @ np.abs(b) * (terms * UNIT)
        room = up(apart * (1 + terms * UNIT) + rounded + TINY)
        middle = a @ b
        return Span(down(middle - room), up(middle + room))

    def square(self) -> Span:
        most, least = self.size, np.minimum(np.abs(self.low), np.abs(self.high))
        least = np.where((self.low <= 0) & (self.high >= 0), 0.0, least)
        return Span(np.maximum(down(least * least), 0.0), up(most * most))

    def inverse(self) -> Span:
        """1/x of numbers above zero; NaN where they are not known to be."""
        with np.errstate(all="ignore"):
            bounds = Span(down(1 / self.high), up(1 / self.low))
        known = self.low > 0
        return Span(np.where(known, bounds.low, np.nan), np.where(known, bounds.high, np.nan))

    def root(self) -> Span:
        """√x of numbers that are not below zero, though their range may reach below."""
        low = np.maximum(self.low, 0.0)
        return Span(np.maximum(down(np.sqrt(low)), 0.0), up(np.sqrt(self.high)))

    def total(self, axis: int = -1) -> Span:
        """The sum along an axis."""
        room = up(self.size.sum(axis) * (self.low.shape[axis] * UNIT) + TINY)
        return Span(down(self.low.sum(axis) - room), up(self.high.sum(axis) + room))

    def reach(self, axis: int) -> Span:
        """From the lowest to the highest along an axis."""
        return Span(self.low.min(axis), self.high.max(axis))


def stacked(parts: Sequence[Span]) -> Span:
    """Spans of one shape behind each other."""
    return Span(np.stack([part.low for part in parts]), np.stack([part.high for part in parts]))


def share(n: int) -> Span:
    """One in n."""
    return Span(down(1 / np.array(float(n))), up(1 / np.array(float(n))))


def exponential(x: Span) -> Span:
    """exp, never below zero; infinite above where it may overflow."""
    return Span(_exponential(x.low).low, _exponential(x.high).high)


def _exponential(x: Floats) -> Span:
    """Of exact numbers: the series at x / 1024, where |x / 1024| < 0.74, squared ten times."""
    inside = np.clip(x, -745.0, 709.0)
    y, value = Span.exact(inside * 2.0**-10), Span.exact(np.ones_like(inside))
    for power in reversed(range(1, 17)):
        value = value * y * share(power) + Span.exact(np.array(1.0))
    # What is left out is below 0.74^17 / 17! · e^0.74 < 2^-53, and the value above 0.47.
    rest = value.high * 2.0**-50
    value = Span(down(value.low - rest), up(value.high + rest))
    for _ in range(10):
        value = Span(np.maximum(down(value.low * value.low), 0.0), up(value.high * value.high))
    low = np.where(x < -745.0, 0.0, value.low)
    high = np.where(x > 709.0, np.inf, value.high)
    return Span(np.where(np.isnan(x), np.nan, low), np.where(np.isnan(x), np.nan, high))


def around(*ends: Floats) -> Span:
    """Between the smallest and the largest of these."""
    return Span(np.minimum.reduce(ends), np.maximum.reduce(ends))


def activation(name: str, x: Floats) -> Span:
    """An activation of exact numbers."""
    if name == "relu":
        return Span.exact(np.maximum(x, 0.0))
    coefficients, least = _table(name)
    reach = _REACH[name]
    far = ~(np.abs(x) <= reach)
    inside = np.where(far, 0.0, x)
    cell = np.rint((inside + reach) / _CELL).astype(np.int64)
    t = Span.exact(inside) - Span.exact(cell * _CELL - reach)
    value = coefficients[cell, _ORDER]
    for power in reversed(range(_ORDER)):
        value = value * t + coefficients[cell, power]
    # Further left it rises to zero. On the right it is x plus its own value at -x.
    right = np.maximum(x, 0.0)
    return Span(np.where(far, down(right + least), value.low), np.where(far, right, value.high))


@lru_cache
def _table(name: str) -> tuple[Span, float]:
    """`[cell power]` Taylor coefficients, the last one over the whole cell; the value far left."""
    reach, rows = _REACH[name], []
    with ctx.workprec(160):
        for cell in range(round(2 * reach / _CELL) + 1):
            at = arb(cell) * arb(_CELL) - arb(reach)
            # A little more than half a cell: a number half-way between two belongs to either.
            whole = balls.hull([at - arb(0.51 * _CELL), at + arb(0.51 * _CELL)])
            near, all_over = (_series(name, x) for x in (at, whole))
            rows.append([*(near[power] for power in range(_ORDER)), all_over[_ORDER]])
        least = Span.of([[balls.activation(name, arb(-reach))]]).low[0, 0]
    return Span.of(rows), float(least)


def _series(name: str, x: Ball) -> Any:
    return balls.formula(name, arb_series([x, 1], prec=_ORDER + 1))


def _float(ball: Ball) -> float:
    return float(ball) if ball.is_finite() else float("nan")
