"""Bounds output j minus output k over regions of inputs, many regions at once.

`Attended` says what attention adds to the residual stream x of the token that reads: its extremes
along any direction. Then a margin is bounded as one linear function of x plus an interval:

    z = u · x                                    what a neuron reads, its range from its extremes
    s² = σ s + interval                          a coordinate that a norm squares
    t = 1/√(m + ε) = τ m + interval              what a norm multiplies by, m the mean square
    z t = z₀ t + t₀ z - z₀ t₀ ± rad z · rad t    and a gate times what it lets through likewise
    act(p) = α p + interval                      by its values at nodes and its second derivative

The coefficients are free: with any, the interval holds what is left. So margin = L · x + interval,
and the extreme of L · x over the region is bounded by `means.py`. Where a final norm divides all
outputs by its scale, the margin is bounded times that scale, which is positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from flint import arb_mat, ctx
from numpy.typing import NDArray

from tsc_interp.trusted.float_layer import LayerErrors, Rounded
from tsc_interp.trusted.forward import Forward
from tsc_interp.trusted.relaxation import Form, activated, inverse_root, product
from tsc_interp.trusted.spans import Floats, Span, down, share, up

BITS = 96
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Attended(Protocol):
    """What the reading token holds after the last attention, in some regions."""

    @property
    def base(self) -> Span:
        """`[region d]`: its own residual."""

    @property
    def reach(self) -> Span:
        """`[region d]`: all values after attention."""

    def highest(self, q: Floats, enough: Floats | None = None) -> Floats:
        """At least q · (what the heads add) everywhere in a region: `[region row]`.

        Args:
            q: `[region row d]` exact numbers; one region stands for all.
            enough: `[region row]` bounds below this need not be improved.
        """


class Margins:
    """Margins of one model."""

    def __init__(self, forward: Forward) -> None:
        self.spec, self.rounding = forward.spec, LayerErrors(forward)
        with ctx.workprec(BITS):
            read = forward.readout()
            self._spans = {
                "outer": Span.of(read.outer.tolist()),
                "after": Span.of((read.out_bias * read.outer).tolist()),
                "shift": Span.of([read.shift]),
                "moved": Span.of((read.out_bias * read.centred).tolist()),
            }
            if self.spec.d_mlp:
                self._spans["gains"] = Span.of((read.out * read.outer).tolist())
                self._spans["added"] = Span.of((read.out * read.centred).tolist())
                self._spans["inner"] = Span.of([read.inner_bias])
                self._spans["gate"] = Span.of([read.gate_bias])
                self._spans["late"] = Span.of([read.late_bias])
            rows, shape = Span.of(_beside(self._blocks(read)).tolist()), (self.spec.d_model, -1)
            self._directions = Span(rows.low.reshape(shape).T, rows.high.reshape(shape).T)
        classes = range(self.spec.n_classes)
        same = [forward.same_outputs(i) for i in classes]
        self._same = np.array([[j in same[i] for j in classes] for i in classes])

    @property
    def rows(self) -> int:
        """How many directions are bounded at once."""
        return 2 * max(len(self._directions.low), self.spec.n_classes)

    def beats(
        self, attended: Attended, winner: Index, wanted: Mask, rounded: Rounded | None = None
    ) -> Mask:
        """Whether the winner is the answer rather than each wanted class, in all of a region.

        Args:
            attended: The regions.
            winner: `[region]` a class.
            wanted: `[region class]` the classes it is to beat; of equal outputs over the reals the
                one with the lower index is the answer.
            rounded: Where float32, in any order of its sums, is asked about too.
        """
        used = np.flatnonzero(wanted.any(0))
        with np.errstate(all="ignore"):  # what is no number fails every comparison
            gap = self.gaps(attended, winner, used, rounded)
        return np.asarray((self.won(gap, winner) | ~wanted).all(1))

    def won(self, gaps: Floats, winner: Index) -> Mask:
        """Which margins are won: of equal outputs the one with the lower index is the answer."""
        return np.asarray(
            (gaps > 0) | ((gaps == 0) & (winner[:, None] < np.arange(self.spec.n_classes)))
        )

    def _blocks(self, read: Any) -> list[Any]:
        """Directions of x that are bounded: neurons, gates, and the state that norms divide by."""
        blocks = [arb_mat(self.spec.d_model, 0)]
        if self.spec.d_mlp:
            blocks += [read.inner, *([] if read.gates is None else [read.gates])]
        if self.spec.has_norm or self.spec.final_norm:
            blocks.append(read.centred)
        return blocks

    def gaps(
        self, attended: Attended, winner: Index, used: Index, rounded: Rounded | None = None
    ) -> Floats:
        """`[region class]`: below the winner's output minus each used one's, in all of a region.

        Where a final norm divides them, times its scale. Where float32 is asked about, also below
        what float32 makes of it, in any order of sums, times the scale that it has.
        """
        ranges = self._ranges(attended, rounded)
        posts = self._posts(ranges, rounded)
        gaps = self._lowest(attended, winner, used, ranges, posts, rounded)
        if posts is not None and not (gaps[:, used] > 0).all():
            # Over wide ranges a chord is worse than the range of the activation alone.
            flat = posts.flat()
            gaps = np.fmax(gaps, self._lowest(attended, winner, used, ranges, flat, rounded))
        return gaps

    def _lowest(
        self, attended: Attended, winner: Index, used: Index, ranges: Span, posts: Form | None,
        rounded: Rounded | None,
    ) -> Floats:  # fmt: skip
        """The same with neurons bounded so."""
        form, off = self._margins(winner, ranges, posts, rounded)
        base, reach = attended.base, attended.reach
        chosen = form.row.middle
        exact, moved = Span.exact(chosen), np.zeros(off.shape)
        if rounded is not None:
            reach = reach + around_zero(rounded.along(np.eye(self.spec.d_model)[None]))
            moved = rounded.along(chosen)
        constant = form.rest + (exact * base[:, None]).total()
        constant = constant + ((form.row - exact) * reach[:, None]).total()
        least = down(constant.low - moved)
        bound = np.full(least.shape, np.inf)
        # Only what is needed: gap = constant - (the highest of -L · x).
        bound[:, used] = attended.highest(-chosen[:, used], least[:, used])
        return np.where(self._same[winner], 0.0 - off, down(least - bound))

    def _margins(
        self, winner: Index, ranges: Span, posts: Form | None, rounded: Rounded | None
    ) -> tuple[Form, Floats]:
        """The winner's output minus each one's, as a linear function of x and an interval.

        And how much of that interval float32 rounds after the activations.
        """
        spec, spans, every = self.spec, self._spans, np.arange(self.spec.n_classes)

        def apart(name: str) -> Span:
            """`[region class item]`: the winner's column minus each column."""
            columns = Span(spans[name].low.T, spans[name].high.T)
            return columns[winner][:, None] - columns[every]

        row, rest, shift = apart("outer"), apart("after")[..., 0], apart("shift")[..., 0]
        sizes = None if posts is None else posts.values.size
        ends = None if rounded is None else self.rounding.ends(rounded, sizes)
        state = self._final_state(ranges, posts) if spec.final_norm else None
        if state is not None and rounded is not None and ends is not None:
            state = state + around_zero(ends.state)
        scale = Span.exact(np.ones((len(winner), 1))) if state is None else self._scale(state)
        off = np.zeros(rest.low.shape)
        if rounded is not None and ends is not None:
            read = ends.sizes if state is None else state.size
            errors = ends.outputs(self.rounding.outer, read, scale.high)
            errors = errors if spec.n_outputs > 1 else np.insert(errors, 0, 0.0, axis=1)
            winner_error = np.take_along_axis(errors, winner[:, None], 1)
            off = errors + winner_error + up((row.size * ends.added[:, None]).sum(-1))
            off = up(off * (1 + 2.0**-20))
            rest = rest + Span(-off, off)
        rest = rest + shift * scale
        if posts is not None:
            gains = apart("gains")
            row = row + gains @ posts.row
            rest = rest + (gains * posts.rest[:, None]).total()
        return Form(row, rest, rest), off

    def _posts(self, ranges: Span, rounded: Rounded | None) -> Form | None:
        """What each neuron passes on."""
        spec, spans, rounding = self.spec, self._spans, self.rounding
        if not spec.d_mlp:
            return None
        d, n = spec.d_model, spec.d_mlp
        shape = (len(ranges.low), *self._directions.low.shape)
        ends = self._directions.low, self._directions.high
        rows = Span(*(np.broadcast_to(end, shape) for end in ends))
        forms = Form(rows, Span.exact(np.zeros(shape[:2])), ranges)
        raw, gates, state = forms[:n], forms[n : 2 * n], forms[shape[1] - d :]
        read = np.zeros((shape[0], d)) if rounded is None else rounded.sizes
        if spec.has_norm:
            if rounded is not None:
                taken = rounding.centred(read)
                state = state.plus(around_zero(taken))
                raw = raw.plus(around_zero(rounding.inner.carried(taken)))
                if rounding.gates is not None:
                    gates = gates.plus(around_zero(rounding.gates.carried(taken)))
            square = state.squared()
            mean = Form(
                (square.row.total(1) * share(d))[:, None],
                (square.rest.total(1) * share(d))[:, None],
                (square.values.total(1) * share(d))[:, None],
            )
            times = inverse_root(mean, spec.norm_eps)
            raw = product(raw, times)
            gates = product(gates, times) if spec.gated_mlp else gates
            read = rounding.divided(state.values.size, times.values.high)
        raw = raw.plus(spans["inner"])
        if rounded is not None:
            raw = raw.plus(around_zero(rounding.inner.off(read)))
        if rounding.gates is None:
            return self._activated(raw, rounded)
        gates = gates.plus(spans["gate"])
        if rounded is not None:
            gates = gates.plus(around_zero(rounding.gates.off(read)))
        opened = product(self._activated(gates, rounded), raw)
        passed = opened.plus(spans["late"])
        if rounded is None:
            return passed
        return passed.plus(around_zero(rounding.opened(opened.values.size + spans["late"].size)))

    def _activated(self, form: Form, rounded: Rounded | None) -> Form:
        activations = activated(self.spec.act_fn, form)
        if rounded is None:
            return activations
        return activations.plus(around_zero(self.rounding.activated(form.values.size)))

    def _final_state(self, ranges: Span, posts: Form | None) -> Span:
        """What the final norm divides, `[region d]`."""
        state = ranges[:, -self.spec.d_model :] + self._spans["moved"]
        return state if posts is None else state + posts.values @ self._spans["added"]

    def _scale(self, state: Span) -> Span:
        """What a norm divides this by, `[region 1]`."""
        mean = state.square().total() * share(self.spec.d_model)
        return (mean + Span.exact(np.array(self.spec.norm_eps))).root()[:, None]

    def _ranges(self, attended: Attended, rounded: Rounded | None) -> Span:
        """Where x lies along each direction, `[region direction]`."""
        chosen = self._directions.middle
        left = self._directions - Span.exact(chosen)
        rest = (Span.exact(chosen) * attended.base[:, None]).total()
        rest = rest + (left * attended.reach[:, None]).total()
        both = attended.highest(np.concatenate([chosen, -chosen])[None])
        most, least = np.split(both, 2, axis=1)
        ranges = rest + Span(-least, most)
        return ranges if rounded is None else ranges + around_zero(rounded.along(chosen[None]))


def around_zero(off: Floats) -> Span:
    """Errors as intervals."""
    return Span(-off, off)


def _beside(blocks: Sequence[Any]) -> Any:
    """Matrices side by side."""
    rows = zip(*(block.tolist() for block in blocks), strict=True)
    return arb_mat([[x for part in row for x in part] for row in rows])
