"""The checker's own bounds on margins over sets of paths of a trellis, many sets at once.

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

Tables are made in `arb` balls and rounded outwards once (`Span`). Part of the checker (trellis.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.budget import MEMORY, Kept
from tsc_interp.verification.checker.forward_rounding import ForwardBound
from tsc_interp.verification.checker.heads import Spot
from tsc_interp.verification.checker.kernel import Ball
from tsc_interp.verification.checker.paths import AT_ONCE, Keys, Mask, Sets, highest
from tsc_interp.verification.checker.readout import WholeModel
from tsc_interp.verification.checker.relaxation import Form, activated, inverse_root, product
from tsc_interp.verification.checker.spans import Floats, Span, down, up

_BITS = 96
_SINGLE = (128, 1024, 8192)
"""Precisions in which single strings are evaluated, one after the other."""


class TrellisModel(WholeModel):
    """Judgements about paths of a trellis, for one classifier of one layer."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        pay: Callable[[], None] = lambda: None,
        memory: int = MEMORY,
    ) -> None:
        super().__init__(checkpoint)
        self.pay = pay
        self.rounding = ForwardBound(checkpoint)
        self._kept = Kept(memory)
        with ctx.workprec(_BITS):
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
            found, shape = Span.of(_beside(self._blocks(read)).tolist()), (self.config.d_model, -1)
            self._directions = Span(found.low.reshape(shape).T, found.high.reshape(shape).T)
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
        label, reader = sets.labels(), self._readers(sets)
        found = np.zeros(len(sets), dtype=bool)
        known = np.flatnonzero((label >= 0) & (reader >= 0) & (by != label) & (by < self.n_classes))
        rows = 2 * max(len(self._directions.low), self.n_classes)
        step = max(1, AT_ONCE // (16 * rows * max(map(len, sets.trellis.stages))))
        for start in range(0, len(known), step):
            some = known[start : start + step]
            winner = np.where(by[some] < 0, label[some], by[some])
            wanted = (by[some] < 0)[:, None] | (np.arange(self.n_classes) == label[some, None])
            wanted[np.arange(len(some)), winner] = False
            with np.errstate(all="ignore"):  # what is no number fails every comparison
                found[some] = self._win(sets[some], reader[some], winner, wanted, float32[some])
        return found

    def rooms(self, sets: Sets) -> Floats:
        """What float32 can move the margins of each set by; NaN where that is not known."""
        sets = sets[self._readers(sets) >= 0]
        reader = self._readers(sets)
        with np.errstate(all="ignore"):
            inner = self._posts(self._ranges(sets, self._keys_of(sets, reader)))[1]
            return self._rooms(sets.trellis.length, reader, inner)

    def verdict(self, string: Sequence[int], label: int, float32: bool = False) -> bool | None:
        """Whether one string is answered with its label; None if it cannot be told."""
        others = [j for j in range(self.n_classes) if j != label]
        same = self.same_outputs(label)
        for precision in _SINGLE:
            self.pay()
            with ctx.workprec(precision):
                x = self.attended(string)
                outputs, room = self.outputs(x), self._room(string, x) if float32 else arb(0)
                gaps = [arb(0) if j in same else outputs[label] - outputs[j] for j in others]
                won = [_wins(label, j, gap - room) for j, gap in zip(others, gaps, strict=True)]
                lost = [_wins(j, label, -gap - room) for j, gap in zip(others, gaps, strict=True)]
            if all(won) or any(lost):
                return all(won)
        return None

    def _room(self, string: Sequence[int], x: Any) -> Ball:
        """What float32 can move the margins of one string by."""
        divisor = self.divisor((x * self.centring()).tolist()[0])
        return self.rounding.room(
            len(string),
            self.reader(string),
            inner_scale=divisor.lower() if self.config.has_norm else None,
            scaled=self.config.final_norm,
        )

    # -- margins over paths ----------------------------------------------------------------------

    def _readers(self, sets: Sets) -> Index:
        """The reading letter of every set, 0 where CLS reads; -1 where there are several."""
        if self.config.reads == "last_letter":
            return sets.letters_at(sets.trellis.length - 1)
        return np.zeros(len(sets), dtype=np.int64)

    def _spot(self, length: int, reader: int) -> Spot:
        if self.config.reads == "last_letter":
            return FIRST_LETTER + reader, length - 1
        return self.cls_spot(length)

    def _win(self, sets: Sets, reader: Index, winner: Index, wanted: Mask, float32: Mask) -> Mask:
        """Whether the winner's output is the answer rather than each wanted one, on all paths."""
        self.pay()
        length = sets.trellis.length
        keys = self._keys_of(sets, reader)
        ranges = self._ranges(sets, keys)
        posts, inner = self._posts(ranges)
        form = self._margins(winner, posts, self._outer_scale(ranges, posts))
        room = np.zeros(len(sets))
        if float32.any():
            room[float32] = self._rooms(length, reader[float32], inner[float32])
        base, reach = (_stacked([getattr(key, name) for key in keys]) for name in ("base", "reach"))
        chosen = form.row.middle
        exact = Span.exact(chosen)
        constant = form.rest + (exact * base[:, None]).total()
        constant = constant + ((form.row - exact) * reach[:, None]).total()
        least = down(constant.low - room[:, None])
        used = np.flatnonzero(wanted.any(0))
        bound = np.full(least.shape, -np.inf)
        # Only what is needed: gap = constant - (the highest of -L · x).
        bound[:, used] = highest(sets, keys, -chosen[:, used], least[:, used])
        gap = np.where(self._same[winner], 0.0 - room[:, None], down(least - bound))
        won = (gap > 0) | ((gap == 0) & (winner[:, None] < np.arange(self.n_classes)))
        return np.asarray((won | ~wanted).all(1))

    def _margins(self, winner: Index, posts: Form | None, scale: Span) -> Form:
        """The winner's output minus each one's as a linear function of x and an interval."""
        spans, every = self._spans, np.arange(self.n_classes)

        def apart(name: str) -> Span:
            """`[set class item]`: the winner's column minus each column."""
            columns = Span(spans[name].low.T, spans[name].high.T)
            return columns[winner][:, None] - columns[every]

        row, rest = apart("outer"), apart("after")[..., 0]
        shift = apart("shift")[..., 0]
        # A scale that is not known matters only where something is added after it.
        moved, none = shift * scale, (shift.low == 0) & (shift.high == 0)
        moved = Span(np.where(none, 0.0, moved.low), np.where(none, 0.0, moved.high))
        rest = rest + moved
        if posts is not None:
            gains = apart("gains")
            row = row + gains @ posts.row
            rest = rest + (gains * posts.rest[:, None]).total()
        return Form(row, rest, rest)

    def _posts(self, ranges: Span) -> tuple[Form | None, Floats]:
        """What each neuron passes on, and at most what the norm before them divides by."""
        config, spans = self.config, self._spans
        nothing = np.full(len(ranges.low), np.nan)
        if not config.has_mlp:
            return None, nothing
        d, n = config.d_model, config.d_mlp
        count = len(ranges.low)
        shape = (count, *self._directions.low.shape)
        ends = self._directions.low, self._directions.high
        rows = Span(*(np.broadcast_to(end, shape) for end in ends))
        forms = Form(rows, Span.exact(np.zeros(shape[:2])), ranges)
        raw, gates = forms[:n], forms[n : 2 * n]
        if config.has_norm:
            square = forms[shape[1] - d :].squared()
            state = Form(
                (square.row.total(1) * _share(d))[:, None],
                (square.rest.total(1) * _share(d))[:, None],
                (square.values.total(1) * _share(d))[:, None],
            )
            times = inverse_root(state, config.norm_eps)
            nothing = down(1 / times.values.high[:, 0])
            raw = product(raw, times)
            gates = product(gates, times) if config.gated_mlp else gates
        raw = raw.plus(spans["inner"])
        if not config.gated_mlp:
            return activated(config.act_fn, raw), nothing
        opened = activated(config.act_fn, gates.plus(spans["gate"]))
        return product(opened, raw).plus(spans["late"]), nothing

    def _outer_scale(self, ranges: Span, posts: Form | None) -> Span:
        """The final norm's scale, `[set 1]`."""
        count = len(ranges.low)
        if not self.config.final_norm:
            return Span.exact(np.ones((count, 1)))
        d = self.config.d_model
        state = ranges[:, -d:] + self._spans["moved"]
        if posts is not None:
            state = state + posts.values @ self._spans["added"]
        square = state.square().total() * _share(d) + Span.exact(np.array(self.config.norm_eps))
        return square.root()[:, None]

    def _ranges(self, sets: Sets, keys: Sequence[Keys]) -> Span:
        """Where x lies along each direction, `[set direction]`."""
        chosen, base = self._directions.middle, _stacked([key.base for key in keys])
        reach = _stacked([key.reach for key in keys])
        left = self._directions - Span.exact(chosen)
        rest = (Span.exact(chosen) * base[:, None]).total() + (left * reach[:, None]).total()
        both = highest(sets, keys, np.concatenate([chosen, -chosen])[None])
        most, least = np.split(both, 2, axis=1)
        return rest + Span(-least, most)

    def _rooms(self, length: int, reader: Index, inner: Floats) -> Floats:
        """What float32 can move a margin by; for one reader by the smallest scale it meets."""
        found = np.full(len(reader), np.nan)
        for one in np.unique(reader):
            at, scale = reader == one, None
            if self.config.has_norm and self.config.has_mlp:
                scale = arb(float(inner[at].min())) if np.isfinite(inner[at]).all() else None
            spot, scaled = self._spot(length, int(one)), self.config.final_norm
            room = self.rounding.room(length, spot, inner_scale=scale, scaled=scaled)
            found[at] = Span.of([[room]]).high[0, 0]
        return found

    # -- keys ------------------------------------------------------------------------------------

    def _keys_of(self, sets: Sets, reader: Index) -> list[Keys]:
        length = sets.trellis.length
        return [self._keys(length, self._spot(length, int(one))) for one in reader]

    def _keys(self, length: int, reader: Spot) -> Keys:
        config = self.config
        balls = config.n_heads * length * config.n_letters * (config.d_model + 2)
        key = ("keys", length, reader)
        return self._kept.get(key, balls, lambda: self._make_keys(length, reader))  # type: ignore[no-any-return]

    def _make_keys(self, length: int, reader: Spot) -> Keys:
        config, first = self.config, int(self.config.reads == "first")
        spots = [
            (FIRST_LETTER + letter, place + first)
            for place in range(length)
            for letter in range(config.n_letters)
        ]
        own = config.attend_cls and config.reads != "last_letter"
        tables = []
        with ctx.workprec(_BITS):
            base = Span.of(self.base(reader).tolist())
            reach = base
            for head in range(config.n_heads):
                self.pay()
                scores, held = self.heard(head, [reader], [*spots, *([reader] * own)], length)
                row, values = scores.tolist()[0], held.tolist()
                # Any number may be subtracted from all scores; with the largest nothing overflows.
                most = arb(max(float(score.mid()) for score in row))
                weights = [kernel.hull(kernel.exp_range(score - most)) for score in row]
                pairs = zip(weights, values, strict=True)
                tables.append(Span.of([[w, *(w * x for x in value)] for w, value in pairs]))
                reach = reach + Span.of(values).reach(0)[None]
        return Keys(length, config.n_letters, own, tables, base[0], reach[0])


def _wins(label: int, other: int, gap: Ball) -> bool:
    """Whether a margin is won: of equal outputs the one with the lower index is the answer."""
    return kernel.is_positive(gap) or (label < other and kernel.is_not_positive(-gap))


def _beside(blocks: Sequence[Any]) -> Any:
    """Matrices side by side."""
    rows = zip(*(block.tolist() for block in blocks), strict=True)
    return arb_mat([[x for part in row for x in part] for row in rows])


def _stacked(spans: Sequence[Span]) -> Span:
    return Span(np.stack([one.low for one in spans]), np.stack([one.high for one in spans]))


def _share(d: int) -> Span:
    """One in d."""
    return Span(down(1 / np.array(float(d))), up(1 / np.array(float(d))))
