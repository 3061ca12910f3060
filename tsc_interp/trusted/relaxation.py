"""Bounds quantities by linear functions of the residual stream plus an interval.

Every function here holds for all values in the ranges of its arguments. The coefficients it chooses
are exact numbers near the best ones: the interval around what is left makes any choice true.

Many regions at once, in `Span`s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tsc_interp.trusted.spans import Floats, Span, activation, around, up

_CURVATURE = {"gelu": (0.80, 0.11), "gelu_new": (0.81, 0.12), "silu": (0.51, 0.10)}
"""No second derivative is larger than the first, or below minus the second."""
_NODES = 32


@dataclass(frozen=True)
class Form:
    """row · x + rest, which lies in `values`: `row [... d]`, the others `[...]`."""

    row: Span
    rest: Span
    values: Span

    def __getitem__(self, at: slice) -> Form:
        """Some of the quantities, `[set quantity]`."""
        return Form(self.row[:, at], self.rest[:, at], self.values[:, at])

    def plus(self, constant: Span) -> Form:
        return Form(self.row, self.rest + constant, self.values + constant)

    def flat(self) -> Form:
        """By its range alone."""
        nothing = np.zeros_like(self.row.low)
        return Form(Span.exact(nothing), self.values, self.values)

    def times(self, factor: Floats) -> Form:
        """By exact numbers."""
        by = Span.exact(factor)
        return Form(self.row * Span.exact(factor[..., None]), self.rest * by, self.values * by)

    def squared(self) -> Form:
        """x² = s x + [-s²/4, the larger of what it is at the ends], whatever s."""
        ends = Span.exact(self.values.low), Span.exact(self.values.high)
        chosen = self.values.low + self.values.high
        slope = Span.exact(chosen)
        least = slope.square() * Span.exact(np.array(-0.25))
        most = [end * (end - slope) for end in ends]
        rest = around(least.low, *(end.high for end in most))
        scaled = self.times(chosen)
        return Form(scaled.row, scaled.rest + rest, self.values.square())


def product(a: Form, b: Form) -> Form:
    """a b = a₀ b + b₀ a - a₀ b₀ ± rad a · rad b around the middles."""
    middle_a, middle_b = a.values.middle, b.values.middle
    apart = up(a.values.radius * b.values.radius)
    left, right = b.times(middle_a), a.times(middle_b)
    centre = Span.exact(middle_a) * Span.exact(middle_b)
    rest = left.rest + right.rest - centre + Span(-apart, apart)
    return Form(left.row + right.row, rest, a.values * b.values)


def inverse_root(form: Form, eps: float) -> Form:
    """1/√(m + ε) of an m ≥ 0, which is convex: below its chord, above every tangent."""
    low, high = np.maximum(form.values.low, 0.0), form.values.high
    top, bottom = _inverse_root(low, eps), _inverse_root(high, eps)
    with np.errstate(all="ignore"):
        slope = np.where(high > low, (bottom.middle - top.middle) / (high - low), 0.0)
        touch = np.where(slope < 0, (-2 * slope) ** (-2 / 3) - eps, low)
    touch = np.clip(touch, low, high)
    chosen, at = Span.exact(slope), _inverse_root(touch, eps)
    # The chord, as far as its slope is not exact, is largest at one of the two ends.
    above = [at_end - chosen * Span.exact(end) for at_end, end in ((top, low), (bottom, high))]
    tilt = (at * at * at * Span.exact(np.array(0.5)) + chosen).size
    width = Span.exact(high) - Span.exact(low)
    below = at - chosen * Span.exact(touch) - Span.exact(tilt) * width
    rest = around(below.low, *(end.high for end in above))
    scaled = form.times(slope)
    return Form(scaled.row, scaled.rest + rest, Span(bottom.low, top.high))


def _inverse_root(x: Floats, eps: float) -> Span:
    return (Span.exact(x) + Span.exact(np.array(eps))).root().inverse()


def activated(name: str, form: Form) -> Form:
    """act(p) = α p + interval, α the slope of the chord."""
    low, high = form.values.low, form.values.high
    nodes = _nodes(name, low, high)
    values = activation(name, nodes)
    with np.errstate(all="ignore"):
        rise = values.middle[..., -1] - values.middle[..., 0]
        slope = np.where(high > low, rise / (high - low), 0.0)
    residual = values - Span.exact(nodes) * Span.exact(slope[..., None])
    below, above = _bends(name, nodes)
    scaled = form.times(slope)
    rest = scaled.rest + residual.reach(-1) + Span(-below, above)
    return Form(scaled.row, rest, values.reach(-1) + Span(-below, above))


def _nodes(name: str, low: Floats, high: Floats) -> Floats:
    """Rising exact numbers from end to end: of ReLU, which is straight elsewhere, the bend."""
    if name == "relu":
        return np.stack([low, np.clip(0.0, low, high), high], axis=-1)
    share = np.arange(_NODES + 1) / _NODES
    nodes = low[..., None] * (1 - share) + high[..., None] * share
    nodes = np.clip(nodes, low[..., None], high[..., None])
    nodes[..., 0], nodes[..., -1] = low, high
    return np.asarray(np.maximum.accumulate(nodes, axis=-1))


def _bends(name: str, nodes: Floats) -> tuple[Floats, Floats]:
    """How far below and above its chords between two nodes an activation can be."""
    if name == "relu":
        zero = np.zeros(nodes.shape[:-1])
        return zero, zero
    gap = up(np.diff(nodes, axis=-1)).max(-1)
    convex, concave = _CURVATURE[name]
    square = up(up(gap * gap) / 8)
    return up(square * convex), up(square * concave)
