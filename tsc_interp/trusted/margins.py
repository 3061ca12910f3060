"""Bounds output j minus output k over regions of inputs, many regions at once.

`Attended` says what attention adds to the residual stream x of the token that reads: its extremes
along any direction. Then a margin is bounded as one linear function of x plus an interval:

    z = u · x                                    what a neuron reads, its range from its extremes
    s² = σ s + interval                          a coordinate that a norm squares
    z t = z₀ t + t₀ z - z₀ t₀ ± rad z · rad t    and a gate times what it lets through likewise
    t = 1/√(m + ε) = τ m + interval              what a norm multiplies by, m the mean square
    act(p) = α p + interval                      by its values at nodes and its second derivative

The coefficients are free: with any, the interval holds what is left. So margin = L · x + interval,
and the extreme of L · x over the region is bounded by `means.py`. Where a final norm divides all
outputs by its scale, the margin is bounded times that scale, which is positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from flint import arb_mat, ctx
from numpy.typing import NDArray

from tsc_interp.trusted import balls
from tsc_interp.trusted.float_layer import LayerErrors, Rounded
from tsc_interp.trusted.forward import Forward
from tsc_interp.trusted.relaxation import Form, activated, inverse_root, product, root
from tsc_interp.trusted.spans import Floats, Span, down, up

BITS = 96
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Attended(Protocol):
    """What the reading token holds after the last attention, in some regions."""

    @property
    def base(self) -> Span:
        """`[region d]`: its own residual; one region stands for all."""

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
            self.shifted = not all(
                balls.is_not_positive(x) and balls.is_not_positive(-x) for x in read.shift
            )
            rows, shape = Span.of(_beside(self._blocks(read)).tolist()), (self.spec.d_model, -1)
            self._directions = Span(rows.low.reshape(shape).T, rows.high.reshape(shape).T)
        classes = range(self.spec.n_classes)
        same = [forward.model.same_outputs(i) for i in classes]
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
            winner: `[region]` a class; one stands for all.
            wanted: `[region class]` the classes it is to beat; of equal outputs over the reals the
                one with the lower index is the answer.
            rounded: Where float32, in any order of its sums, is asked about too.
        """
        used = np.flatnonzero(wanted.any(0))
        with np.errstate(all="ignore"):  # what is no number fails every comparison
            gap = self.gaps(attended, winner, used, rounded)
        return np.asarray((self.won(gap, winner) | ~wanted).all(1))

    def won(self, gaps: Floats, winner: Index, rivals: Index | None = None) -> Mask:
        """Which margins are won: of equal outputs the one with the lower index is the answer.

        Over every class, or `rivals [region rival]`.
        """
        rivals = np.arange(self.spec.n_classes) if rivals is None else rivals
        return np.asarray((gaps > 0) | ((gaps == 0) & (winner[:, None] < rivals)))

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
        relaxed, rivals = self.relaxed(attended, rounded), used[None]
        found = relaxed.gaps(winner, rivals)
        if relaxed.posts is not None and not (self.tied(winner, rivals) | (found > 0)).all():
            # Over wide ranges a chord is worse than the range of the activation alone.
            flat = replace(relaxed, posts=relaxed.posts.flat())
            found = np.fmax(found, flat.gaps(winner, rivals))
        gaps = np.full((len(found), self.spec.n_classes), -np.inf)
        gaps[:, used] = found
        return gaps

    def relaxed(self, attended: Attended, rounded: Rounded | None = None) -> Relaxed:
        """What neurons pass on in these regions."""
        ranges = self._ranges(attended, rounded)
        return Relaxed(self, attended, rounded, ranges, *self._posts(ranges, rounded))

    def apart(self, name: str, winner: Index, rivals: Index) -> Span:
        """The winner's column minus each rival's, `[region rival item]`."""
        columns = Span(self._spans[name].low.T, self._spans[name].high.T)
        return columns[winner][:, None] - columns[rivals]

    def tied(self, winner: Index, rivals: Index) -> Mask:
        """`[region rival]`: which outputs are equal on every input."""
        return np.asarray(self._same[winner[:, None], rivals])

    def _posts(self, ranges: Span, rounded: Rounded | None) -> tuple[Form | None, Form | None]:
        """What each neuron passes on, and what the norm before it multiplies by."""
        spec, spans, rounding, times = self.spec, self._spans, self.rounding, None
        if not spec.d_mlp:
            return None, None
        d, n = spec.d_model, spec.d_mlp
        forms = self._read(ranges)
        raw, gates, state = forms[:n], forms[n : 2 * n], forms[ranges.low.shape[1] - d :]
        read = np.zeros((len(ranges.low), d)) if rounded is None else rounded.sizes
        if spec.has_norm:
            if rounded is not None:
                taken = rounding.centred(read)
                state = state.plus(around_zero(taken))
                raw = raw.plus(around_zero(rounding.inner.carried(taken)))
                if rounding.gates is not None:
                    gates = gates.plus(around_zero(rounding.gates.carried(taken)))
            times = inverse_root(state.squared().mean(), spec.norm_eps)
            alone = Span.exact(np.eye(d + 1)[None, d:])
            divisor = Form(alone, Span.exact(np.zeros_like(times.rest.low)), times.values)
            raw = product(raw.wider(1), divisor)
            gates = product(gates.wider(1), divisor) if spec.gated_mlp else gates
            read = rounding.divided(state.values.size, times.values.high)
        raw = raw.plus(spans["inner"])
        if rounded is not None:
            raw = raw.plus(around_zero(rounding.inner.off(read)))
        if rounding.gates is None:
            return self._activated(raw, rounded), times
        gates = gates.plus(spans["gate"])
        if rounded is not None:
            gates = gates.plus(around_zero(rounding.gates.off(read)))
        opened = product(self._activated(gates, rounded), raw)
        passed = opened.plus(spans["late"])
        if rounded is not None:
            late = rounding.opened(opened.values.size + spans["late"].size)
            passed = passed.plus(around_zero(late))
        return passed, times

    def _read(self, ranges: Span) -> Form:
        """Every direction as a form, `[region direction]`."""
        ends, shape = self._directions, (len(ranges.low), *self._directions.low.shape)
        spread = Span(*(np.broadcast_to(end, shape) for end in (ends.low, ends.high)))
        return Form(spread, Span.exact(np.zeros(shape[:2])), ranges)

    def _activated(self, form: Form, rounded: Rounded | None) -> Form:
        activations = activated(self.spec.act_fn, form)
        if rounded is None:
            return activations
        return activations.plus(around_zero(self.rounding.activated(form.values.size)))

    def final_state(self, ranges: Span, posts: Form | None) -> Form:
        """What the final norm divides, `[region d]`."""
        start = ranges.low.shape[1] - self.spec.d_model
        state = self._read(ranges)[start:].plus(self._spans["moved"])
        if posts is None:
            return state
        added = self._spans["added"]
        row = Span(added.low.T, added.high.T) @ posts.row
        columns = row.low.shape[-1] - state.row.low.shape[-1]
        return Form(state.wider(columns).row + row, state.rest + posts.rest @ added,
                    state.values + posts.values @ added)  # fmt: skip

    def _ranges(self, attended: Attended, rounded: Rounded | None) -> Span:
        """Where x lies along each direction, `[region direction]`."""
        chosen = self._directions.middle[None]
        if not chosen.size:
            return Span.exact(np.zeros((len(attended.reach.low), 0)))
        exact = Span.exact(chosen)
        rest = along(exact, attended.base)
        rest = rest + along(self._directions[None] - exact, attended.reach)
        both = attended.highest(np.concatenate([chosen, -chosen], axis=1))
        most, least = np.split(both, 2, axis=1)
        ranges = rest + Span(-least, most)
        return ranges if rounded is None else ranges + around_zero(rounded.along(chosen))


