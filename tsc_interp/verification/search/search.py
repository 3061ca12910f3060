"""The shortest error on a support, by best-first branch and bound over boxes of counts.

Order of strings, here and everywhere in this package: shorter first; among strings of one length,
the one whose sorted form comes first in the alphabet, which is the lexicographically largest count
vector (`aab` before `abb`: 2,1 before 1,2). So "the shortest error" names exactly one count vector.

A box's first string in that order is its low corner, strictly. So a box is finished when its low
corner is wrong (a candidate), or when its bounds show every vector right; otherwise it is cut
in two at the geometric middle of its relatively longest side. Boxes are taken shortest corner
first, so when the search stops, for whatever reason, every shorter string is known to be right.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.telling import say
from tsc_interp.verification.bounds.intervals import Interval
from tsc_interp.verification.bounds.labels import (
    all_supports,
    by_class,
    class_of_support,
    class_range,
    full_counts,
    labels_of,
)
from tsc_interp.verification.bounds.supports import Supports, count_box_bounds
from tsc_interp.verification.bounds.tables import TableSupport
from tsc_interp.verification.search.cutting import Box, Logits, Vector, halves, longest_sides

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

RIGHT, WRONG, UNDECIDED, _UNKNOWN = 1, -1, 0, 2
Entry = tuple[int, Vector, Vector, int]
"""In the queue: length of the low corner, low, high, and what is known of the low corner."""

BOXES = 200_000
"""Of one set of letters."""
SECONDS = 600.0
"""For the boxes of all sets of letters, as estimated for a processor of the 2020s."""
_FEWEST = 500
EXACT_WORK = 2_000_000
"""For the exact decisions on one set of letters: two seconds."""
MANY_UNDECIDED = 64
"""So many logits too close to zero for any precision end a search: there will be more."""
_BATCH = 48


class Judge(Protocol):
    """Who says what is right: the task (`TaskJudge`), or another model (agreement.py)."""

    @property
    def config(self) -> ClassifierConfig:
        """The letters and what is asked of them."""

    def label(self, letters: tuple[int, ...]) -> int | None:
        """What all strings over exactly these letters should be called, if they share it."""

    def cost(self, letters: tuple[int, ...]) -> int:
        """About how many microseconds a box of these letters takes."""

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        """RIGHT, WRONG or UNDECIDED, for each count vector."""

    def failures(self, letters: tuple[int, ...], vectors: Integers) -> Sequence[Flags]:
        """Which vectors are wrong, in each way there is, and last which are undecided."""

    def decided(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Sequence[Flags]:
        """Which boxes bounds show wrong throughout, in each way there is, and last which right."""

    def exact_left(self) -> int:
        """What is left for exact decisions, in microseconds of work."""


@dataclass(frozen=True)
class TaskJudge:
    """Right is what the task says: the margin of a string's class is above zero.

    There are two ways to be wrong, false positives and false negatives, and one if there are more
    than two classes.
    """

    supports: Supports

    @property
    def config(self) -> ClassifierConfig:
        return self.supports.config

    def label(self, letters: tuple[int, ...]) -> int | None:
        return class_of_support(self.config, letters)

    def cost(self, letters: tuple[int, ...]) -> int:
        return self.supports.cost(letters)

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        verdict = np.empty(len(vectors), dtype=np.int64)
        for label, member in by_class(self.config, letters, vectors):
            verdict[member] = answered(self.supports, letters, vectors[member], label)
        return verdict

    def failures(self, letters: tuple[int, ...], vectors: Integers) -> Sequence[Flags]:
        verdict = self.corners(letters, vectors)
        wrong, undecided = verdict == WRONG, verdict == UNDECIDED
        if self.supports.multiclass:
            return wrong, undecided
        labels = labels_of(self.config, letters, vectors)
        return wrong & ~labels, wrong & labels, undecided

    def decided(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Sequence[Flags]:
        labels, (least, most) = margin_bounds(self.supports, letters, low, high)
        wrong, right = most <= 0, least > 0
        if self.supports.multiclass:
            return wrong, right
        return wrong & (labels == 0), wrong & (labels == 1), right

    def exact_left(self) -> int:
        return self.supports.exact.budget


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


def search_supports(
    supports: Supports,
    limit: int,
    boxes: int,
    *,
    seconds: float = SECONDS,
    first_only: bool = False,
) -> list[SupportSearch]:
    """`search_support` for every set of letters: `boxes` each while all take `seconds` or less.

    What one set does not use is there for the next. Seconds are estimated, not timed, so the answer
    is the same on every machine. With `first_only` no set is searched beyond the shortest error of
    those before it: of all errors together the first one is found all the same.
    """
    sets = all_supports(supports.config)
    costs = [supports.cost(letters) for letters in sets]
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
        searches.append(search_support(supports, letters, limit, share))
        left -= searches[-1].examined * cost
        counterexample = searches[-1].counterexample
        if first_only and counterexample is not None:
            limit = sum(counterexample)
    return searches


def search_support(
    supports: Supports,
    letters: tuple[int, ...],
    limit: int,
    budget: int = BOXES,
    *,
    box: Box | None = None,
) -> SupportSearch:
    """The first error among strings of at most `limit` letters, within a budget of boxes.

    Of all strings over exactly these letters, or of those with counts in `box`.
    """
    support, logits = None if supports.multiclass else supports[letters], None
    # Of two letters, both matter; logits of several layers cost as much as boxes.
    if len(letters) > 2 and isinstance(support, TableSupport):

        def logits(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            return support.logits(counts)[0]

    return first_failure(TaskJudge(supports), letters, limit, budget, logits, box)


def first_failure(
    judge: Judge,
    letters: tuple[int, ...],
    limit: int,
    budget: int = BOXES,
    logits: Logits | None = None,
    box: Box | None = None,
) -> SupportSearch:
    """The first vector that the judge calls wrong, of all or of those in `box`.

    The `logits` of count vectors, where they are given, say along which sides boxes are cut.

    Ends early when `MANY_UNDECIDED` vectors could not be told from zero, or when exact decisions
    have taken `EXACT_WORK`. What is found then is as sound as ever, but may not be all there is.
    """
    result = SupportSearch(letters, judge.label(letters))
    size = len(letters)
    if limit < size:
        result.verified_length = limit
        return result
    result.whole = box or ((1,) * size, (limit - size + 1,) * size)
    low, high = result.whole
    heap: list[Entry] = [(sum(low), low, high, _UNKNOWN)]
    best: tuple[int, Vector] | None = None
    least_left = judge.exact_left() - EXACT_WORK
    while heap and result.examined < budget and len(result.undecided) < MANY_UNDECIDED:
        if judge.exact_left() < least_left:
            break
        batch: list[Entry] = []
        longest = limit if best is None else best[0]
        while heap and len(batch) < _BATCH and heap[0][0] <= longest:
            batch.append(heapq.heappop(heap))
        if not batch:
            break
        result.examined += len(batch)
        wrong, pending = _examine(judge, result, batch)
        for vector in wrong:
            # Negated counts: the lexicographically largest vector is the smallest key.
            key = (sum(vector), tuple(-count for count in vector))
            best = key if best is None else min(best, key)
        sides = longest_sides([entry[1:3] for entry in pending], logits) if pending else []
        for (length, low, high, corner), side in zip(pending, sides, strict=True):
            result.cuts[low, high] = side
            lower, upper = halves(low, high, side)
            heapq.heappush(heap, (length, *lower, corner))
            if sum(upper[0]) <= limit:
                heapq.heappush(heap, (sum(upper[0]), *upper, _UNKNOWN))
    doubtful = [*(entry[0] for entry in heap[:1]), *map(sum, result.undecided)]
    if best is not None:
        result.counterexample = tuple(-count for count in best[1])
        doubtful.append(best[0])
    result.verified_length = min([limit, *(length - 1 for length in doubtful)])
    return result


def _examine(
    judge: Judge, search: SupportSearch, batch: list[Entry]
) -> tuple[list[Vector], list[Entry]]:
    """Wrong low corners, and boxes still to be cut."""
    low = np.array([entry[1] for entry in batch], dtype=np.int64)
    high = np.array([entry[2] for entry in batch], dtype=np.int64)
    corner = np.array([entry[3] for entry in batch])
    new = corner == _UNKNOWN
    corner[new] = judge.corners(search.letters, low[new])
    search.undecided += [tuple(vector) for vector in low[new & (corner == UNDECIDED)].tolist()]
    right = judge.decided(search.letters, low, high)[-1]
    right |= (low == high).all(axis=1) & (corner == RIGHT)
    wrong, pending = [], []
    for i, (length, lowest, highest, _) in enumerate(batch):
        if corner[i] == WRONG:
            wrong.append(lowest)
        elif not right[i] and lowest != highest:
            pending.append((length, lowest, highest, int(corner[i])))
    return wrong, pending


def answered(
    supports: Supports, letters: tuple[int, ...], vectors: Integers, label: int
) -> Integers:
    """RIGHT where the model's answer is this class, WRONG where it is another, or UNDECIDED."""
    margin, error = supports.margin(letters, label).logits(vectors.astype(float))
    verdict = np.where(margin > 0, RIGHT, WRONG)
    # Written so that what overflowed to NaN counts as close, and is decided exactly.
    close = ~(np.abs(margin) > error)
    if close.any():
        verdict[close] = UNDECIDED
        for i in np.flatnonzero(close):
            if supports.exact.budget <= 0:
                break
            counts = full_counts(supports.config, letters, vectors[i])
            right = supports.exact.right(counts.tolist(), label)
            verdict[i] = UNDECIDED if right is None else RIGHT if right else WRONG
    return verdict


def margin_bounds(
    supports: Supports, letters: tuple[int, ...], low: Integers, high: Integers
) -> tuple[Integers, Interval]:
    """The class of each box and the range of its margin; -1 and anything if classes differ."""
    labels = class_range(supports.config, letters, low, high)
    least, most = np.full(len(low), -np.inf), np.full(len(low), np.inf)
    for label in np.unique(labels[labels >= 0]).tolist():
        member = labels == label
        support = supports.margin(letters, label)
        ends = count_box_bounds(support, low[member].astype(float), high[member].astype(float))
        least[member], most[member] = ends
    return labels, (least, most)
