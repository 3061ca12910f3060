"""One round of the search: what a batch of regions is, and where those in doubt are cut.

First by the directions alone, then class by class with the linear form maximised exactly. A region
in doubt is taken apart at one stage: the paths through an edge that are right whatever the other
stages do, and those that are wrong, are decided at once; what is left is halved where the margin in
doubt depends on the edge most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.bounds.intervals import Array
from tsc_interp.verification.order.bounds import Bounds
from tsc_interp.verification.order.directions import Bounded
from tsc_interp.verification.order.found import OPEN, RIGHT
from tsc_interp.verification.order.scores import Scores, chunks
from tsc_interp.verification.order.terms import LinearBounds

_ENOUGH = 0.5
"""Where a smaller share of a region's paths is decided by a cut, the rest is halved as well."""


@dataclass
class Cuts:
    """How regions are cut, in their order.

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


class Decision:
    """What the regions of a batch are, by what is known of them.

    outcome [region]: `RIGHT`, `OPEN`, or the class that beats the label everywhere
    doubt [region class]: which classes may still beat it somewhere
    """

    def __init__(self, bounds: Bounds | LinearBounds, known: Bounded) -> None:
        self.bounds, self.known = bounds, known
        self.regions = known.regions
        self.widest = max(mask.shape[1] for mask in self.regions.masks)
        # Without attention no edge is told from another.
        self.attends = bool(known.weights) or not bounds.refines
        self.seems = known.low.copy()
        """About the lowest margin: what tells which class is the worst of a region."""
        right = (known.low > 0).all(1)
        lost = np.where(np.isnan(known.high), np.inf, known.high)
        self.outcome = np.where(right, RIGHT, np.where(lost.min(1) < 0, lost.argmin(1), OPEN))
        self.doubt = ~(known.low > 0) & (self.outcome == OPEN)[:, None]
        if self.bounds.refines and self.attends:
            self._refine()

    def _refine(self) -> None:
        """Class by class, with the linear form maximised exactly."""
        rows, classes = np.nonzero(self.doubt)
        for chunk in self._chunks(rows):
            at = rows[chunk], classes[chunk]
            total = self._scores(*at, -1).highest()
            self.doubt[at], self.seems[at] = ~(total < 0), -total
        self.outcome[(self.outcome == OPEN) & ~self.doubt.any(1)] = RIGHT

    def _scores(self, rows: Index, classes: Index, sign: int) -> Scores:
        return self.bounds.scores(self.known, rows, classes, sign)

    def _chunks(self, pairs: Index) -> Sequence[slice]:
        return chunks(len(pairs) if self.attends else 0, self.bounds.at_once)

    def cuts(self, open_: Index) -> Cuts:
        """How these regions are cut, which are in doubt."""
        seems = np.nan_to_num(self.seems[open_], nan=np.finfo(float).max)
        seems = np.where(self.doubt[open_], seems, np.inf)
        worst = seems.argmin(1)
        right, bad = self._right(open_, worst)
        hopeful = np.flatnonzero(seems.min(1) < 0)
        wrong = self._wrong(open_, worst, hopeful)
        return self._choose(self.regions[open_], right, wrong, worst, bad)

    def _right(self, open_: Index, worst: Index) -> tuple[list[Mask], list[Array]]:
        """Edges all of whose paths are right, and how each edge does against the worst class."""
        masks = self.regions[open_].masks
        right = [mask & self.attends for mask in masks]
        bad = [np.full(mask.shape, -np.inf) for mask in masks]
        rows, classes = np.nonzero(self.doubt[open_])
        for chunk in self._chunks(rows):
            row, rival = rows[chunk], classes[chunk]
            starts = np.flatnonzero(np.diff(row, prepend=-1))
            at_worst = rival == worst[row]
            for i, best in enumerate(self._scores(open_[row], rival, -1).marginals()):
                right[i][row[starts]] &= np.logical_and.reduceat(best < 0, starts)
                bad[i][row[at_worst]] = best[at_worst]
        return right, bad

    def _wrong(self, open_: Index, worst: Index, hopeful: Index) -> list[Mask]:
        """Edges all of whose paths lose to the worst class, of the hopeful regions."""
        masks = self.regions[open_].masks
        wrong = [np.zeros(mask.shape, dtype=bool) for mask in masks]
        for chunk in self._chunks(hopeful):
            at = hopeful[chunk]
            for i, best in enumerate(self._scores(open_[at], worst[at], +1).marginals()):
                wrong[i][at] = (best < 0) & masks[i][at]
        return wrong

    def _choose(
        self,
        regions: Regions,
        right: list[Mask],
        wrong: list[Mask],
        instead: Index,
        bad: list[Array],
    ) -> Cuts:
        """Cut where most is decided; halve where the margin depends on the edge most."""
        masks, rows = regions.masks, np.arange(len(regions))
        share, spread = np.zeros((2, len(regions), len(masks)))
        for i, through in enumerate(regions.through()):
            wrong[i] &= ~right[i]
            decided = right[i] | wrong[i]
            share[:, i] = (through * decided).sum(1) / through.sum(1)
            rest = masks[i] & ~decided
            top, low = _ends(rest, bad[i])
            spread[:, i] = np.where(rest.sum(1) > 1, np.nan_to_num(top - low, nan=0.0), -1.0)
        stage, then = share.argmax(1), spread.argmax(1)
        halve = (share[rows, stage] < _ENOUGH) & (spread[rows, then] >= 0)
        parts = np.zeros((3, len(regions), self.widest), dtype=bool)
        for i, mask in enumerate(masks):
            width, at = mask.shape[1], stage == i
            parts[0, at, :width] = right[i][at]
            parts[1, at, :width] = wrong[i][at]
            # A stage whose edges are decided in part has a rest, which is what is halved there.
            rest = mask & ~((right[i] | wrong[i]) & at[:, None])
            at = halve & (then == i)
            parts[2, at, :width] = _half(rest[at], bad[i][at])
        return Cuts(stage, parts[0], parts[1], instead, np.where(halve, then, -1), parts[2])


def _ends(rest: Mask, bad: Array) -> tuple[Array, Array]:
    """The worst and the best of the rest of each row."""
    return np.where(rest, bad, -np.inf).max(1), np.where(rest, bad, np.inf).min(1)


def _half(rest: Mask, bad: Array) -> Mask:
    """The worse edges: above the middle between the worst and the best; never all or none."""
    top, low = _ends(rest, bad)
    part = np.asarray(rest & (bad > (top + low)[:, None] / 2))
    useless = ~part.any(1) | (part == rest).all(1)
    first = rest.argmax(1)
    part[useless] = False
    part[np.flatnonzero(useless), first[useless]] = True
    return part