@dataclass(frozen=True)
class Relaxed:
    """Some regions: where x lies along each direction, what each neuron passes on, and `times`:
    what the norm before them multiplies by, whose column stands last in the rows of neurons."""

    margins: Margins
    attended: Attended
    rounded: Rounded | None
    ranges: Span
    posts: Form | None
    times: Form | None

    def gaps(self, winner: Index, rivals: Index) -> Floats:
        """Below the winner's output minus each rival's: `[region rival]`, either for all."""
        q, least, off = self.lines(winner, rivals)
        # Only what is needed: gap = least - (the highest of q · x).
        bound = self.attended.highest(q, least)
        return np.where(self.margins.tied(winner, rivals), 0.0 - off, down(least - bound))

    def lines(self, winner: Index, rivals: Index) -> tuple[Floats, Floats, Floats]:
        """Directions q `[region rival d]` and least `[region rival]`: the winner's output minus a
        rival's is at least `least` - q · (what the heads add).

        And how much of that float32 rounds after the activations.
        """
        form, off = self.form(winner, rivals)
        reach, rounded = self.attended.reach, self.rounded
        chosen = form.row.middle
        exact, moved = Span.exact(chosen), np.zeros(off.shape)
        if rounded is not None:
            reach = reach + around_zero(rounded.along(np.eye(reach.low.shape[1])[None]))
            moved = rounded.along(chosen)
        constant = form.rest + along(exact, self.attended.base) + along(form.row - exact, reach)
        return -chosen, down(constant.low - moved), off

    def form(self, winner: Index, rivals: Index) -> tuple[Form, Floats]:
        """The winner's output minus each rival's, as a linear function of x and an interval.

        And how much of that interval float32 rounds after the activations.
        """
        margins, posts, times, rounded = self.margins, self.posts, self.times, self.rounded
        spec, rounding = margins.spec, margins.rounding
        row, rest, shift = (
            margins.apart(name, winner, rivals) for name in ("outer", "after", "shift")
        )
        rest, shift = rest[..., 0], shift[..., 0]
        ends = None
        if rounded is not None:
            ends = rounding.ends(rounded, None if posts is None else posts.values.size)
        state = None
        if spec.final_norm and (margins.shifted or ends is not None):
            state = margins.final_state(self.ranges, posts)
            state = state if ends is None else state.plus(around_zero(ends.state))
        scale = None if state is None else root(state.squared().mean(), spec.norm_eps)
        off = np.zeros(rest.low.shape)
        if ends is not None:
            read = ends.sizes if state is None else state.values.size
            most = np.ones((len(read), 1)) if scale is None else scale.values.high
            errors = ends.outputs(rounding.outer, read, most)
            errors = errors if spec.n_outputs > 1 else np.insert(errors, 0, 0.0, axis=1)
            sides = (np.take_along_axis(errors, x, 1) for x in (winner[:, None], rivals))
            off = sum(sides, up((row.size * ends.added[:, None]).sum(-1)))
            off = up(off * (1 + 2.0**-20))
            rest = rest + Span(-off, off)
        if posts is not None:
            gains = margins.apart("gains", winner, rivals)
            wide = Form(row, rest, rest).wider(posts.row.low.shape[-1] - row.low.shape[-1])
            row = wide.row + gains @ posts.row
            rest = rest + (gains * posts.rest[:, None]).total()
        if not spec.final_norm:
            rest = rest + shift
        elif scale is not None:
            row, rest = row + shift[..., None] * scale.row, rest + shift * scale.rest
        form = Form(row, rest, rest)
        return form if times is None else form.resolved(times), off


def along(rows: Span, x: Span) -> Span:
    """Rows `[region row d]` times vectors `[region d]`; one of either stands for all."""
    if len(rows.low) == 1:
        return x @ Span(rows.low[0].T, rows.high[0].T)
    return (rows @ x[..., None])[..., 0]


def around_zero(off: Floats) -> Span:
    """Errors as intervals."""
    return Span(-off, off)


def _beside(blocks: Sequence[Any]) -> Any:
    """Matrices side by side."""
    rows = zip(*(block.tolist() for block in blocks), strict=True)
    return arb_mat([[x for part in row for x in part] for row in rows])
