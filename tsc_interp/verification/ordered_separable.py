"""One head, nothing but attention: every difference of outputs is a sum over places, times > 0.

A head's output is Σ w v / Σ w. With c added and all multiplied by Σ w > 0, output y minus output j
has the sign of Σ_p w(l_p) (v_y - v_j + c_y - c_j)(l_p): this is Dinkelbach's iteration at the one λ
that matters, where its first step is exact. So over a box the smallest difference is the sum of the
smallest terms, and for each letter at one place it is known with the others left free: those that
are decided are cut off together, and what is left is smaller.
"""

from __future__ import annotations

import numpy as np

from tsc_interp.verification.intervals import UNIT, Array
from tsc_interp.verification.ordered_boxes import (
    RIGHT,
    Boxes,
    Decided,
    Index,
    Mask,
    Step,
    join,
    split_at,
)
from tsc_interp.verification.ordered_compact import Compact, compact
from tsc_interp.verification.ordered_tables import OrderedTables

_NUMBERS_AT_ONCE = 1 << 18
_ENOUGH = 0.25
"""Where less than this share of a place's letters is decided, the box is cut in two as well."""
_UNDERFLOW = 2.0**-1000


def is_separable(tables: OrderedTables) -> bool:
    return tables.weights.shape[1] == 1 and set(tables.slices) == {"outer"}


