"""Quantities as linear functions of the residual stream plus a ball, and what is made of them.

Every function here holds for all values in the ranges of its arguments. The coefficients it chooses
are exact numbers near the best ones: the ball around what is left makes any choice true.

No ball is compared here: every judgement is the kernel's. Part of the checker (trellis_model.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flint import arb

from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.kernel import Ball

_CURVATURE = {"gelu": arb(0.8), "gelu_new": arb(1.0), "silu": arb(0.51)}
"""No second derivative is larger in size: it is at most 2 φ(0) = 0.798, below 1, and 1/2."""
_NODES = range(4, 257)
_PER_UNIT = 16


@dataclass(frozen=True)
class Form:
    """row · x + rest, which lies in `values`."""

    row: Any
    rest: Ball
    values: Ball = kernel.UNKNOWN

    def plus(self, constant: Ball) -> Form:
        return Form(self.row, self.rest + constant, self.values + constant)

    def times(self, factor: Ball) -> Form:
        return Form(self.row * factor, self.rest * factor, self.values * factor)

    def squared(self) -> Form:
        """Its square: between a parabola's chord and the tangent parallel to it."""
        low, high = self.values.lower(), self.values.upper()
        slope = low + high
        below = kernel.hull([arb(0), kernel.square(high - low) / 4])
        made = self.times(slope)
        return Form(made.row, made.rest - low * high - below, kernel.square(self.values))


def product(a: Form, b: Form) -> Form:
    """a b = a₀ b + b₀ a - a₀ b₀ ± rad a · rad b around the middles."""
    middle_a, middle_b = _middle(a.values), _middle(b.values)
    apart = (a.values - middle_a).abs_upper() * (b.values - middle_b).abs_upper()
    left, right = b.times(middle_a), a.times(middle_b)
    ends = [x * y for x in _ends(a.values) for y in _ends(b.values)]
    return Form(
        left.row + right.row,
        left.rest + right.rest - middle_a * middle_b + kernel.hull([-apart, apart]),
        kernel.hull(ends),
    )


def inverse_root(form: Form, eps: Ball) -> Form:
    """1/√(m + ε) of an m ≥ 0, which is convex: below its chord, above every tangent."""
    low, high = form.values.lower(), form.values.upper()
    low = low if kernel.is_positive(low) else arb(0)
    top, bottom = 1 / (low + eps).sqrt(), 1 / (high + eps).sqrt()
    slope = _near((bottom - top) / (high - low)) if kernel.is_less(low, high) else arb(0)
    # The chord, as far as its slope is not exact, is largest at one of the two ends.
    above = kernel.largest([top - slope * low, bottom - slope * high])
    touch = low
    if kernel.is_less(slope, arb(0)):
        touch = _near((-2 * slope) ** (arb(-2) / 3) - eps)
        touch = touch if kernel.is_at_most(low, touch) else low
        touch = touch if kernel.is_at_most(touch, high) else high
    at = 1 / (touch + eps).sqrt()
    tilt = (-(at**3) / 2 - slope).abs_upper()
    below = at - slope * touch - tilt * (high - low)
    made = form.times(slope)
    return Form(made.row, made.rest + kernel.hull([below, above]), kernel.hull([bottom, top]))


def activated(name: str, form: Form) -> Form:
    """act(p) = α p + ball, α the slope of the chord."""
    low, high = form.values.lower(), form.values.upper()
    values = kernel.activation(name, form.values)
    if not form.values.is_finite():
        return Form(form.row, kernel.UNKNOWN, kernel.UNKNOWN)
    at_low, at_high = (kernel.activation(name, end) for end in (low, high))
    slope = _near((at_high - at_low) / (high - low)) if kernel.is_less(low, high) else arb(0)
    left = kernel.hull(_differences(name, low, high, slope))
    made = form.times(slope)
    return Form(made.row, made.rest + left, values)


def _differences(name: str, low: Ball, high: Ball, slope: Ball) -> list[Ball]:
    """A hull of these holds act(p) - α p for every p between the two.

    ReLU is straight on both sides of zero. The others differ between two nodes from the line
    through them by no more than curvature · width² / 8.
    """
    if name == "relu":
        kinks = [arb(0)] if kernel.is_less(low, arb(0)) and kernel.is_less(arb(0), high) else []
        return [kernel.activation(name, p) - slope * p for p in (low, *kinks, high)]
    width = high - low
    wanted = math.ceil(float(width.upper()) * _PER_UNIT)
    count = min(max(wanted, _NODES[0]), _NODES[-1])
    step = width / count
    nodes = [low + step * i for i in range(count)] + [high]
    room = _CURVATURE[name] * kernel.square(step.abs_upper()) / 8
    found = [kernel.activation(name, p) - slope * p for p in nodes]
    return [value + kernel.hull([-room, room]) for value in found]


def _middle(ball: Ball) -> Ball:
    return _near(ball)


def _near(ball: Ball) -> Ball:
    """An exact number in the middle of a ball, or near it."""
    return arb(float(ball.mid())) if ball.is_finite() else kernel.UNKNOWN


def _ends(ball: Ball) -> tuple[Ball, Ball]:
    return ball.lower(), ball.upper()
