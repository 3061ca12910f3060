"""Bounds quantities by linear functions of the residual stream plus an interval.

Every function here holds for all values in the ranges of its arguments. The coefficients it chooses
are exact numbers near the best ones: the interval around what is left makes any choice true.
A row may have one more column, for what a norm multiplies all of a region's quantities by. Only
the sum of all that depends on it is resolved: errors of single quantities would not cancel.

Many regions at once, in `Span`s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tsc_interp.trusted.spans import Floats, Span, activation, around, share, up

_CURVATURE = {"gelu": (0.80, 0.11), "gelu_new": (0.81, 0.12), "silu": (0.51, 0.10)}
"""No second derivative is larger than the first, or below minus the second."""
_NODES, _NARROW = 32, 2.0**-20
"""Parts of a range; one where all ranges are as narrow as this, which single inputs have."""


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

    def wider(self, columns: int) -> Form:
        """With so many more columns, none of which counts."""
        shape = (*self.row.low.shape[:-1], columns)
        ends = (np.concatenate([end, np.zeros(shape)], -1) for end in (self.row.low, self.row.high))
        return Form(Span(*ends), self.rest, self.values)

    def resolved(self, last: Form) -> Form:
        """Without the last column, whose quantity this form `[set 1]` bounds."""
        times = self.row[..., -1]
        row = self.row[..., :-1] + times[..., None] * last.row
        return Form(row, self.rest + times * last.rest, self.values)

    def mean(self) -> Form:
        """Of all quantities of a set: `[set 1]`."""
        parts = (part.total(1) * share(part.low.shape[1]) for part in
                 (self.row, self.rest, self.values))  # fmt: skip
        return Form(*(part[:, None] for part in parts))

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
    """1/√(m + ε) of an m ≥ 0."""
    half = Span.exact(np.array(-0.5))

    def steep(at: Span) -> Span:
        return at * at * at * half

    return _bent(form, lambda x: _root(x, eps).inverse(), steep,
                 lambda slope: (-2 * slope) ** (-2 / 3) - eps)  # fmt: skip


def root(form: Form, eps: float) -> Form:
    """√(m + ε) of an m ≥ 0."""
    half = Span.exact(np.array(0.5))
    return _bent(form, lambda x: _root(x, eps), lambda at: at.inverse() * half,
                 lambda slope: (2 * slope) ** -2.0 - eps)  # fmt: skip


def _bent(
    form: Form, value: Callable[[Floats], Span], steep: Callable[[Span], Span],
    touch: Callable[[Floats], Floats],
) -> Form:  # fmt: skip
    """A monotone function that is convex, or concave: between its chord and a tangent.

    Args:
        form: Its argument, which is not below zero.
        value: The function of exact numbers.
        steep: Its slope where it has a value.
        touch: About where it has a slope. The tangent there is parallel to the chord, but for what
            `tilt` says.
    """
    low, high = np.maximum(form.values.low, 0.0), form.values.high
    first, last = value(low), value(high)
    with np.errstate(all="ignore"):
        slope = np.where(high > low, (last.middle - first.middle) / (high - low), 0.0)
        point = touch(slope)
    point = np.clip(np.where(np.isnan(point), low, point), low, high)
    chosen, at = Span.exact(slope), value(point)
    chord = [end - chosen * Span.exact(x) for end, x in ((first, low), (last, high))]
    tilt = Span.exact((steep(at) - chosen).size) * (Span.exact(high) - Span.exact(low))
    tangent = at - chosen * Span.exact(point) + Span(-tilt.high, tilt.high)
    rest = around(*(x for part in (tangent, *chord) for x in (part.low, part.high)))
    scaled = form.times(slope)
    values = around(first.low, first.high, last.low, last.high)
    return Form(scaled.row, scaled.rest + rest, values)


def _root(x: Floats, eps: float) -> Span:
    return (Span.exact(x) + Span.exact(np.array(eps))).root()


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
    parts = 1 if (high - low < _NARROW).all() else _NODES
    upper = np.arange(parts + 1) / parts
    nodes = low[..., None] * (1 - upper) + high[..., None] * upper
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
