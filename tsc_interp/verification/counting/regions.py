"""Counting by regions: boxes of count vectors decided at once, only the boundary point by point.

A box whose bounds show one sign (and one label) is right or wrong as a whole; others are cut in two
until few points are left, which are evaluated. Work grows with the surface between right and wrong,
about L² for three letters, not with the L³ / 6 vectors.

All boxes of a support together hold each of its vectors once. So the wrong ones can be added up, or
all the others be taken away from the whole support, whose strings have a closed form: whichever is
less. A support that is wrong everywhere costs nothing to count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb, factorial, inf, prod

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.counting.binomial import add_boxes, rows_of
from tsc_interp.verification.counting.costs import (
    EXACT_BUDGET,
    HOPELESS,
    INSTEAD,
    LONGEST,
    MANY_VECTORS,
    PATIENCE,
    Work,
    duration,
    shown,
)
from tsc_interp.verification.counting.tally import Integers, Side, Tally, order
from tsc_interp.verification.labels import all_supports, full_counts
from tsc_interp.verification.search.cutting import halve_counts
from tsc_interp.verification.search.ways import OPEN, TaskWays, Ways

Progress = Callable[[int], None]

_BATCH = 4096
_LEAF = 64


def plan(model: CountModel, max_length: int) -> str | None:
    """What a long count will take, as a sentence; None for a short one.

    Raises:
        UnsupportedError: It would take too long.
    """
    if type(max_length) is not int or max_length < 1:
        raise UsageError(f"max_length is a whole number from 1, got {max_length!r}")
    if max_length > LONGEST:
        raise UnsupportedError(
            f"strings are counted up to length {LONGEST:,}, got {shown(max_length)}; try {INSTEAD}"
        )
    letters = model.config.n_letters
    vectors = comb(max_length + letters, letters) - 1
    if vectors <= MANY_VECTORS:
        return None
    seconds = forecast(model, max_length)
    if seconds > HOPELESS * PATIENCE:
        raise UnsupportedError(
            f"{vectors:,} count vectors up to length {max_length:,} would take about "
            f"{duration(seconds)}, judging from shorter strings; try {INSTEAD}"
        )
    return (
        f"{vectors:,} count vectors by regions: about {duration(seconds)}, judging from shorter "
        "strings. Memory stays below 2 GB."
    )


def forecast(model: CountModel, max_length: int) -> float:
    """About how many seconds `count_regions` will take, from what shorter strings take.

    Work grows by some factor with each doubling, at most 2^(letters - 1) as a surface does. Each
    try costs a small part of what it predicts; the last ones are left out if that is too much.
    """
    most = 2.0 ** (model.config.n_letters - 1)
    seconds, before = 0.0, None
    for doublings in range(7, 2, -1):
        work = Work(model.config, max(max_length >> doublings, 1))
        try:
            count_regions(model, work.max_length, work=work)
        except UnsupportedError:
            return inf
        if before is not None:
            growth = min(max(work.seconds / before, 1.0), most)
            seconds = work.seconds * growth**doublings
            if seconds > HOPELESS * PATIENCE:
                break
        before = work.seconds
    return seconds


def count_regions(
    model: CountModel,
    max_length: int,
    progress: Progress | None = None,
    work: Work | None = None,
) -> Tally:
    """Everything that is not right up to a length, box by box."""
    config = model.config
    tally = Tally(max_length, config.n_letters, model.multiclass)
    model.exact_work = EXACT_BUDGET
    work = work or Work(config, max_length)
    for letters in all_supports(config, max_length):
        count_support(TaskWays(model), letters, tally.sides, work, progress)
    tally.out_of_budget = model.exact_work <= 0
    return tally


def count_support(
    ways: Ways,
    letters: tuple[int, ...],
    sides: Sequence[Side],
    work: Work,
    progress: Progress | None = None,
) -> None:
    """Add to these sides what is wrong, in each way there is, or undecided."""
    _SupportCount(ways, letters, sides, work).run(progress)


class _SupportCount:
    """One support: a stack of boxes to decide, and what has been decided, as boxes."""

    def __init__(
        self, ways: Ways, letters: tuple[int, ...], sides: Sequence[Side], work: Work
    ) -> None:
        self.ways, self.letters, self.sides, self.work = ways, letters, sides, work
        self.limit, self.cost = sides[0].max_length, ways.cost(letters)
        size = len(letters)
        # Wrong as a whole (in each way there is), right, or opened and looked into.
        self.boxes = [_Boxes(size) for _ in (*sides[:-1], "right", "opened")]
        self.waiting: list[tuple[Integers, Integers]] = []
        # Of those looked into: wrong (in each way there is), right, or undecided.
        self.lines = [_Boxes(size) for _ in (*sides[:-1], "right", "undecided")]

    def run(self, progress: Progress | None) -> None:
        size = len(self.letters)
        low = np.ones((1, size), dtype=np.int64)
        high = np.full((1, size), self.limit - size + 1, dtype=np.int64)
        stack = [(low, high)]
        while stack:
            low, high = stack.pop()
            if len(low) > _BATCH:
                # Depth first: the rest waits, so that memory stays bounded.
                stack.append((low[_BATCH:], high[_BATCH:]))
                low, high = low[:_BATCH], high[:_BATCH]
            cut = self._step(low, high)
            if progress is not None:
                progress(sum(lattice_points(low[~cut], high[~cut], self.limit).tolist()))
            if cut.any():
                stack.append(self._halves(low[cut], high[cut]))
        self._decide_waiting()
        for index, side in enumerate(self.sides):
            self._add_up(index, side)

    def _step(self, low: Integers, high: Integers) -> NDArray[np.bool_]:
        """Decide what can be decided, and say which boxes are to be cut."""
        ways = self._throughout(low, high)
        small = (ways == OPEN) & ((high - low + 1).prod(axis=1, dtype=np.float64) <= _LEAF)
        self._keep(self.boxes, low, high, ways)
        self.boxes[-1].add(low[small], high[small])
        self._spend(len(low), 0)
        self.waiting.append((low[small], high[small]))
        if sum(len(some) for some, _ in self.waiting) >= _BATCH:
            self._decide_waiting()
        return np.asarray((ways == OPEN) & ~small)

    def _throughout(self, low: Integers, high: Integers) -> Integers:
        """The way of all vectors of a box, where it is likely and shown."""
        ways = self.ways.likely(self.letters, low, high)
        some = ways != OPEN
        shown = self.ways.shown(self.letters, low[some], high[some], ways[some])
        ways[np.flatnonzero(some)[~shown]] = OPEN
        return ways

    def _keep(self, kept: Sequence[_Boxes], low: Integers, high: Integers, ways: Integers) -> None:
        """Keep decided boxes by their way; those that are wrong may hold the first of all."""
        for way, boxes in zip(range(self.ways.wrong + 1), kept, strict=False):
            boxes.add(low[ways == way], high[ways == way])
        for way, side in enumerate(self.sides[:-1]):
            self._offer(side, low[ways == way])

    def _decide_waiting(self) -> None:
        """Decide the single vectors of small boxes, those of a box together."""
        low, high = (np.concatenate(ends) for ends in zip(*self.waiting, strict=True))
        self.waiting.clear()
        points, box = _points(low, high, self.limit)
        if not len(points):
            return
        ways = self.ways.guessed(self.letters, points)
        shown = self.ways.shown(self.letters, points, points, ways, box)
        for way in np.unique(ways[shown]).tolist():
            low, high = _lines(points[shown & (ways == way)])
            self._keep(self.lines, low, high, np.full(len(low), way))
        rest = points[~shown]
        if len(rest):
            ways = self.ways.decided(self.letters, rest)
            self._keep(self.lines, rest, rest, ways)
            self.lines[-1].add(rest[ways == OPEN], rest[ways == OPEN])
            self._offer(self.sides[-1], rest[ways == OPEN])
        # Vectors of several layers share nothing, so each costs what a box costs.
        alone = len(points) if self.ways.config.n_layers > 1 else 0
        self._spend(alone + len(rest), len(points))

    def _spend(self, asked: int, points: int) -> None:
        held_bytes = sum(boxes.bytes for boxes in (*self.boxes, *self.lines))
        self.work.spend_boxes(asked, points, self.cost, held_bytes)

    def _offer(self, side: Side, low: Integers) -> None:
        """A wrong box's first string is its low corner, so the first of all is among those."""
        if not len(low):
            return
        lengths = low.sum(axis=1)
        shortest = low[lengths == lengths.min()].tolist()
        first = np.array(min(map(tuple, shortest), key=order), dtype=np.int64)
        side.offer(full_counts(self.ways.config, self.letters, first).tolist())

    def _add_up(self, index: int, side: Side) -> None:
        """What is wrong in this way: single points, and either its boxes or all but the others."""
        whole = index < len(self.sides) - 1
        lines, parts = self.lines[index if whole else -1].joined(), []
        if whole:
            wrong = self.boxes[index].joined()
            others = [boxes.joined() for i, boxes in enumerate(self.boxes) if i != index]
            size = len(self.letters)
            fewer = sum(rows_of(*other) for other in others) < rows_of(*wrong) / 2
            if fewer and self.work.whole_support_fits(size):
                side.add_whole_support(size)
                parts = [(-1, other) for other in others]
            else:
                lines = np.concatenate([lines, wrong], axis=1)
        parts.append((1, lines))
        self.work.foresee_rows(sum(rows_of(*boxes) for _, boxes in parts))
        for sign, (low, high) in parts:
            add_boxes(side, low, high, self.work, sign)

    def _halves(self, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Cut each box, and trim."""
        low, high = halve_counts(low, high)
        slack = self.limit - low.sum(axis=1)
        fits = slack >= 0
        low, high, slack = low[fits], high[fits], slack[fits]
        # Counts above low + slack would make the string too long: they hold no vector.
        return low, np.minimum(high, low + slack[:, None])


class _Boxes:
    """Boxes kept for later, in 32-bit numbers: no count is beyond `costs.LONGEST`."""

    def __init__(self, size: int) -> None:
        self._kept: list[NDArray[np.int32]] = [np.zeros((2, 0, size), dtype=np.int32)]
        self.bytes = 0

    def add(self, low: Integers, high: Integers) -> None:
        if len(low):
            self._kept.append(np.stack([low, high]).astype(np.int32))
            self.bytes += self._kept[-1].nbytes

    def joined(self) -> NDArray[np.int32]:
        """Low and high corners: `[2, box, letter]`."""
        self._kept = [np.concatenate(self._kept, axis=1)]
        return self._kept[0]


def _points(low: Integers, high: Integers, limit: int) -> tuple[Integers, Integers]:
    """Every vector in these small boxes, up to the length limit, and which box it is in."""
    sizes = high - low + 1
    volumes = sizes.prod(axis=1)
    box = np.repeat(np.arange(len(low)), volumes)
    index = np.arange(len(box)) - np.repeat(volumes.cumsum() - volumes, volumes)
    points = np.empty((len(box), low.shape[1]), dtype=np.int64)
    for column in range(low.shape[1]):
        index, offset = np.divmod(index, sizes[box, column])
        points[:, column] = low[box, column] + offset
    within: NDArray[np.bool_] = points.sum(axis=1) <= limit
    return points[within], box[within]


def _lines(points: Integers) -> tuple[Integers, Integers]:
    """Neighbours along the first letter, which `_points` puts next to each other, as one box."""
    step = np.diff(points, axis=0)
    joined = (step[:, 0] == 1) & ~step[:, 1:].any(axis=1)
    first = np.flatnonzero(np.r_[True, ~joined][: len(points)])
    last = np.r_[first[1:], len(points)][: len(first)] - 1
    return points[first], points[last]


def lattice_points(low: Integers, high: Integers, limit: int) -> Integers:
    """How many vectors each box holds up to the length limit, by inclusion and exclusion."""
    size = low.shape[1]
    sizes = high - low + 1
    slack = limit - low.sum(axis=1)
    # Python's integers where 64 bits might not do.
    kind = np.int64 if (limit + size) ** size < 2**62 >> size else object
    total: Integers = np.zeros(len(low), dtype=kind)
    for subset in range(1 << size):
        members = [axis for axis in range(size) if subset >> axis & 1]
        left = np.maximum(slack - sizes[:, members].sum(axis=1), -1).astype(kind)
        simplex = prod([left + 1 + i for i in range(size)], start=np.ones_like(left))
        total = total + (-1) ** len(members) * simplex
    return np.asarray(total // factorial(size))
