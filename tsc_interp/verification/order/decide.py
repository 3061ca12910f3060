"""What the trusted base shows of regions, and a guess where those in doubt are best cut.

A region is closed where the trusted base shows what its answer is: that the label wins, or that
another class beats it. So the tree of cuts with what its leaves say is a proof. Where to cut is
only a guess: the margin in doubt is nearly linear, so the largest total of a path through an edge
tells about what the edge can do. Edges that look decided are cut off, and the rest is halved where
the margin depends on the edge most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index
from tsc_interp.trusted.judge import Judge
from tsc_interp.trusted.margins import Relaxed
from tsc_interp.trusted.order import PathRegions
from tsc_interp.trusted.sets import Layout, Sets
from tsc_interp.verification.order.found import OPEN, RIGHT

Floats = NDArray[np.float64]
_ENOUGH = 0.5
"""Where a smaller share of a region's paths looks decided, the rest is halved as well."""
_RIVALS = 3
"""So many classes are asked about to tell which edges look right."""


@dataclass
class Cuts:
    """How regions are cut, in their order.

    stage [region], right and wrong [region edge of that stage, padded]: parts that look decided.
    then, bad: a stage and edges of the rest, or -1.
    """

    stage: Index
    right: Mask
    wrong: Mask
    then: Index
    bad: Mask


@dataclass
class Shown:
    """What is shown of some regions.

    outcome [region]: `RIGHT`, `OPEN`, or the class that beats the label everywhere
    sure [region]: whether the same is shown of the float32 model
    open [region]: which are to be cut, and cuts: how
    """

    outcome: Index
    sure: Mask
    open: Index
    cuts: Cuts


class Decider:
    """Asks about the regions of one trellis."""

    def __init__(self, judge: Judge, layouts: Sequence[Layout], float32: bool) -> None:
        self.judge, self.layouts, self.float32 = judge, layouts, float32

    def shown(self, regions: Regions, label: Index) -> Shown:
        """What is shown of regions of one label and reader each."""
        count, trellis = len(regions), regions.trellis
        outcome, sure = np.full(count, OPEN), np.zeros(count, dtype=bool)
        right, wrong = ([np.zeros(mask.shape, dtype=bool) for mask in regions.masks]
                        for _ in range(2))  # fmt: skip
        bad = [np.full(mask.shape, -np.inf) for mask in regions.masks]
        sets = Sets(trellis, regions.masks, self.layouts)
        with np.errstate(all="ignore"):  # what is no number shows nothing
            for at, some, rounded in self.judge.path_regions(sets, self.float32):
                relaxed = self.judge.margins.relaxed(some)
                gaps, outcome[at] = self._outcome(relaxed, label[at])
                if rounded is not None:
                    relaxed = self.judge.margins.relaxed(some, rounded)
                    gaps, again = self._outcome(relaxed, label[at])
                    sure[at] = (again != OPEN) & (again == outcome[at])
                open_ = np.flatnonzero(~sure[at] if self.float32 else outcome[at] == OPEN)
                if not len(open_):
                    continue
                edges = self._edges(relaxed, gaps, label[at])
                for i, (good, lost, worst) in enumerate(zip(*edges, strict=True)):
                    right[i][at], wrong[i][at], bad[i][at] = good, lost, worst
        open_ = np.flatnonzero(~sure if self.float32 else outcome == OPEN)
        right, wrong = ([stage[open_] for stage in found] for found in (right, wrong))
        cuts = _choose(regions[open_], right, wrong, [stage[open_] for stage in bad])
        return Shown(outcome, sure, open_, cuts)

    def _outcome(self, relaxed: Relaxed, label: Index) -> tuple[Floats, Index]:
        """Margins of the label over every class `[region class]`, infinite over itself."""
        margins, every = self.judge.margins, np.arange(self.judge.n_classes)[None]
        own = every == label[:, None]
        gaps = np.where(own, np.inf, relaxed.gaps(label, every))
        right = (own | margins.won(gaps, label, every)).all(1)
        worst, rival = _worst(gaps), label[:, None]
        lost = margins.won(relaxed.gaps(worst, rival), worst, rival)[:, 0]
        return gaps, np.where(right, RIGHT, np.where(lost, worst, OPEN))

    def _edges(
        self, relaxed: Relaxed, gaps: Floats, label: Index
    ) -> tuple[list[Mask], list[Mask], list[Floats]]:
        """Per stage the edges that look right, and wrong; how bad each is: `[region edge]`."""
        rivals = np.argsort(np.nan_to_num(gaps, nan=-np.inf), axis=1)[:, : min(
            _RIVALS, self.judge.n_classes - 1)]  # fmt: skip
        won = np.take_along_axis(gaps, rivals, 1) > 0
        some = relaxed.attended
        assert isinstance(some, PathRegions)
        totals = marginals(some, *relaxed.lines(label, rivals)[:2])
        against = marginals(some, *relaxed.lines(rivals[:, 0], label[:, None])[:2])
        right = [np.asarray(((best < 0) | won[..., None]).all(1)) for best in totals]
        return right, [best[:, 0] < 0 for best in against], [best[:, 0] for best in totals]