class Separable:
    """Bounds and cuts for boxes of one length."""

    def __init__(self, tables: OrderedTables) -> None:
        self.tables = tables
        with np.errstate(all="ignore"):
            self._fill(tables)

    def _fill(self, tables: OrderedTables) -> None:
        """Terms `[reading place letter class]`, and more than any of them can be off, for any pair.

        A term w (v + c) is off by a few units of w (|v| + |c|) and by w times the tables' own
        errors; adding up n of them costs n units of the sum of their sizes. Twice that, for two.
        """
        weights, constant = tables.weights[:, 0], tables.constant
        values, fixed = tables.values, tables.fixed_values
        self.terms = weights[..., None] * (
            values.values[0][None] + constant.values[:, None, None, :]
        )
        self.itself = tables.fixed_weights[:, :1] * (fixed.values[:, 0] + constant.values)
        units = 2 * (tables.free + 16) * UNIT

        def slack(weight: Array, value: Array, error: Array, own: Array, own_error: Array) -> Array:
            size = np.abs(value).max(-1) + np.abs(own).max(-1)
            off = error.max(-1) + own_error.max(-1)
            return np.asarray(2 * weight * (units * size + off) + _UNDERFLOW * (1 + size))

        own, own_error = constant.values, constant.errors
        self.slack = slack(
            weights,
            values.values[0][None],
            values.errors[0][None],
            own[:, None, None],
            own_error[:, None, None],
        )
        self.itself_slack = slack(
            tables.fixed_weights[:, 0], fixed.values[:, 0], fixed.errors[:, 0], own, own_error
        )

    @property
    def cost(self) -> float:
        """Microseconds of a box, about."""
        _, places, letters, classes = self.terms.shape
        return 2.0 + float(places * letters * classes) / 500

    # -- one round -----------------------------------------------------------------------------

    def step(self, boxes: Boxes) -> Step:
        """What is decided now, smaller boxes for what is not, and single strings in doubt."""
        with np.errstate(all="ignore"):
            low = self._own(boxes, -1) + self._settled(boxes)
            for place in range(self.tables.free):
                low = low + self._smallest(boxes, place)
            doubt = ~(low > 0)
            right = ~doubt.any(1)
            decided = [Decided(boxes[right], np.full(int(right.sum()), RIGHT))]
            if not self.tables.free:
                return self._alone(decided, boxes[~right])
            waiting, doubtful = [], []
            for part in compact(boxes[~right], doubt[~right], _NUMBERS_AT_ONCE):
                step = self._peel(part)
                decided += step.decided
                waiting.append(step.waiting)
                doubtful.append(step.doubtful)
            return Step(decided, join(waiting, boxes), join(doubtful, boxes))

    def _own(self, boxes: Boxes, side: int) -> Array:
        """What the reading token adds to each difference, moved to the safe side."""
        gaps = self._gaps(self.itself[boxes.reading], boxes)
        return np.asarray(gaps + side * self.itself_slack[boxes.reading][:, None])

    def _gaps(self, terms: Array, boxes: Boxes) -> Array:
        """`[box ... class]` to differences from the label's; outputs that are equal are settled."""
        shape = (len(boxes), *(1,) * (terms.ndim - 2), 1)
        own = np.take_along_axis(terms, boxes.label.reshape(shape), -1)
        return np.asarray(own - terms)

    def _settled(self, boxes: Boxes) -> Array:
        """`[box class]`: +inf where the label never loses (itself, or a tie it wins), -inf where it
        always does (a tie it loses), else 0."""
        classes = np.arange(self.tables.classes)
        label = boxes.label[:, None]
        same = self.tables.same[boxes.label]
        return np.where(same, np.where(classes >= label, np.inf, -np.inf), 0.0)

    def _smallest(self, boxes: Boxes, place: int) -> Array:
        """The smallest difference any letter of a place's set adds, `[box class]`.

        Boxes with sets of similar size are done together, so that little is padded.
        """
        sets = boxes.sets[:, place]
        found = np.empty((len(boxes), self.tables.classes))
        sizes = sets.sum(1)
        order = np.argsort(sizes, kind="stable")
        members = np.argsort(~sets, axis=1, kind="stable")
        start = 0
        while start < len(order):
            size = int(sizes[order[start]])
            stop = start + max(1, _NUMBERS_AT_ONCE // (size * self.tables.classes))
            stop = min(stop, int(np.searchsorted(sizes[order], size * 1.25 + 2)))
            rows = order[start:stop]
            widest = int(sizes[rows[-1]])
            within = np.arange(widest) < sizes[rows][:, None]
            letters = np.where(within, members[rows, :widest], members[rows, :1])
            reading = boxes.reading[rows][:, None]
            gaps = self._gaps(self.terms[reading, place, letters], boxes[rows])
            gaps -= self.slack[reading, place, letters][..., None]
            found[rows] = gaps.min(1)
            start = stop
        return found

    def _peel(self, part: Compact) -> Step:
        """Cut off the letters of one place that are decided whatever stands elsewhere."""
        boxes, rows = part.boxes, np.arange(len(part.boxes))
        gaps, slack = self._of_letters(part)
        settled = np.take_along_axis(self._settled(boxes), part.classes, 1)[:, None, None]
        least = np.take_along_axis(self._own(boxes, -1), part.classes, 1)
        most = np.take_along_axis(self._own(boxes, 1), part.classes, 1)
        low = _with_others(gaps - slack, part.inside, least) + settled
        high = settled - _with_others(-gaps - slack, part.inside, -most)
        right = (low > 0).all(-1) & part.inside
        first = high.argmin(-1)
        lost = np.take_along_axis(high, first[..., None], -1)[..., 0] < 0
        wrong = lost & part.inside & ~right
        share = (right | wrong).sum(2) / part.inside.sum(2)
        place = share.argmax(1)
        instead = part.classes[rows[:, None], first[rows, place]]
        decided = [self._emit(part, place, right[rows, place], RIGHT)]
        for j in np.unique(instead[wrong[rows, place]]):
            by_j = wrong[rows, place] & (instead == j)
            decided.append(self._emit(part, place, by_j, int(j)))
        rest = part.inside.copy()
        rest[rows, place] &= ~(right | wrong)[rows, place]
        sets = boxes.sets.copy()
        sets[rows, place] &= ~part.scattered(place, (right | wrong)[rows, place])
        left = boxes.with_sets(sets)
        alive = left.holds_strings()
        single = boxes.is_single()
        stuck = (share.max(1) < _ENOUGH) & ~single & alive
        halved = self._halve(part[stuck], left[stuck], rest[stuck], gaps[stuck], low[stuck])
        waiting = join([left[alive & ~stuck & ~single], halved], boxes)
        return Step(decided, waiting, left[alive & single])

    def _of_letters(self, part: Compact) -> tuple[Array, Array]:
        """Differences `[box place letter class]`, of a box's own letters and classes in doubt."""
        reading = part.boxes.reading[:, None, None]
        places = np.arange(self.tables.free)[:, None]
        own = self.terms[reading, places, part.letters, part.boxes.label[:, None, None]]
        others = self.terms[
            reading[..., None],
            places[..., None],
            part.letters[..., None],
            part.classes[:, None, None],
        ]
        return own[..., None] - others, self.slack[reading, places, part.letters][..., None]

    def _alone(self, decided: list[Decided], boxes: Boxes) -> Step:
        """Strings of one letter, which reads: nothing is free."""
        settled = self._settled(boxes)
        high = self._own(boxes, 1) + settled
        instead = high.argmin(1)
        wrong = high.min(1) < 0
        return Step([*decided, Decided(boxes[wrong], instead[wrong])], boxes[:0], boxes[~wrong])

    def _emit(self, part: Compact, place: Index, letters: Mask, instead: int) -> Decided:
        kept = np.asarray(letters.any(1))
        boxes, rows = part.boxes[kept], np.arange(int(kept.sum()))
        sets = boxes.sets.copy()
        sets[rows, place[kept]] = part[kept].scattered(place[kept], letters[kept])
        return Decided(boxes.with_sets(sets), np.full(len(boxes), instead))

    def _halve(self, part: Compact, boxes: Boxes, inside: Mask, gaps: Array, low: Array) -> Boxes:
        """In two, where the difference that is most in doubt varies most."""
        if not len(boxes):
            return boxes
        rows = np.arange(len(boxes))
        doubtful = np.where(inside[..., None], low, np.inf).min((1, 2)).argmin(1)
        terms = gaps[rows, :, :, doubtful]
        least = np.where(inside, terms, np.inf).min(2)
        most = np.where(inside, terms, -np.inf).max(2)
        several = inside.sum(2) > 1
        place = np.where(several, most - least, -1.0).argmax(1)
        # NaN compares false: whatever happens, one of several letters is parted from the rest.
        middle = (least[rows, place] + most[rows, place]) / 2
        cut = inside[rows, place] & (terms[rows, place] <= middle[:, None])
        useless = ~cut.any(1) | (cut == inside[rows, place]).all(1)
        first = inside[rows, place].argmax(1)
        cut[useless] = False
        cut[rows[useless], first[useless]] = True
        return split_at(boxes, place, part.scattered(place, cut))


def _with_others(gaps: Array, sets: Mask, own: Array) -> Array:
    """For each letter at each place: its own term plus the smallest of every other place.

    The others are added up without it: to subtract it from the whole would leave its rounding.
    """
    least = np.where(sets[..., None], gaps, np.inf).min(2)
    before, after = np.zeros_like(least), np.zeros_like(least)
    before[:, 1:] = np.cumsum(least[:, :-1], axis=1)
    after[:, :-1] = np.cumsum(least[:, :0:-1], axis=1)[:, ::-1]
    return np.asarray((before + after + own[:, None])[:, :, None] + gaps)
