"""Which of two outputs is larger in float32: how large the real difference has to be.

`forward_rounding.py` bounds what outputs are off by. A comparison needs less. The final norm
divides both outputs by one positive number, so only errors of what is divided count; and what an
MLP makes of an error follows from the slopes of its neurons, which are known where their arguments
are. Let δ be an error of the residual stream before the MLP, at most L long once it is normalised.
Along a direction g the MLP adds Σ h_j σ'_j (w_j · δ), h = W_out g, which is at most
L (|Σ h_j c_j w_j| + Σ |h_j| r_j |w_j|) for slopes c_j ± r_j.

Part of the checker. No ball is compared here but by the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from flint import arb, ctx

from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.budget import require
from tsc_interp.verification.checker.forward_rounding import ForwardBound, balls
from tsc_interp.verification.checker.heads import Row, Spot
from tsc_interp.verification.checker.kernel import UNKNOWN, Ball
from tsc_interp.verification.checker.norm_rounding import Divided
from tsc_interp.verification.checker.rounding import (
    ACTIVATION_UNITS,
    PRECISION,
    SLOPE,
    TINY,
    U,
    gamma,
)

_PIECES = 16


def compared(
    bound: ForwardBound,
    length: int,
    reader: Spot,
    label: int,
    *,
    inner_scale: Ball | None = None,
    arguments: Sequence[Ball] | None = None,
) -> list[Ball]:
    """For each output j: if s (y_label - y_j) exceeds this, float32 says y_label > y_j.

    s is what the final norm divides by, 1 without one; so are differences stated where a search or
    a checker bounds them. One output counts as two, of which the first is zero.

    Args:
        bound: The model's.
        length: Letters in the string.
        reader: The token that reads, and its place.
        label: The output that is compared with the others.
        inner_scale: At most what the norm before the MLP divides by, in the strings meant.
        arguments: Where the neurons' arguments lie, in the strings meant.

    Returns:
        An exact number per output, or `UNKNOWN`; zero for the label itself.
    """
    require(not bound.config.gated_mlp, "neurons of a gated MLP have no slopes of their own")
    with ctx.workprec(PRECISION):
        # Nothing may overflow on the way: the plain bound looks at that.
        if not bound.room(length, reader).is_finite():
            return [UNKNOWN] * max(bound.config.n_outputs, 2)
        made = _Comparison(bound, length, reader, inner_scale, arguments)
        found = [made.between(label, j) for j in range(len(made.columns))]
        return [gap.upper() if gap.is_finite() else UNKNOWN for gap in found]


@dataclass(frozen=True)
class _Neurons:
    """Of every neuron: what it reads with (a column), its slope, and its own rounding."""

    columns: list[Row]
    middles: Row
    radii: Row
    own: Row
    """What its output is off by, beyond errors carried over."""
    reach: Row
    """At most so large is what float32 has of its output."""
    out: list[Row]


class _Comparison:
    def __init__(
        self,
        bound: ForwardBound,
        length: int,
        reader: Spot,
        inner: Ball | None,
        arguments: Sequence[Ball] | None,
    ) -> None:
        self.bound, self.config = bound, bound.config
        self.state = bound.before_mlp(length, reader)
        self.columns = [list(c) for c in zip(*balls(bound.weights["unembed.W_U"]), strict=True)]
        self.bias = bound.vector("unembed.b_U") or [arb(0)] * len(self.columns)
        if len(self.columns) == 1:
            self.columns = [[arb(0)] * self.config.d_model, *self.columns]
            self.bias = [arb(0), *self.bias]
        self.neurons: _Neurons | None = None
        self.reading: Divided | None = None
        if self.config.has_mlp:
            self.reading = bound.divided("blocks.0.ln2", self.state, inner)
            self.neurons = self._neurons(self.reading, arguments)
        self.reach, self.own = self._after()
        d = self.config.d_model
        self.off = [self._along([arb(int(i == k)) for k in range(d)]) for i in range(d)]
        self.reach = [size + off for size, off in zip(self.reach, self.off, strict=True)]

    def _neurons(self, read: Divided, arguments: Sequence[Ball] | None) -> _Neurons:
        config, weights = self.config, self.bound.weights
        into, bias = balls(weights["blocks.0.mlp.W_in"]), self.bound.vector("blocks.0.mlp.b_in")
        pre, units = read.through(into, bias), ACTIVATION_UNITS[config.act_fn] * U
        scale = read.norm.scale or [arb(1)] * config.d_model
        columns, middles, radii, own, reach = [], [], [], [], []
        for j, column in enumerate(zip(*into, strict=True)):
            known = pre[j]
            size = known.size
            slope = kernel.hull([-SLOPE + 1, SLOPE])
            if arguments is not None:
                size = kernel.smallest([size, abs(arguments[j]).upper()])
                slope = _slope(config.act_fn, arguments[j], known.error)
            middle, radius = slope.mid(), slope.rad()
            steepest = abs(middle) + radius
            fresh = known.error - read.carried_by(list(column))
            rounded = units * (size + known.error) + TINY
            own.append(steepest * fresh + rounded)
            reach.append(size + steepest * known.error + rounded)
            columns.append([w * x for w, x in zip(scale, column, strict=True)])
            middles.append(middle)
            radii.append(radius)
        return _Neurons(columns, middles, radii, own, reach, balls(weights["blocks.0.mlp.W_out"]))

    def _after(self) -> tuple[Row, Row]:
        """Sizes after the MLP, and what its last sums are off by by themselves."""
        sizes = [known.size for known in self.state]
        if self.neurons is None:
            return sizes, [arb(0)] * len(sizes)
        bias = self.bound.vector("blocks.0.mlp.b_out") or [arb(0)] * len(sizes)
        terms, own = len(self.neurons.reach) + 2, []
        for i, known in enumerate(self.state):
            column = [abs(row[i]) for row in self.neurons.out]
            reach = kernel.dot(self.neurons.reach, column) + abs(bias[i])
            rounded = gamma(terms) * reach + terms * TINY
            own.append(rounded + U * (known.size + known.error + reach + rounded) + TINY)
            sizes[i] = known.size + reach
        return sizes, own

    def _along(self, direction: Row) -> Ball:
        """What the state after the MLP can be off by along a direction."""
        weights = [abs(g) for g in direction]
        errors = [known.error for known in self.state]
        total = kernel.dot(errors, weights) + kernel.dot(self.own, weights)
        if self.neurons is None or self.reading is None:
            return total
        heard = [kernel.dot(row, direction) for row in self.neurons.out]
        read = [arb(0)] * self.config.d_model
        for h, c, column in zip(heard, self.neurons.middles, self.neurons.columns, strict=True):
            read = [x + h * c * w for x, w in zip(read, column, strict=True)]
        loose = arb(0)
        for h, r, own, column in zip(
            heard, self.neurons.radii, self.neurons.own, self.neurons.columns, strict=True
        ):
            total = total + abs(h) * own
            loose = loose + abs(h) * r * _norm(column)
        return total + self.reading.length * (_norm(read) + loose)

    def between(self, label: int, other: int) -> Ball:
        if label == other:
            return arb(0)
        config, d = self.config, self.config.d_model
        a, b = self.columns[label], self.columns[other]
        gap = [x - y for x, y in zip(a, b, strict=True)]
        both = [abs(x) + abs(y) for x, y in zip(a, b, strict=True)]
        constant = self.bias[label] - self.bias[other]
        wide = abs(self.bias[label]) + abs(self.bias[other])
        if not config.final_norm:
            reach = kernel.dot(self.reach, both) + wide
            return self._along(gap) + gamma(d + 3) * reach + 2 * (d + 3) * TINY
        norm = self.bound.norm("ln_final")
        scale, shift = norm.scale or [arb(1)] * d, norm.shift or [arb(0)] * d
        direction = [w * x for w, x in zip(scale, gap, strict=True)]
        mean = arb(0)
        if norm.centred:
            middle = sum(direction, arb(0)) / d
            direction = [x - middle for x in direction]
            mean = sum(self.reach, arb(0)) / d
        # By how much the scale can differ, and how large it is at most.
        drift = gamma(d + 2) * (mean + kernel.largest(self.reach)) * int(norm.centred)
        spread = _norm(self.off) / arb(d).sqrt() + drift
        square = sum((size**2 for size in self.reach), arb(0)) / d
        most = kernel.root(square + arb(config.norm_eps)).upper() + spread
        # The mean; then division, scale, shift and the sum of products, relative to all of them.
        constant = constant + kernel.dot(shift, gap)
        parts = [
            (size + mean + drift) * abs(w) + most * abs(moved)
            for size, w, moved in zip(self.reach, scale, shift, strict=True)
        ]
        units = gamma(2 * d + 12) + gamma(d + 6)
        fresh = (kernel.dot(parts, both) + most * wide) * units * (1 + units)
        fresh = fresh + drift * kernel.dot([abs(w) for w in scale], both)
        lost = (
            TINY
            * most
            * (4 * d + sum(((1 + abs(w)) * x for w, x in zip(scale, both, strict=True)), arb(0)))
        )
        return self._along(direction) + spread * abs(constant) + fresh + lost


def _norm(row: Sequence[Ball]) -> Ball:
    return kernel.root(sum((x**2 for x in row), arb(0)))


def _slope(name: str, x: Ball, error: Ball) -> Ball:
    """A ball around the slopes of an activation near these arguments."""
    low, high = (x - error.upper()).lower(), (x + error.upper()).upper()
    if name == "relu":
        ends = [arb(0)] if kernel.is_less(high, arb(0)) else [arb(1)]
        certain = kernel.is_less(high, arb(0)) or kernel.is_less(arb(0), low)
        return kernel.hull(ends if certain else [arb(0), arb(1)])
    width = (high - low) / _PIECES
    pieces = [low + width * k for k in range(_PIECES + 1)]
    found = kernel.hull(_derivative(name, kernel.hull([a, b])) for a, b in pairwise(pieces))
    widest = kernel.hull([-SLOPE + 1, SLOPE])
    return found if kernel.is_less(abs(found).upper(), 2 * SLOPE) else widest


def _derivative(name: str, x: Ball) -> Ball:
    if name == "gelu":  # Φ(x) + x φ(x)
        density = (-(kernel.square(x)) / 2).exp() / (2 * arb.pi()).sqrt()
        return (-x / arb(2).sqrt()).erfc() / 2 + x * density
    if name == "silu":
        logistic = 1 / (1 + (-x).exp())
        return logistic * (1 + x * (1 - logistic))
    inner = (arb(2) / arb.pi()).sqrt() * (x + arb(44715) / 10**6 * x**3)
    steep = (arb(2) / arb.pi()).sqrt() * (1 + 3 * arb(44715) / 10**6 * kernel.square(x))
    logistic = 1 / (1 + (-2 * inner).exp())
    return logistic + x * 2 * logistic * (1 - logistic) * steep
