"""Bounds margins over sets of paths of a trellis, many sets at once.

One token reads, so a letter at a place has one score and one value per head (heads.py). What heads
add to the residual stream x is bounded along any direction by `highest` (paths.py). Then the margin
of a label over another class is bounded as one linear function of x plus an interval:

    z = u · x                                    what a neuron reads, its range from its extremes
    s² = σ s + interval                          a coordinate that a norm squares
    t = 1/√(m + ε) = τ m + interval              what a norm multiplies by, m the mean square
    z t = z₀ t + t₀ z - z₀ t₀ ± rad z · rad t    and a gate times what it lets through likewise
    act(p) = α p + interval                      by its values at nodes and its second derivative

The coefficients are free: with any, the interval holds what is left. So margin = L · x + interval,
and the extreme of L · x over all paths is found exactly but for rounding. Where a final norm
divides all outputs by its scale, the margin is bounded times that scale, which is positive.

Tables are made in `arb` balls and rounded outwards once (`Span`); those of keys are in
trellis_keys.py. Part of the checker (trellis.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.trusted.table import Index
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.budget import MEMORY
from tsc_interp.verification.checker.kernel import Ball
from tsc_interp.verification.checker.layer_rounding import Blur, LayerRounding
from tsc_interp.verification.checker.paths import Keys, highest
from tsc_interp.verification.checker.relaxation import Form, activated, inverse_root, product
from tsc_interp.verification.checker.sets import Mask, Sets
from tsc_interp.verification.checker.spans import Floats, Span, down, up
from tsc_interp.verification.checker.trellis_keys import BITS, KeyedModel

_PER_NUMBER = 256
"""Bytes for each number of one table of a sweep: about thirty tables are held at a time."""
_IN_CACHE = 1 << 20
"""Numbers of one table of a sweep: more than fit are slower, not faster."""
_PER_ROW = 600
"""Numbers of other tables for each row, about: nodes of an activation, linear forms."""
_SINGLE = (128, 1024, 8192)
"""Precisions in which single strings are evaluated, one after the other."""


class TrellisModel(KeyedModel):
    """Judgements about paths of a trellis, for one classifier of one layer."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        pay: Callable[[], None] = lambda: None,
        memory: int = MEMORY,
    ) -> None:
        super().__init__(checkpoint, pay, memory)
        self.rounding = LayerRounding(self)
        self._at_once = max(1, min(memory // _PER_NUMBER, _IN_CACHE))
        with ctx.workprec(BITS):
            read = self.readout()
            self._spans = {
                "outer": Span.of(read.outer.tolist()),
                "after": Span.of((read.out_bias * read.outer).tolist()),
                "shift": Span.of([read.shift]),
            }
            if self.config.has_mlp:
                self._spans["gains"] = Span.of((read.out * read.outer).tolist())
                self._spans["added"] = Span.of((read.out * read.centred).tolist())
                self._spans["inner"] = Span.of([read.inner_bias])
                self._spans["gate"] = Span.of([read.gate_bias])
                late = self.bias("blocks.0.mlp.b_in", self.config.d_mlp)
                self._spans["late"] = Span.of(late.tolist())
            self._spans["moved"] = Span.of((read.out_bias * read.centred).tolist())
            rows, shape = Span.of(_beside(self._blocks(read)).tolist()), (self.config.d_model, -1)
            self._directions = Span(rows.low.reshape(shape).T, rows.high.reshape(shape).T)
        classes = range(self.n_classes)
        self._same = np.array([[j in self.same_outputs(i) for j in classes] for i in classes])

    def _blocks(self, read: Any) -> list[Any]:
        """Directions of x that are bounded: neurons, gates, and the state that norms divide by."""
        blocks = [arb_mat(self.config.d_model, 0)]
        if self.config.has_mlp:
            blocks += [read.inner, *([] if read.gates is None else [read.gates])]
        if self.config.has_norm or self.config.final_norm:
            blocks.append(read.centred)
        return blocks

    # -- what the checker asks -------------------------------------------------------------------

    def hold(self, sets: Sets, by: Index, float32: Mask) -> Mask:
        """Of which sets it is shown that all paths have one label, and are answered with it.

        Args:
            sets: The inputs; the paths of each must have one reader.
            by: `[set]` -1, or the class that is to beat the label on every path instead.
            float32: `[set]` whether that is asked in float32, whatever the order of sums, too.
        """
        label, reader = sets.labels(), self.readers(sets)
        shown = np.zeros(len(sets), dtype=bool)
        known = np.flatnonzero((label >= 0) & (reader >= 0) & (by != label) & (by < self.n_classes))
        rows = 2 * max(len(self._directions.low), self.n_classes)
        step = max(1, self._at_once // (rows * (sets.slots + _PER_ROW)))
        for start in range(0, len(known), step):
            part = known[start : start + step]
            winner = np.where(by[part] < 0, label[part], by[part])
            wanted = (by[part] < 0)[:, None] | (np.arange(self.n_classes) == label[part, None])
            wanted[np.arange(len(part)), winner] = False
            with np.errstate(all="ignore"):  # what is no number fails every comparison
                shown[part] = self._win(sets[part], reader[part], winner, wanted, float32[part])
        return shown

    def verdict(self, string: Sequence[int], label: int) -> bool | None:
        """Whether one string is answered with its label; None if it cannot be told."""
        others = [j for j in range(self.n_classes) if j != label]
        same = self.same_outputs(label)
        for precision in _SINGLE:
            self.pay()
            with ctx.workprec(precision):
                outputs = self.outputs(self.attended(string))
                gaps = [arb(0) if j in same else outputs[label] - outputs[j] for j in others]
                won = [_wins(label, j, gap) for j, gap in zip(others, gaps, strict=True)]
                lost = [_wins(j, label, -gap) for j, gap in zip(others, gaps, strict=True)]
            if all(won) or any(lost):
                return all(won)
        return None

    # -- margins over paths ----------------------------------------------------------------------

    def gaps(self, sets: Sets, reader: Index, winner: Index, used: Index, float32: Mask) -> Floats:
        """`[set class]`: below the winner's output minus each used one's, on all paths of a set.

        Where a final norm divides them, times its scale. Where float32 is asked for, also below
        what float32 makes of it, in any order of sums, times the scale that it has.
        """
        self.pay()
        keys = self._keys_of(sets, reader)
        blur = None
        if float32.any():
            spots = [self._spot(sets.trellis.length, int(letter)) for letter in reader]
            blur = Blur(float32, [self._drift(sets.trellis.length, spot) for spot in spots])
        ranges = self._ranges(sets, keys, blur)
        form, off = self._margins(winner, ranges, self._posts(ranges, blur), blur)
        base, reach = (_stacked([getattr(key, name) for key in keys]) for name in ("base", "reach"))
        chosen = form.row.middle
        exact, moved = Span.exact(chosen), np.zeros(off.shape)
        if blur is not None:
            reach = reach + blur.span(blur.along(np.eye(self.config.d_model)[None]))
            moved = blur.along(chosen)
        constant = form.rest + (exact * base[:, None]).total()
        constant = constant + ((form.row - exact) * reach[:, None]).total()
        least = down(constant.low - moved)
        bound = np.full(least.shape, np.inf)
        # Only what is needed: gap = constant - (the highest of -L · x).
        bound[:, used] = highest(sets, keys, -chosen[:, used], least[:, used], self._at_once)
        return np.where(self._same[winner], 0.0 - off, down(least - bound))

    def _win(self, sets: Sets, reader: Index, winner: Index, wanted: Mask, float32: Mask) -> Mask:
        """Whether the winner's output is the answer rather than each wanted one, on all paths."""
        gap = self.gaps(sets, reader, winner, np.flatnonzero(wanted.any(0)), float32)
        won = (gap > 0) | ((gap == 0) & (winner[:, None] < np.arange(self.n_classes)))
        return np.asarray((won | ~wanted).all(1))

    def _margins(
        self, winner: Index, ranges: Span, posts: Form | None, blur: Blur | None
    ) -> tuple[Form, Floats]:
        """The winner's output minus each one's, as a linear function of x and an interval.

        And how much of that interval float32 rounds after the activations.
        """
        config, spans, every = self.config, self._spans, np.arange(self.n_classes)

        def apart(name: str) -> Span:
            """`[set class item]`: the winner's column minus each column."""
            columns = Span(spans[name].low.T, spans[name].high.T)
            return columns[winner][:, None] - columns[every]

        row, rest, shift = apart("outer"), apart("after")[..., 0], apart("shift")[..., 0]
        sizes = None if posts is None else posts.values.size
        ends = None if blur is None else self.rounding.ends(blur, sizes)
        state = self._final_state(ranges, posts) if config.final_norm else None
        if state is not None and blur is not None and ends is not None:
            state = state + blur.span(ends.state)
        scale = Span.exact(np.ones((len(winner), 1))) if state is None else self._scale(state)
        off = np.zeros(rest.low.shape)
        if blur is not None and ends is not None:
            read = ends.sizes if state is None else state.size
            errors = ends.outputs(self.rounding.outer, read, scale.high)
            errors = errors if config.n_outputs > 1 else np.insert(errors, 0, 0.0, axis=1)
            winner_error = np.take_along_axis(errors, winner[:, None], 1)
            off = errors + winner_error + up((row.size * ends.added[:, None]).sum(-1))
            off = blur.span(up(off * (1 + 2.0**-20))).high
            rest = rest + Span(-off, off)
        rest = rest + shift * scale
        if posts is not None:
            gains = apart("gains")
            row = row + gains @ posts.row
            rest = rest + (gains * posts.rest[:, None]).total()
        return Form(row, rest, rest), off

    def _posts(self, ranges: Span, blur: Blur | None) -> Form | None:
        """What each neuron passes on."""
        config, spans, rounding = self.config, self._spans, self.rounding
        if not config.has_mlp:
            return None
        d, n = config.d_model, config.d_mlp
        shape = (len(ranges.low), *self._directions.low.shape)
        ends = self._directions.low, self._directions.high
        rows = Span(*(np.broadcast_to(end, shape) for end in ends))
        forms = Form(rows, Span.exact(np.zeros(shape[:2])), ranges)
        raw, gates, state = forms[:n], forms[n : 2 * n], forms[shape[1] - d :]
        read = np.zeros((shape[0], d)) if blur is None else blur.sizes
        if config.has_norm:
            if blur is not None:
                drift = rounding.centred(read)
                state = state.plus(blur.span(drift))
                raw = raw.plus(blur.span(rounding.inner.heard(drift)))
                if rounding.gates is not None:
                    gates = gates.plus(blur.span(rounding.gates.heard(drift)))
            square = state.squared()
            mean = Form(
                (square.row.total(1) * _share(d))[:, None],
                (square.rest.total(1) * _share(d))[:, None],
                (square.values.total(1) * _share(d))[:, None],
            )
            times = inverse_root(mean, config.norm_eps)
            raw = product(raw, times)
            gates = product(gates, times) if config.gated_mlp else gates
            read = rounding.divided(state.values.size, times.values.high)
        raw = raw.plus(spans["inner"])
        if blur is not None:
            raw = raw.plus(blur.span(rounding.inner.off(read)))
        if rounding.gates is None:
            return self._activated(raw, blur)
        gates = gates.plus(spans["gate"])
        if blur is not None:
            gates = gates.plus(blur.span(rounding.gates.off(read)))
        opened = product(self._activated(gates, blur), raw)
        passed = opened.plus(spans["late"])
        if blur is None:
            return passed
        return passed.plus(blur.span(rounding.opened(opened.values.size + spans["late"].size)))

    def _activated(self, form: Form, blur: Blur | None) -> Form:
        activations = activated(self.config.act_fn, form)
        if blur is None:
            return activations
        return activations.plus(blur.span(self.rounding.activated(form.values.size)))

    def _final_state(self, ranges: Span, posts: Form | None) -> Span:
        """What the final norm divides, `[set d]`."""
        state = ranges[:, -self.config.d_model :] + self._spans["moved"]
        return state if posts is None else state + posts.values @ self._spans["added"]

    def _scale(self, state: Span) -> Span:
        """What a norm divides this by, `[set 1]`."""
        mean = state.square().total() * _share(self.config.d_model)
        return (mean + Span.exact(np.array(self.config.norm_eps))).root()[:, None]

    def _ranges(self, sets: Sets, keys: Sequence[Keys], blur: Blur | None) -> Span:
        """Where x lies along each direction, `[set direction]`."""
        chosen, base = self._directions.middle, _stacked([key.base for key in keys])
        reach = _stacked([key.reach for key in keys])
        left = self._directions - Span.exact(chosen)
        rest = (Span.exact(chosen) * base[:, None]).total() + (left * reach[:, None]).total()
        both = highest(sets, keys, np.concatenate([chosen, -chosen])[None], at_once=self._at_once)
        most, least = np.split(both, 2, axis=1)
        ranges = rest + Span(-least, most)
        return ranges if blur is None else ranges + blur.span(blur.along(chosen[None]))


def _wins(label: int, other: int, gap: Ball) -> bool:
    """Whether a margin is won: of equal outputs the one with the lower index is the answer."""
    return kernel.is_positive(gap) or (label < other and kernel.is_not_positive(-gap))


def _beside(blocks: Sequence[Any]) -> Any:
    """Matrices side by side."""
    rows = zip(*(block.tolist() for block in blocks), strict=True)
    return arb_mat([[x for part in row for x in part] for row in rows])


def _stacked(spans: Sequence[Span]) -> Span:
    return Span(np.stack([span.low for span in spans]), np.stack([span.high for span in spans]))


def _share(d: int) -> Span:
    """One in d."""
    return Span(down(1 / np.array(float(d))), up(1 / np.array(float(d))))
