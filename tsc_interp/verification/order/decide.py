"""One round of the search: what a batch of regions is, and where those in doubt are cut.

First by the directions alone, then class by class with the linear form maximised exactly. A region
in doubt is taken apart at one stage: the paths through an edge that are right whatever the other
stages do, and those that are wrong, are decided at once; what is left is halved where the margin in
doubt depends on the edge most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.bounds.intervals import Array
from tsc_interp.verification.order.bounds import Bounds
from tsc_interp.verification.order.directions import Bounded
from tsc_interp.verification.order.scores import Scores, chunks
from tsc_interp.verification.order.terms import LinearBounds

RIGHT, UNDECIDED, OPEN, EACH = -1, -2, -3, -4
_ENOUGH = 0.5
"""Where a smaller share of a region's paths is decided by a cut, the rest is halved as well."""


@dataclass
class Verdicts:
    """`outcome [region]`: `RIGHT`, `OPEN`, or the class that beats the label everywhere.

    doubt [region class]: which classes may still beat it somewhere
    cuts: of open regions, see `Cuts`
    """

    outcome: Index
    levels: list[Array]
    doubt: Mask
    cuts: Cuts | None = None
    cuts_of: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The regions that have cuts."""


@dataclass
class Cuts:
    """How open regions are cut, in their order.

    stage [region], right and wrong [region edge of that stage, padded], instead [region]: the class
    that beats the label on the wrong ones. then, bad: a stage and edges of the rest, or -1.
    """

    stage: Index
    right: Mask
    wrong: Mask
    instead: Index
    then: Index
    bad: Mask

    def replace(self, row: int, stage: int, part: Mask) -> None:
        """Cut one region in two at these edges of a stage, and no other way."""
        self.right[row] = self.wrong[row] = self.bad[row] = False
        self.then[row], self.bad[row, : len(part)] = stage, part

    def chosen(self, rows: Index) -> Cuts:
        """The cuts of some of the regions."""
        return Cuts(*(getattr(self, field.name)[rows] for field in fields(self)))


def decide(
    bounds: Bounds | LinearBounds,
    regions: Regions,
    reader: Index,
    label: Index,
    start: list[Array] | None,
    doubt: Mask,
) -> Verdicts:
    """What each region is, and how those in doubt are cut.

    Args:
        bounds: What bounds margins.
        regions: A batch, with its `reader` and `label [region]`.
        reader: Which token reads.
        label: The right answer.
        start: `[region direction]` per head, where to begin; None where nothing is known.
        doubt: `[region class]`; of the others it is known that they do not win.
    """
    with np.errstate(all="ignore"):
        known = bounds.bounded(regions, reader, label, start, doubt)
        return _Round(bounds, known).verdicts()


class _Round:
    def __init__(self, bounds: Bounds | LinearBounds, known: Bounded) -> None:
        self.bounds, self.known = bounds, known
        self.regions = known.regions
        self.widest = max(mask.shape[1] for mask in self.regions.masks)
        # Without attention no edge is told from another.
        self.attends = bool(known.weights) or not bounds.refines
        self.seems = known.low.copy()
        """About the lowest margin: what tells which class is the worst of a region."""

    def verdicts(self) -> Verdicts:
        low, high = self.known.low, self.known.high
        right = (low > 0).all(1)
        lost = np.where(np.isnan(high), np.inf, high)
        outcome = np.where(right, RIGHT, np.where(lost.min(1) < 0, lost.argmin(1), OPEN))
        doubtful = ~(low > 0) & (outcome == OPEN)[:, None]
        if self.bounds.refines and self.attends:
            rows, which = np.nonzero(doubtful)
            for some in self._chunks(rows):
                at = rows[some], which[some]
                total = self._scores(*at, -1).highest()
                doubtful[at], self.seems[at] = ~(total < 0), -total
            outcome[(outcome == OPEN) & ~doubtful.any(1)] = RIGHT
        open_ = np.flatnonzero(outcome == OPEN)
        found = Verdicts(outcome, self.known.found, doubtful)
        if len(open_):
            found.cuts = self._cut(open_, *np.nonzero(doubtful))
            found.cuts_of = open_
        return found

    def _scores(self, rows: Index, which: Index, sign: int) -> Scores:
        return self.bounds.scores(self.known, rows, which, sign)

    def _chunks(self, pairs: Index) -> Sequence[slice]:
        return chunks(len(pairs) if self.attends else 0, self.bounds.at_once)

    def _cut(self, open_: Index, rows: Index, which: Index) -> Cuts:
        """Marginals of every pair in doubt, then the best stage of each region."""
        stages = self.regions.trellis.stages
        place = np.full(len(self.regions), -1)
        place[open_] = np.arange(len(open_))
        masks = [mask[open_] for mask in self.regions.masks]
        right = [mask & self.attends for mask in masks]
        bad = [np.full(mask.shape, -np.inf) for mask in masks]
        worst = self._worst(open_, rows, which)
        for some in self._chunks(rows):
            found = self._scores(rows[some], which[some], -1).marginals()
            starts = np.flatnonzero(np.diff(rows[some], prepend=-1))
            regions, mine = place[rows[some][starts]], worst[some]
            at = place[rows[some][mine]]
            for i in range(len(stages)):
                right[i][regions] &= np.logical_and.reduceat(found[i] < 0, starts)
                bad[i][at] = found[i][mine]
        wrong, instead = self._wrong(open_, masks)
        return self._choose(open_, masks, right, wrong, instead, bad)

    def _worst(self, open_: Index, rows: Index, which: Index) -> Mask:
        """One pair of each region: the one whose margin seems lowest."""
        order = np.lexsort((self.seems[rows, which], rows))
        first = np.ones(len(rows), dtype=bool)
        first[1:] = rows[order][1:] != rows[order][:-1]
        chosen = np.zeros(len(rows), dtype=bool)
        chosen[order[first]] = True
        return chosen

    def _wrong(self, open_: Index, masks: list[Mask]) -> tuple[list[Mask], Index]:
        """Edges all of whose paths lose to the class that wins where the region seems worst."""
        wrong = [np.zeros(mask.shape, dtype=bool) for mask in masks]
        seems = self.seems[open_]
        instead = np.where(np.isnan(seems), np.inf, seems).argmin(1)
        hopeful = np.flatnonzero(seems[np.arange(len(open_)), instead] < 0)
        for some in self._chunks(hopeful):
            at = hopeful[some]
            for i, found in enumerate(self._scores(open_[at], instead[at], +1).marginals()):
                wrong[i][at] = (found < 0) & masks[i][at]
        return wrong, instead

    def _choose(
        self,
        open_: Index,
        masks: list[Mask],
        right: list[Mask],
        wrong: list[Mask],
        instead: Index,
        bad: list[Array],
    ) -> Cuts:
        count, rows = len(open_), np.arange(len(open_))
        share = np.zeros((count, len(masks)))
        spread = np.zeros((count, len(masks)))
        counts = self.regions.with_masks(masks).through()
        for i, mask in enumerate(masks):
            through = counts[i]
            wrong[i] &= ~right[i]
            decided = right[i] | wrong[i]
            share[:, i] = (through * decided).sum(1) / through.sum(1)
            rest = mask & ~decided
            top = np.where(rest, bad[i], -np.inf).max(1)
            low = np.where(rest, bad[i], np.inf).min(1)
            spread[:, i] = np.where(rest.sum(1) > 1, np.nan_to_num(top - low, nan=0.0), -1.0)
        stage = share.argmax(1)
        none = np.zeros((3, count, self.widest), dtype=bool)
        found = Cuts(stage, none[0], none[1], instead, np.full(count, -1), none[2])
        halve = share[rows, stage] < _ENOUGH
        then = spread.argmax(1)
        for i, mask in enumerate(masks):
            at = stage == i
            found.right[at, : mask.shape[1]] = right[i][at]
            found.wrong[at, : mask.shape[1]] = wrong[i][at]
            # A stage whose edges are decided in part has a rest, which is what is halved there.
            at = halve & (then == i) & (spread[rows, then] >= 0)
            peeled = (right[i] | wrong[i]) & (stage == i)[:, None]
            rest = mask & ~peeled
            found.bad[at, : mask.shape[1]] = _half(rest[at], bad[i][at])
            found.then[at] = i
        return found


def _half(rest: Mask, bad: Array) -> Mask:
    """The worse edges: above the middle between the worst and the best; never all or none."""
    top = np.where(rest, bad, -np.inf).max(1, keepdims=True)
    low = np.where(rest, bad, np.inf).min(1, keepdims=True)
    part = np.asarray(rest & (bad > (top + low) / 2))
    useless = ~part.any(1) | (part == rest).all(1)
    first = rest.argmax(1)
    part[useless] = False
    part[np.flatnonzero(useless), first[useless]] = True
    return part
