"""The shortest error on a support, by best-first branch and bound over boxes of counts.

Order of strings, here and everywhere in this package: shorter first; among strings of one length,
the one whose sorted form comes first in the alphabet, which is the lexicographically largest count
vector (`aab` before `abb`: 2,1 before 1,2). So "the shortest error" names exactly one count vector.

A box's first string in that order is its low corner, strictly. So a box is finished when its low
corner is wrong (a candidate), or when every vector is right; otherwise it is cut in two at the
geometric middle of its relatively longest side. Boxes are taken shortest corner first.

What float64 guesses decides only where to look. Boxes that look right are kept until no other is
left, and given to the trusted base, the shortest first; those that it does not show right are cut
in two like others. So when the search stops, for whatever reason, every string is known to be right
that is shorter than all boxes it has left.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.telling import say
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.guess import Array, Integers
from tsc_interp.verification.labels import all_supports
from tsc_interp.verification.search.cutting import Box, Logits, Vector, halves, longest_sides
from tsc_interp.verification.search.ways import OPEN, TaskWays, Ways

Entry = tuple[int, Vector, Vector]
"""In a queue: length of the low corner, low, high."""

BOXES = 200_000
"""Of one set of letters."""
SECONDS = 600.0
"""For the boxes of all sets of letters, as estimated for a processor of the 2020s."""
_FEWEST = 500
EXACT_WORK = 2_000_000
"""For the exact decisions on one set of letters: two seconds."""
MANY_UNDECIDED = 64
"""So many vectors that no precision decides end a search: there will be more."""
_BATCH, _SHOWN_AT_ONCE = 256, 1024
_MOST_RIGHT = 4096
"""So many boxes that look right are shown before others are looked at."""


@dataclass
class SupportSearch:
    """One support: where it first fails, and up to which length that is proved."""

    letters: tuple[int, ...]
    label: int | None
    """The class of all its strings, if they share one."""
    counterexample: Vector | None = None
    """Counts of this support's letters, the first error in the order above."""
    verified_length: int = 0
    """Every string of the support up to this length is right (proved over the reals)."""
    undecided: list[Vector] = field(default_factory=list)
    """Vectors whose logit could not be told from zero."""
    whole: Box = ((), ())
    """The box of all vectors up to the limit."""
    cuts: dict[Box, int] = field(default_factory=dict)
    """Boxes that were cut, and along which side; the others are right up to `verified_length`."""
    examined: int = 0
    sure: bool = True
    """Whether the trusted base has shown what is verified; if not, float64 guesses so."""


