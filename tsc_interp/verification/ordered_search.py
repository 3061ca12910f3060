"""Branch and bound over strings in their order, one length at a time.

Boxes of one class each (the task cuts them) are bounded many at a time; what is decided is kept,
what is not is cut and looked at again. A single string that float64 cannot tell is decided in ball
arithmetic, or is undecided. So is what is left when the budget is spent: never called right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.verification.ordered_boxes import (
    RIGHT,
    UNDECIDED,
    Boxes,
    Decided,
    from_partition,
    join,
)
from tsc_interp.verification.ordered_exact import OrderedExact
from tsc_interp.verification.ordered_general import General
from tsc_interp.verification.ordered_separable import Separable, is_separable
from tsc_interp.verification.ordered_tables import OrderedTables, ordered_tables
from tsc_interp.verification.ordered_tasks import OrderedTask, partition

_PIECES_AT_ONCE = 2000
_BOXES_AT_ONCE = 8192
_PIECE = 20.0
"""Microseconds to cut one box by its label."""


@dataclass
class Work:
    """What may still be spent, in estimated microseconds: the same on every machine."""

    left: float

    def spend(self, microseconds: float) -> bool:
        """Whether there was enough for it."""
        self.left -= microseconds
        return self.left > 0


@dataclass
class LengthSearch:
    """What became of every string of one length."""

    length: int
    tables: OrderedTables
    decided: list[Decided] = field(default_factory=list)
    examined: int = 0

    def found(self, instead: int | None = None) -> Iterator[tuple[list[list[int]], int, int]]:
        """Each box as letters for every place, its class, and who wins in it."""
        for part in self.decided:
            for i in range(len(part.boxes)):
                sets = part.boxes.full_sets(i, self.tables)
                yield sets, int(part.boxes.label[i]), int(part.instead[i])

    def strings(self) -> dict[str, int]:
        """How many are right, wrong and undecided."""
        totals = {"right": 0, "wrong": 0, "undecided": 0}
        for part in self.decided:
            sizes = part.boxes.sizes()
            for size, instead in zip(sizes, part.instead.tolist(), strict=True):
                kind = {RIGHT: "right", UNDECIDED: "undecided"}.get(instead, "wrong")
                totals[kind] += size
        return totals

    def first(self, undecided: bool = False) -> tuple[int, ...] | None:
        """The first wrong (or undecided) string, letter by letter in the alphabet's order."""
        best: tuple[int, ...] | None = None
        for part in self.decided:
            chosen = part.instead == UNDECIDED if undecided else part.instead >= 0
            boxes = part.boxes[chosen]
            least = boxes.sets.argmax(2)
            if self.tables.reads_last:
                least = np.concatenate([least, boxes.reading[:, None]], axis=1)
            if len(least):
                row = least[np.lexsort(least.T[::-1])[0]]
                found = tuple(int(letter) for letter in row)
                best = found if best is None else min(best, found)
        return best


def search_length(
    checkpoint: Checkpoint, task: OrderedTask, length: int, work: Work
) -> LengthSearch:
    """Every string of one length, as far as the budget goes."""
    exact = OrderedExact(checkpoint)
    tables = ordered_tables(exact, length)
    result = LengthSearch(length, tables)
    bounds: Separable | General = (
        Separable(tables) if is_separable(tables) else General(tables, checkpoint.config)
    )
    # When the budget is spent, boxes without a class are given up as they are.
    n_letters = checkpoint.config.n_letters
    pieces = partition(task, length, n_letters, enough=lambda: work.left <= 0)
    while True:
        some = list(islice(pieces, _PIECES_AT_ONCE))
        if not some:
            return result
        boxes = from_partition(some, tables)
        if not work.spend(len(some) * _PIECE):
            _give_up(result, boxes)
            continue
        _decide(result, exact, bounds, boxes, work)


def _decide(
    result: LengthSearch,
    exact: OrderedExact,
    bounds: Separable | General,
    boxes: Boxes,
    work: Work,
) -> None:
    waiting = boxes
    while len(waiting):
        batch, waiting = waiting[-_BOXES_AT_ONCE:], waiting[:-_BOXES_AT_ONCE]
        if not work.spend(len(batch) * bounds.cost):
            _give_up(result, join([waiting, batch], boxes))
            return
        result.examined += len(batch)
        step = bounds.step(batch)
        result.decided += [part for part in step.decided if len(part.boxes)]
        waiting = join([waiting, step.waiting], boxes)
        _decide_singly(result, exact, step.doubtful, work)


def _decide_singly(result: LengthSearch, exact: OrderedExact, boxes: Boxes, work: Work) -> None:
    if not len(boxes):
        return
    instead = np.full(len(boxes), UNDECIDED)
    for i in range(len(boxes)):
        if work.spend(exact.cost_of(result.length) * 4):
            string = [letters[0] for letters in boxes.full_sets(i, result.tables)]
            found = exact.instead(string, int(boxes.label[i]))
            instead[i] = UNDECIDED if found is None else found
    result.decided.append(Decided(boxes, instead))


def _give_up(result: LengthSearch, boxes: Boxes) -> None:
    if len(boxes):
        result.decided.append(Decided(boxes, np.full(len(boxes), UNDECIDED)))