def _worst(gaps: Floats) -> Index:
    """The class that leads most over the label."""
    return np.asarray(np.nan_to_num(gaps, nan=-np.inf).argmin(1))


def marginals(regions: PathRegions, q: Floats, level: Floats) -> list[Floats]:
    """Per stage about the largest total of a path through each edge, `[region row edge]`.

    Below zero where no such path's mean along `q [region row d]` is above the `level`. Means of
    several heads are added as if their weights were the same on all paths.
    """
    heads = len(regions.keys[0].slack)
    base = np.zeros(q.shape[:2]) if heads else -level
    scores = [np.zeros(()) for _ in regions.sets.layouts]
    sums = [regions.sums(head, q) for head in range(heads)]
    middles = [one.middle() for one in sums]
    for one, middle in zip(sums, middles, strict=True):
        own = middle + (level - sum(middles)) / heads
        light, heavy = one.masses
        over = 2 / (light + heavy)
        base = base + (one.total - own * one.mass) * over
        scores = [
            score + (stage.scores - own[..., None, None] * stage.weights[:, None])
            * over[..., None, None]
            for score, stage in zip(scores, one.stages, strict=True)
        ]  # fmt: skip
    layouts, masks = regions.sets.layouts, regions.sets.rectangles
    scores = [np.where(mask[:, None], score, -np.inf)
              for score, mask in zip(scores, masks, strict=True)]  # fmt: skip
    groups, before = [score.max(-1) for score in scores], [np.zeros((*q.shape[:2], 1))]
    for group, layout in zip(groups, layouts, strict=True):
        before.append(_best(group + before[-1][..., layout.source], layout.incoming))
    after = np.zeros_like(before[-1])
    found: list[Floats] = []
    for i in reversed(range(len(groups))):
        layout, edges = layouts[i], regions.sets.masks[i].shape[1]
        around = before[i][..., layout.source] + after[..., layout.target] + base[..., None]
        best, filled = np.empty((*q.shape[:2], edges)), layout.edge < edges
        best[..., layout.edge[filled]] = (scores[i] + around[..., None])[..., filled]
        found.insert(0, best)
        after = _best(groups[i] + after[..., layout.target], layout.outgoing)
    return found


def _best(groups: Floats, rows: Index) -> Floats:
    """The largest of each state's groups."""
    if rows.shape[1] == 1:
        return groups[..., rows[:, 0]]
    padded = np.concatenate([groups, np.full((*groups.shape[:-1], 1), -np.inf)], axis=-1)
    return np.asarray(padded[..., rows].max(-1))


def _choose(regions: Regions, right: list[Mask], wrong: list[Mask], bad: list[Floats]) -> Cuts:
    """Cut where most looks decided; halve where the margin depends on the edge most."""
    masks, rows = regions.masks, np.arange(len(regions))
    share, spread = np.zeros((2, len(regions), len(masks)))
    # A part with all edges of a stage is none: what looks decided there is not.
    for i, mask in enumerate(masks):
        right[i] &= mask
        wrong[i] &= mask & ~right[i]
        for part in (right[i], wrong[i]):
            part &= ~(part == mask).all(1)[:, None]
    for i, through in enumerate(regions.through()):
        decided = right[i] | wrong[i]
        share[:, i] = (through * decided).sum(1) / through.sum(1)
        rest = masks[i] & ~decided
        top, low = _ends(rest, bad[i])
        apart = np.nan_to_num(top - low, nan=0.0, posinf=0.0)
        spread[:, i] = np.where(rest.sum(1) > 1, apart, -1.0)
    stage, then = share.argmax(1), spread.argmax(1)
    halve = (share[rows, stage] < _ENOUGH) & (spread[rows, then] >= 0)
    widest = max(mask.shape[1] for mask in masks)
    parts = np.zeros((3, len(regions), widest), dtype=bool)
    for i, mask in enumerate(masks):
        width, at = mask.shape[1], stage == i
        parts[0, at, :width] = right[i][at]
        parts[1, at, :width] = wrong[i][at]
        # A stage whose edges are decided in part has a rest, which is what is halved there.
        rest = mask & ~((right[i] | wrong[i]) & at[:, None])
        at = halve & (then == i)
        parts[2, at, :width] = _half(rest[at], bad[i][at])
    return Cuts(stage, parts[0], parts[1], np.where(halve, then, -1), parts[2])


def _ends(rest: Mask, bad: Floats) -> tuple[Floats, Floats]:
    """The worst and the best of the rest of each row."""
    return np.where(rest, bad, -np.inf).max(1), np.where(rest, bad, np.inf).min(1)


def _half(rest: Mask, bad: Floats) -> Mask:
    """The worse edges: above the middle between the worst and the best; never all or none."""
    top, low = _ends(rest, bad)
    part = np.asarray(rest & (bad > (top + low)[:, None] / 2))
    useless = ~part.any(1) | (part == rest).all(1)
    first = rest.argmax(1)
    part[useless] = False
    part[np.flatnonzero(useless), first[useless]] = True
    return part