def search_supports(
    model: CountModel,
    limit: int,
    boxes: int,
    *,
    seconds: float = SECONDS,
    first_only: bool = False,
    sure: bool = True,
) -> list[SupportSearch]:
    """`search_support` for every set of letters: `boxes` each while all take `seconds` or less.

    What one set does not use is there for the next. Seconds are estimated, not timed, so the answer
    is the same on every machine. With `first_only` no set is searched beyond the shortest error of
    those before it: of all errors together the first one is found all the same. A search need not
    be `sure` for a proof that derives all of it.
    """
    sets = all_supports(model.config)
    costs = [model.cost(letters) for letters in sets]
    work = int(seconds * 1e6)
    least = sum(costs) * min(boxes, _FEWEST)
    if least > work:
        raise UnsupportedError(
            f"searching {len(sets):,} sets of letters, {min(boxes, _FEWEST)} boxes each, would "
            f"take about {least / 3.6e9:,.1f} hours for a model of this size. Count the errors of "
            f"short strings instead (verify with a small length), or search longer or fewer boxes: "
            f"horizon(model, seconds={math.ceil(least / 1e6)}) or horizon(model, "
            f"boxes={int(work / sum(costs))})"
        )
    searches, left = [], work
    for done, (letters, cost) in enumerate(zip(sets, costs, strict=True)):
        say(f"searching: {done:,} of {len(sets):,} sets of letters")
        share = min(boxes, left // (len(sets) - done) // cost)
        searches.append(search_support(model, letters, limit, share, sure=sure))
        left -= searches[-1].examined * cost
        counterexample = searches[-1].counterexample
        if first_only and counterexample is not None:
            limit = sum(counterexample)
    return searches


def search_support(
    model: CountModel,
    letters: tuple[int, ...],
    limit: int,
    budget: int = BOXES,
    *,
    box: Box | None = None,
    sure: bool = True,
) -> SupportSearch:
    """The first error among strings of at most `limit` letters, within a budget of boxes.

    Of all strings over exactly these letters, or of those with counts in `box`. Without `sure`,
    what looks right to tables of this kind of model is not shown.
    """
    logits = None
    # Of two letters, both matter.
    if len(letters) > 2 and not model.multiclass:

        def logits(counts: Array) -> Array:
            return model.guess.logits(letters, counts)

    sure = sure or not model.guess.has_table
    return first_failure(TaskWays(model), letters, limit, budget, logits, box, sure)


def first_failure(
    ways: Ways,
    letters: tuple[int, ...],
    limit: int,
    budget: int = BOXES,
    logits: Logits | None = None,
    box: Box | None = None,
    sure: bool = True,
) -> SupportSearch:
    """The first vector that is wrong, of all or of those in `box`.

    The `logits` of count vectors, where they are given, say along which sides boxes are cut.

    Ends early when `MANY_UNDECIDED` vectors could not be decided, or when exact decisions have
    taken `EXACT_WORK`. What is found then is as sound as ever, but may not be all there is.
    """
    found, size = SupportSearch(letters, ways.label(letters)), len(letters)
    if limit < size:
        found.verified_length = limit
        return found
    found.whole = box or ((1,) * size, (limit - size + 1,) * size)
    found.sure = sure
    return _Search(ways, found, limit, budget, logits).run()


class _Search:
    """Boxes to look at, boxes that look right, and boxes whose low corner looks wrong."""

    def __init__(
        self, ways: Ways, found: SupportSearch, limit: int, budget: int, logits: Logits | None
    ) -> None:
        self.ways, self.found, self.limit = ways, found, limit
        self.budget, self.logits = budget, logits
        low, high = found.whole
        self.boxes: list[Entry] = [(sum(low), low, high)]
        self.right: list[Entry] = []
        self.wrong: list[tuple[tuple[int, Vector], Box]] = []
        self.decided: dict[Vector, int] = {}
        """The ways of low corners, where the trusted base was asked."""
        self.least_work = ways.exact_work - EXACT_WORK

    def run(self) -> SupportSearch:
        found = self.found
        while not self._ended():
            waits = len(self.right) < _MOST_RIGHT
            if waits and self.boxes and self.boxes[0][0] <= self._longest():
                self._look()
            elif not self._confirmed():
                self._confirm()
            elif self.right and self.right[0][0] <= self._longest():
                self._show()
            else:
                break
        while not self._confirmed():
            self._confirm()
        while self.right and self.right[0][0] < self._known():
            self._show()
        found.verified_length = self._known() - 1
        if self.right:
            found.verified_length = min(found.verified_length, self.right[0][0] - 1)
        if self.wrong:
            found.counterexample = self.wrong[0][1][0]
        return found

    def _ended(self) -> bool:
        spent = self.found.examined >= self.budget or self.ways.exact_work < self.least_work
        return spent or len(self.found.undecided) >= MANY_UNDECIDED

    def _longest(self) -> int:
        """Longer strings do not matter."""
        return self.wrong[0][0][0] if self.wrong else self.limit

    def _known(self) -> int:
        """The least length of which something is left to look at, wrong or undecided."""
        lengths = [self.limit + 1, *map(sum, self.found.undecided)]
        lengths += [entry[0] for entry in self.boxes[:1]]
        return min([*lengths, self._longest()] if self.wrong else lengths)

    def _confirmed(self) -> bool:
        return not self.wrong or self.wrong[0][1][0] in self.decided

    def _taken(self, entries: list[Entry], most: int) -> tuple[list[Box], Integers, Integers]:
        """The shortest of these, and their corners."""
        boxes: list[Box] = []
        while entries and len(boxes) < most and entries[0][0] <= self._longest():
            boxes.append(heapq.heappop(entries)[1:])
        low, high = (np.array([box[end] for box in boxes], dtype=np.int64) for end in (0, 1))
        return boxes, low, high

    def _look(self) -> None:
        """Sort boxes into wrong, right, and those to be cut."""
        boxes, low, high = self._taken(self.boxes, _BATCH)
        self.found.examined += len(boxes)
        letters, right = self.found.letters, self.ways.wrong
        corners = self.ways.guessed(letters, low).tolist()
        likely = self.ways.likely(letters, low, self._clipped(low, high, self.limit)).tolist()
        pending = []
        for box, corner, throughout in zip(boxes, corners, likely, strict=True):
            if self.decided.get(box[0], corner) != right:
                if box[0] not in self.decided:
                    heapq.heappush(self.wrong, (_order(box[0]), box))
                elif box[0] != box[1]:
                    pending.append(box)
            elif throughout == right or box[0] == box[1]:
                heapq.heappush(self.right, (sum(box[0]), *box))
            else:
                pending.append(box)
        self._cut(pending)

    def _confirm(self) -> None:
        """Ask whether the first low corner that looks wrong is wrong."""
        low, high = self.wrong[0][1]
        self._decide([low])
        if self.decided[low] in (self.ways.wrong, OPEN):
            heapq.heappop(self.wrong)
            if low != high:
                heapq.heappush(self.boxes, (sum(low), low, high))

    def _decide(self, vectors: list[Vector]) -> None:
        ways = self.ways.decided(self.found.letters, np.array(vectors, dtype=np.int64)).tolist()
        self.decided.update(zip(vectors, ways, strict=True))
        self.found.undecided += [v for v, way in zip(vectors, ways, strict=True) if way == OPEN]

    def _show(self) -> None:
        """Ask whether boxes that look right are right, as far as their strings matter."""
        boxes, low, high = self._taken(self.right, _SHOWN_AT_ONCE)
        if not self.found.sure:
            return
        high = self._clipped(low, high, self._longest())
        right = np.full(len(boxes), self.ways.wrong)
        shown = self.ways.shown(self.found.letters, low, high, right)
        alone = (low == high).all(1)
        asked = [boxes[i][0] for i in np.flatnonzero(~shown & alone)]
        asked = [vector for vector in asked if vector not in self.decided]
        if asked:
            self._decide(asked)
        for vector in asked:
            if self.decided[vector] not in (self.ways.wrong, OPEN):
                heapq.heappush(self.wrong, (_order(vector), (vector, vector)))
        self._cut([boxes[i] for i in np.flatnonzero(~shown & ~alone)])

    def _clipped(self, low: Integers, high: Integers, longest: int) -> Integers:
        """Larger counts make a string longer than that."""
        return np.asarray(np.minimum(high, low + (longest - low.sum(1, keepdims=True))))

    def _cut(self, boxes: list[Box]) -> None:
        sides = longest_sides(boxes, self.logits) if boxes else []
        for (low, high), side in zip(boxes, sides, strict=True):
            self.found.cuts[low, high] = side
            for part in halves(low, high, side):
                if sum(part[0]) <= self.limit:
                    heapq.heappush(self.boxes, (sum(part[0]), *part))


def _order(vector: Vector) -> tuple[int, Vector]:
    # Negated counts: the lexicographically largest vector is the smallest key.
    return sum(vector), tuple(-count for count in vector)
