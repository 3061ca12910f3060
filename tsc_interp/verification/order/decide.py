"""One round of the search: what a batch of regions is, and where those in doubt are cut.

First by the directions alone, then class by class with the linear form maximised exactly. A region
in doubt is taken apart at one stage: the paths through an edge that are right whatever the other
stages do, and those that are wrong, are decided at once; what is left is halved where the margin in
doubt depends on the edge most.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.bounds.intervals import Array
from tsc_interp.verification.order.bounds import Bounded, Bounds
from tsc_interp.verification.order.sweeps import Jobs, chunks

RIGHT, UNDECIDED, OPEN, EACH = -1, -2, -3, -4
_ENOUGH = 0.5
"""Where a smaller share of a region's paths is decided by a cut, the rest is halved as well."""


@dataclass
class Verdicts:
    """`outcome [region]`: `RIGHT`, `OPEN`, or the class that beats the label everywhere.

    For open regions `cuts`: right, wrong and bad edges of one stage, see `Cuts`.
    """

    outcome: Index
    levels: list[Array]
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
        return Cuts(*(getattr(self, one.name)[rows] for one in fields(self)))


def decide(
    bounds: Bounds,
    regions: Regions,
    reader: Index,
    label: Index,
    start: list[Array] | None,
    counts: list[Array],
) -> Verdicts:
    """`counts [region edge]` per stage: how many paths go through each edge, about."""
    with np.errstate(all="ignore"):
        known = bounds.bounded(regions, reader, label, start)
        return _Round(bounds, regions, reader, label, counts, known).verdicts()


class _Round:
    def __init__(
        self,
        bounds: Bounds,
        regions: Regions,
        reader: Index,
        label: Index,
        counts: list[Array],
        known: Bounded,
    ) -> None:
        self.bounds, self.regions, self.reader = bounds, regions, reader
        self.label, self.counts, self.known = label, counts, known
        self.widest = max(mask.shape[1] for mask in regions.masks)
        heads = range(len(bounds.probes))
        self.weights = [bounds.sweeps.weights_of(regions, reader, head) for head in heads]

    def verdicts(self) -> Verdicts:
        low, high = self.known.low, self.known.high
        right = (low > 0).all(1)
        lost = np.where(np.isnan(high), np.inf, high)
        outcome = np.where(right, RIGHT, np.where(lost.min(1) < 0, lost.argmin(1), OPEN))
        doubtful = ~(low > 0) & (outcome == OPEN)[:, None]
        rows, which = np.nonzero(doubtful)
        if len(rows):
            lasting = self._by_forms(rows, which, outcome)
        open_ = np.flatnonzero(outcome == OPEN)
        found = Verdicts(outcome, self.known.found)
        if len(open_):
            kept = np.isin(rows, open_) & lasting
            found.cuts = self._cut(open_, rows[kept], which[kept])
            found.cuts_of = open_
            # A region that turned out to be wrong as a whole needs no cut.
        return found

    def _jobs(self, rows: Index, which: Index, sign: int) -> tuple[Jobs, Array]:
        slope, reader = self.known.forms.slope[rows, which], self.reader[rows]
        limit = self.bounds.limits(self.known.forms, rows, which, reader, sign)
        return self.bounds.jobs_at(self.regions, rows, reader, slope, sign, self.weights, limit)

    def _by_forms(self, rows: Index, which: Index, outcome: Index) -> Mask:
        """Decide pairs by their linear forms; says which pairs are still in doubt."""
        doubt = np.ones(len(rows), dtype=bool)
        for some in chunks(len(rows) if self.weights else 0, self.bounds.sweeps.at_once()):
            jobs, level = self._jobs(rows[some], which[some], -1)
            doubt[some] = ~(jobs.sweep(level)[0] < 0)
        still = np.zeros(len(outcome), dtype=bool)
        still[rows[doubt]] = True
        outcome[(outcome == OPEN) & ~still] = RIGHT
        return doubt

    def _cut(self, open_: Index, rows: Index, which: Index) -> Cuts:
        """Marginals of every pair in doubt, then the best stage of each region."""
        stages = self.regions.trellis.stages
        place = np.full(len(self.regions), -1)
        place[open_] = np.arange(len(open_))
        masks = [mask[open_] for mask in self.regions.masks]
        # Without attention no edge is told from another by a form.
        right = [mask & bool(self.weights) for mask in masks]
        bad = [np.full(mask.shape, -np.inf) for mask in masks]
        worst = self._worst(open_, rows, which)
        for some in chunks(len(rows) if self.weights else 0, self.bounds.sweeps.at_once()):
            jobs, level = self._jobs(rows[some], which[some], -1)
            found = jobs.marginals(level)
            starts = np.flatnonzero(np.diff(rows[some], prepend=-1))
            regions, mine = place[rows[some][starts]], worst[some]
            at = place[rows[some][mine]]
            for i in range(len(stages)):
                right[i][regions] &= np.logical_and.reduceat(found[i] < 0, starts)
                bad[i][at] = found[i][mine]
        wrong, instead = self._wrong(open_, masks)
        return self._choose(open_, masks, right, wrong, instead, bad)

    def _worst(self, open_: Index, rows: Index, which: Index) -> Mask:
        """One pair of each region: the one whose margin is lowest by the directions."""
        order = np.lexsort((self.known.low[rows, which], rows))
        first = np.ones(len(rows), dtype=bool)
        first[1:] = rows[order][1:] != rows[order][:-1]
        chosen = np.zeros(len(rows), dtype=bool)
        chosen[order[first]] = True
        return chosen

    def _wrong(self, open_: Index, masks: list[Mask]) -> tuple[list[Mask], Index]:
        """Edges all of whose paths lose to the class that wins where the region seems worst."""
        wrong = [np.zeros(mask.shape, dtype=bool) for mask in masks]
        middle = (self.known.low + self.known.high)[open_]
        instead = np.where(np.isnan(middle), np.inf, middle).argmin(1)
        hopeful = np.flatnonzero(self.known.low[open_, instead] < 0)
        for some in chunks(len(hopeful) if self.weights else 0, self.bounds.sweeps.at_once()):
            at = hopeful[some]
            jobs, level = self._jobs(open_[at], instead[at], +1)
            for i, found in enumerate(jobs.marginals(level)):
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
        for i, mask in enumerate(masks):
            through = self.counts[i][open_]
            wrong[i] &= ~right[i]
            decided = right[i] | wrong[i]
            share[:, i] = (through * decided).sum(1) / through.sum(1)
            rest = mask & ~decided
            top = np.where(rest, bad[i], -np.inf).max(1)
            low = np.where(rest, bad[i], np.inf).min(1)
            spread[:, i] = np.where(rest.sum(1) > 1, np.nan_to_num(top - low, nan=0.0), -1.0)
        stage = share.argmax(1)
        found = Cuts(
            stage,
            np.zeros((count, self.widest), dtype=bool),
            np.zeros((count, self.widest), dtype=bool),
            instead,
            np.full(count, -1),
            np.zeros((count, self.widest), dtype=bool),
        )
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
