"""What one model is proved to answer: over boxes of counts, over paths, on single inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from flint import arb, ctx

from tsc_interp.trusted import balls
from tsc_interp.trusted.balls import Ball
from tsc_interp.trusted.boxes import Boxes, BoxRegions
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.counts import CountTables
from tsc_interp.trusted.errors import require
from tsc_interp.trusted.float_attention import AttentionRounding
from tsc_interp.trusted.float_layer import Rounded
from tsc_interp.trusted.forward import Forward, Spot
from tsc_interp.trusted.margins import Attended, Index, Margins, Mask
from tsc_interp.trusted.order import Inputs, OrderTables, PathRegions
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.spans import Floats, down
from tsc_interp.trusted.spec import CLS, FIRST_LETTER, Model

PRECISIONS = 128, 1024, 8192
_AT_ONCE, _PER_ROW, _PER_PATHS = 1 << 20, 600, 100
"""Numbers of one table; those of other tables for each row, about."""
_PER_BOX = 4
"""Single vectors cost about so many times their box."""
Support = tuple[int, ...]


class Judge:
    """One model; what its tables cost is paid once."""

    def __init__(self, model: Model, budget: Budget) -> None:
        spec = model.spec
        self.spec, self.budget, self.n_classes = spec, budget, spec.n_classes
        if spec.n_layers > 1:
            known = not (spec.gated_mlp or spec.qk_norm != "off" or spec.sees_order)
            require(known, "a model of several layers with positions, gates or norms of queries")
        self.forward = Forward(model)
        self.margins = Margins(self.forward)
        self.counts = CountTables(self.forward, budget)
        self.order = OrderTables(self.forward, budget)
        self._rounding = AttentionRounding(self.forward, budget)

    # -- regions ---------------------------------------------------------------------------------

    def in_boxes(
        self, support: Support, boxes: Boxes, winner: Index, wanted: Mask,
        form: str | None = None, length: int = 0,
    ) -> Mask:  # fmt: skip
        """In which boxes a class beats each wanted one.

        Args:
            support: The letters, by index.
            boxes: Regions of counts.
            winner: `[box]` the class.
            wanted: `[box class]` those it is to beat.
            form: Ask of the float32 model, which is given inputs so.
            length: The longest input, for float32.
        """
        gaps = self.gaps_in_boxes(support, boxes, winner, wanted, form, length)
        return np.asarray((self.margins.won(gaps, winner) | ~wanted).all(1))

    def gaps_in_boxes(
        self, support: Support, boxes: Boxes, winner: Index, wanted: Mask,
        form: str | None = None, length: int = 0,
    ) -> Floats:  # fmt: skip
        """`[box class]`: below the winner's output minus each wanted one's; NaN if unknown."""
        gaps = np.full((len(boxes), self.n_classes), np.nan)
        used, step = np.flatnonzero(wanted.any(0)), self._step(2 * (len(support) + 1))
        for start in range(0, len(boxes), step):
            self.budget()
            at = slice(start, start + step)
            some = boxes[at]
            rounded = self._rounded(form, length, len(some))
            with np.errstate(all="ignore"):  # what is no number fails every comparison
                regions = self.counts.regions(support, some)
                gaps[at] = self.margins.gaps(regions, winner[at], used, rounded)
        return gaps

    def gaps_at_vectors(
        self, support: Support, vectors: Floats, group: Index, winner: Index, wanted: Mask,
        form: str | None = None, length: int = 0,
    ) -> Floats:  # fmt: skip
        """`[vector class]`: the same at single count vectors `[vector letter]`.

        Those of a group and a winner share one box, the smallest around them. It bounds margins by
        a linear function of what attention adds, which each vector has its own of.
        """
        require(self.spec.n_layers == 1, "vectors share a box in one layer")
        gaps = np.full((len(vectors), self.n_classes), np.nan)
        order = np.lexsort((winner, group))
        same = (np.diff(group[order]) == 0) & (np.diff(winner[order]) == 0)
        apart = np.split(order, np.flatnonzero(~same) + 1) if len(order) else []
        step = max(1, self._step(2 * (len(support) + 1)) // _PER_BOX)
        for start in range(0, len(apart), step):
            self.budget()
            some = apart[start : start + step]
            at, sizes = np.concatenate(some), [len(one) for one in some]
            own, first = np.repeat(np.arange(len(some)), sizes), np.cumsum([0, *sizes[:-1]])
            labels, rivals = winner[at[first]], np.flatnonzero(wanted[at].any(0))[None]
            points, rounded = vectors[at], self._rounded(form, length, len(some))
            hull = np.minimum.reduceat(points, first), np.maximum.reduceat(points, first)
            with np.errstate(all="ignore"):  # what is no number fails every comparison
                around, inside = (self._near(support, *ends) for ends in (hull, (points, points)))
                q, least, off = self.margins.relaxed(around, rounded).lines(labels, rivals)
                found = down(least[own] - inside.highest_of_each(q, own))
            tied = self.margins.tied(labels, rivals)[own]
            gaps[np.ix_(at, rivals[0])] = np.where(tied, 0.0 - off[own], found)
        return gaps

    def _near(self, support: Support, low: Floats, high: Floats) -> BoxRegions:
        """Boxes of counts no longer than the longest string in them."""
        longest = int(high.sum(1).max())
        boxes = Boxes.of_counts(low, high, self.spec.attend_cls, longest)
        return self.counts.regions(support, boxes)

    def _rounded(self, form: str | None, length: int, number: int) -> Rounded | None:
        """What float32 rounds in so many boxes, where it is asked about."""
        if form is None:
            return None
        self._require_float32()
        errors = self._rounding.errors(rounded_up(length), (CLS, 0), form)
        return Rounded([errors] * number)

    def on_paths(self, sets: Sets, winner: Index, wanted: Mask, float32: bool = False) -> Mask:
        """In which sets of paths a class beats each wanted one (in `float32`, too)."""
        shown = np.zeros(len(sets), dtype=bool)
        for at, regions, rounded in self.path_regions(sets, float32):
            shown[at] = self._beats(regions, winner[at], wanted[at], rounded)
        return shown

    def of_inputs(self, letters: Index, label: Index, float32: Mask) -> tuple[Index, Mask]:
        """Whether single inputs `[input place]` are right: in intervals, or in balls.

        Returns:
            The label where it is the answer, a class that beats it where one does, and -1 where
            neither is proved; where `float32` asks, whether the same is proved of that.
        """
        every, gaps = np.arange(self.n_classes), np.full((len(letters), self.n_classes), np.nan)
        for at, one, regions, _ in self._inputs(letters, label):
            with np.errstate(all="ignore"):
                gaps[at] = self.margins.gaps(regions, one, every)
        own = every == label[:, None]
        right = (own | self.margins.won(gaps, label)).all(1)
        rival = np.where(own, np.inf, np.nan_to_num(gaps, nan=np.inf)).argmin(1)
        beaten = self._shown(letters, rival, own, ~right & (rival != label), False)
        answer = np.where(right, label, np.where(beaten, rival, -1))
        sure = self._shown(letters, answer, own ^ right[:, None], float32 & (answer >= 0), True)
        for i in np.flatnonzero(answer < 0).tolist():
            known = self.answer_to_string(letters[i].tolist())
            answer[i] = -1 if known is None else known
        return answer, sure

    def _shown(
        self, letters: Index, winner: Index, wanted: Mask, asked: Mask, float32: bool
    ) -> Mask:
        """Where a class beats each wanted one, of the inputs that are asked about."""
        shown, rows = np.zeros(len(letters), dtype=bool), np.flatnonzero(asked)
        for at, one, regions, rounded in self._inputs(letters[rows], winner[rows], float32):
            shown[rows[at]] = self._beats(regions, one, wanted[rows[at]], rounded)
        return shown

    def _inputs(
        self, letters: Index, winner: Index, float32: bool = False
    ) -> Iterator[tuple[Index, Index, Inputs, Rounded | None]]:
        """As many at once as memory allows, of one winner."""
        length, read = letters.shape[1], letters[:, -1] * (self.spec.reads == "last_letter")
        order, most = np.lexsort((read, winner)), self._inputs_at_once(length)
        for same in np.split(order, np.flatnonzero(np.diff(winner[order])) + 1):
            for start in range(0, len(same), most):
                self.budget()
                at = same[start : start + most]
                readers, own = np.unique(read[at], return_inverse=True)
                spots = [self.forward.reader(length, int(letter)) for letter in readers]
                keys, rounded = [self.order.keys(length, spot) for spot in spots], None
                if float32:
                    errors = [self._rounding.errors(length, spot) for spot in spots]
                    rounded = Rounded([errors[i] for i in own])
                yield at, winner[at[:1]], Inputs(keys, own, letters[at]), rounded

    def path_regions(
        self, sets: Sets, float32: bool = False
    ) -> Iterator[tuple[Index, PathRegions, Rounded | None]]:
        """As many sets at once as memory allows; none whose paths have several readers."""
        require(not float32 or self.spec.n_layers == 1, "float32 is bounded for one layer")
        reader, length = self.order.readers(sets), sets.trellis.length
        known, step = np.flatnonzero(reader >= 0), self._paths_at_once(sets.slots)
        for start in range(0, len(known), step):
            self.budget()
            at = known[start : start + step]
            spots = [self.forward.reader(length, int(letter)) for letter in reader[at]]
            keys, rounded = [self.order.keys(length, spot) for spot in spots], None
            if float32:
                rounded = Rounded([self._rounding.errors(length, spot) for spot in spots])
            yield at, PathRegions(sets[at], keys), rounded

    def strictly_in_box(self, support: Support, boxes: Boxes, winner: int) -> bool:
        """Whether a class's output is above all others, whatever wins ties, in one region."""
        others = np.arange(self.n_classes) != winner
        gaps = self.gaps_in_boxes(support, boxes, np.array([winner]), others[None])
        return bool((gaps[0, others] > 0).all())

    def _beats(
        self, regions: Attended, winner: Index, wanted: Mask, rounded: Rounded | None
    ) -> Mask:
        self.budget()
        return self.margins.beats(regions, winner, wanted, rounded)

    def _step(self, slots: int) -> int:
        most = min(self.budget.memory // 256, _AT_ONCE)
        return max(1, most // (self.margins.rows * (slots + _PER_ROW)))

    def _paths_at_once(self, slots: int) -> int:
        most = min(self.budget.memory // 256, _AT_ONCE)
        return max(1, most // (8 * slots + self.margins.rows * _PER_PATHS))

    def _inputs_at_once(self, length: int) -> int:
        hidden = self.margins.rows * (self.spec.d_model + 16)
        row = 16 * self.n_classes + length * self.spec.d_model + hidden
        return max(1, min(self.budget.memory // 64, 4 * _AT_ONCE) // row)

    def _require_float32(self) -> None:
        require(self.spec.n_layers == 1, "float32 rounding is bounded for one layer")

    # -- single inputs ---------------------------------------------------------------------------

    def answer_to_counts(self, support: Support, counts: Sequence[int]) -> int | None:
        """The class that is proved to be the answer to one count vector, if one is."""
        reader = self.forward.reader(0, 0)
        letters = [(FIRST_LETTER + letter, 0) for letter in support]
        keys = self.forward.keys(letters, reader)
        return self._answer(keys, [*counts, *[1] * (len(keys) - len(letters))], reader)

    def answer_to_string(self, string: Sequence[int]) -> int | None:
        """The same of letters by index, in their order."""
        first = int(self.spec.reads == "first")
        letters = [(FIRST_LETTER + letter, place + first) for place, letter in enumerate(string)]
        reader = self.forward.reader(len(string), string[-1])
        keys = self.forward.keys(letters, reader)
        return self._answer(keys, [1] * len(keys), reader)

    def _answer(self, keys: Sequence[Spot], copies: Sequence[int], reader: Spot) -> int | None:
        classes = range(self.n_classes)
        same = [self.forward.model.same_outputs(j) for j in classes]
        for precision in PRECISIONS:
            self.budget()
            with ctx.workprec(precision):
                outputs = self.forward.outputs(keys, copies, reader)
                for j in classes:
                    gaps = [arb(0) if k in same[j] else outputs[j] - outputs[k] for k in classes]
                    if all(_wins(j, k, gap) for k, gap in enumerate(gaps) if k != j):
                        return j
        return None


def _wins(label: int, other: int, gap: Ball) -> bool:
    """Whether a margin is won: of equal outputs the one with the lower index is the answer."""
    return balls.is_positive(gap) or (label < other and balls.is_not_positive(-gap))


def rounded_up(length: int) -> int:
    """The next power of two, or half-way to it: a few lengths stand for all."""
    step = 1 << (length - 1).bit_length()
    return step * 3 // 4 if step * 3 // 4 >= length else step
