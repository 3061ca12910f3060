"""Branch and bound over the paths of one trellis: every input right, wrong, or undecided.

Regions of one label and one reading letter are bounded many at a time (decide.py); what is not
decided is cut and looked at again. Regions of few paths are looked at path by path: in float64 with
an error bound, and in ball arithmetic where that does not tell. What is left when the time is spent
is undecided, never right.
"""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

import numpy as np

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.bounds.intervals import Array
from tsc_interp.verification.order.bounds import SAME, STILL, Bounds
from tsc_interp.verification.order.decide import (
    EACH,
    OPEN,
    RIGHT,
    UNDECIDED,
    Cuts,
    Verdicts,
    decide,
)
from tsc_interp.verification.order.exact import OrderedExact
from tsc_interp.verification.order.found import Batch, Found, Side, side
from tsc_interp.verification.order.tangent import tangent_of
from tsc_interp.verification.order.terms import LinearBounds

FEW = 1 << 20
"""Regions of at most so many paths may be looked at path by path; tests lower it."""
_STILL_PATHS = 1 << 16
"""The same, where inputs hardly differ."""
_CLOSE = 4
"""So many inputs of a region may be too close for float64 and be evaluated in balls."""
_NUMBERS_AT_ONCE = 1 << 19
_MOST_WAITING = 64
"""Batches."""
_MASKS_AT_ONCE = 1 << 20
"""Bits of masks in one batch: few enough that the time is looked at often."""


class Partition:
    """The search over one trellis (of one or several labels)."""

    def __init__(
        self,
        exact: OrderedExact,
        bounds: Bounds | LinearBounds,
        deadline: float,
    ) -> None:
        self.exact, self.bounds, self.deadline = exact, bounds, deadline
        self.trellis = bounds.trellis
        self.found = Found(self.trellis)
        self.waiting = self._initial()

    def advance(self, until: float) -> bool:
        """Search on, for one batch at least; whether nothing is left."""
        size = max(1, _MASKS_AT_ONCE // self.trellis.n_edges)
        paths = self.waiting.regions.sizes()
        while len(self.waiting):
            if monotonic() > self.deadline:
                return False
            # The largest first: what is left when the time is over are few inputs. But where many
            # regions wait, the smallest, which are decided and not cut into more.
            order = np.argsort(paths if len(paths) < _MOST_WAITING * size else -paths)
            batch, rest = self.waiting[order[-size:]], self.waiting[order[:-size]]
            cut = self._round(batch, paths[order[-size:]])
            self.waiting = rest.joined(cut)
            paths = np.concatenate([paths[order[:-size]], *(part.regions.sizes() for part in cut)])
            if monotonic() > until:
                break
        return not len(self.waiting)

    def ended(self) -> Found:
        """What was found; what is left is undecided."""
        self.found.give_up(self.waiting.regions, self.waiting.node)
        return self.found

    def left(self) -> float:
        """About the share of inputs that are not decided."""
        if not len(self.waiting):
            return 0.0
        whole = Regions.whole(self.trellis).sizes().sum()
        return float(self.waiting.regions.sizes().sum() / whole)

    def retry(self) -> None:
        """Look once more at single inputs for which there was no time."""
        rows = [row for part in self.found.undecided_inputs for row in part.astype(np.int64)]
        if rows:
            self.found.undecided_inputs, letters = [], np.array(rows)
            label = np.array([self.trellis.label_of(row) for row in rows])
            ends = np.full((len(rows), 1), np.nan)
            self._paths(letters, label, ends, ends, np.zeros(ends.shape, dtype=np.int64))

    # -- the beginning -------------------------------------------------------------------------

    def _initial(self) -> Batch:
        """One region for each label and each letter that may read."""
        trellis, stage = self.trellis, self.trellis.label_stage
        whole = Regions.whole(trellis)
        node = self.found.tree.parts(0, stage, whole.masks[stage][:-1])
        first = self._split(self._batch(whole, np.zeros_like(node), node), stage, trellis.label)
        batch = first[0]
        batch.label[:] = first[1]
        if self.exact.config.reads == "last_letter":
            last, fixed = trellis.length - 1, dict(trellis.fixed)
            if last in fixed:
                batch.reader[:] = fixed[last]
            else:
                stage, column = trellis.place_of[last]
                batch, readers = self._split(batch, stage, trellis.stages[stage].letters[:, column])
                batch.reader[:] = readers
        return batch

    def _batch(self, regions: Regions, reader: Index, node: Index) -> Batch:
        """Regions of which nothing is known; a label is told where they have one each."""
        trellis, count = self.trellis, len(regions)
        label = trellis.label[regions.masks[trellis.label_stage].argmax(1)]
        levels = [np.full((count, len(probe.q)), np.nan) for probe in self.bounds.probes]
        doubt = np.ones((count, len(self.bounds.maps.same)), dtype=bool)
        return Batch(regions, reader, label, node, levels, doubt)

    def only(self, regions: Regions, reader: Index) -> Partition:
        """Search these instead, of one label and reader each: nodes 0, 1, ... of the tree."""
        self.found.tree.nodes = [None] * len(regions)
        self.waiting = self._batch(regions, reader, np.arange(len(regions)))
        return self

    def _split(self, batch: Batch, stage: int, value: Index) -> tuple[Batch, Index]:
        """By the value of an edge of one stage: as cuts one after the other, but pruned at once."""
        values = np.array(sorted(set(value.tolist())))
        edges = value == values[:, None]
        rows, which = np.nonzero(batch.regions.masks[stage].astype(float) @ edges.T)
        nodes = [
            self.found.tree.parts(node, stage, edges[which[rows == row]][:-1])
            for row, node in enumerate(batch.node.tolist())
        ]
        made = batch[rows]
        masks = list(made.regions.masks)
        masks[stage] = masks[stage] & edges[which]
        regions, _ = made.regions.with_masks(masks).pruned()
        return replace(made, regions=regions, node=np.concatenate(nodes)), values[which]

    def _cut(self, batch: Batch, stage: Index, part: Mask) -> tuple[Side, Side]:
        """Each region at its own stage: the paths through `part [region edge]`, and the rest."""
        masks_in, masks_out = [], []
        for i, mask in enumerate(batch.regions.masks):
            at = (stage == i)[:, None]
            mine = part[:, : mask.shape[1]]
            masks_in.append(mask & (mine | ~at))
            masks_out.append(mask & ~(mine & at))
        inside, has_inside = batch.regions.with_masks(masks_in).pruned()
        outside, has_outside = batch.regions.with_masks(masks_out).pruned()
        # A cut that leaves one side empty is none: the region stays as it was.
        children = np.stack([batch.node, batch.node])
        at = np.flatnonzero(has_inside & has_outside)
        children[:, at] = self.found.tree.cut(batch.node[at], stage[at], part[at])
        return (
            side(batch, inside, has_inside, children[0]),
            side(batch, outside, has_outside, children[1]),
        )

    # -- rounds --------------------------------------------------------------------------------

    def _round(self, batch: Batch, totals: Array) -> list[Batch]:
        few = np.asarray(totals <= min(FEW, self.bounds.few))
        if few.any():
            few[few] = self._few(batch[few], totals[few])
            many = np.flatnonzero(~few)
            batch, totals = batch[many], totals[many]
            if not len(batch):
                return []
        self.found.examined += len(batch)
        known = None if any(np.isnan(level).any() for level in batch.levels) else batch.levels
        result = decide(self.bounds, batch.regions, batch.reader, batch.label, known, batch.doubt)
        batch = replace(batch, levels=result.levels, doubt=result.doubt)
        self._still(batch, totals, result)
        self._keep(batch, result.outcome)
        if result.cuts is None:
            return []
        open_ = np.flatnonzero(result.outcome[result.cuts_of] == OPEN)
        return self._apply(batch[result.outcome == OPEN], result.cuts.chosen(open_))

    def _still(self, batch: Batch, totals: Array, result: Verdicts) -> None:
        """Decide open regions whose inputs hardly differ around one of them; see tangent.py."""
        if result.cuts is None or not isinstance(self.bounds, Bounds):
            return
        for cut, i in enumerate(result.cuts_of):
            levels = [level[i] for level in batch.levels]
            if monotonic() > self.deadline or not self.bounds.is_still(levels, STILL):
                continue
            label = int(batch.label[i])
            near = tangent_of(
                self.bounds, self.exact, batch.regions[i : i + 1], int(batch.reader[i]), label
            )
            if near is None:
                continue
            low, high = near.ranges()
            if (low > 0).all():
                result.outcome[i] = RIGHT
            elif high.min() < 0:
                result.outcome[i] = high.argmin()
            elif totals[i] <= _STILL_PATHS:
                result.outcome[i] = EACH
                classes = np.flatnonzero(~(low > 0))
                letters, low, high = near.paths(classes)
                which = np.broadcast_to(classes, low.shape)
                self._paths(letters, np.full(len(letters), label), low, high, which)
            elif self.bounds.is_still(levels, SAME):
                stage, part = near.halves(int(low.argmin()))
                result.cuts.replace(cut, stage, part)

    def _apply(self, batch: Batch, cuts: Cuts) -> list[Batch]:
        rest, alive = batch, np.arange(len(batch))
        for part, outcome in ((cuts.right, np.full(len(batch), RIGHT)), (cuts.wrong, cuts.instead)):
            has = np.asarray(part[alive].any(1))
            chosen = np.flatnonzero(has)
            inside, outside = self._cut(
                rest[chosen], cuts.stage[alive[chosen]], part[alive[chosen]]
            )
            self._keep(inside[0], outcome[alive[chosen[inside[1]]]])
            rest = rest[~has].joined([outside[0]])
            alive = np.concatenate([alive[~has], alive[chosen[outside[1]]]])
        halved = cuts.then[alive] >= 0
        at = alive[halved]
        inside, outside = self._cut(rest[halved], cuts.then[at], cuts.bad[at])
        return [inside[0], outside[0], rest[~halved]]

    def _keep(self, batch: Batch, outcome: Index) -> None:
        closed = outcome != OPEN
        leaves = np.where(outcome == EACH, OPEN, outcome)
        self.found.tree.leaves(batch.node[closed], leaves[closed])
        wrong = outcome >= 0
        if wrong.any():
            self.found.wrong.append((batch.regions[wrong], outcome[wrong]))

    def _few(self, batch: Batch, totals: Array) -> Mask:
        """Path by path, as many regions at a time as memory allows; says which are done."""
        classes = batch.doubt.sum(1)
        order, done = np.argsort(classes), np.zeros(len(batch), dtype=bool)
        numbers = np.cumsum((totals * (classes + self.trellis.length))[order])
        ends = np.floor(numbers / _NUMBERS_AT_ONCE).astype(np.int64)
        for one in sorted(set(ends.tolist())):
            done[order[ends == one]] = self._each(batch[order[ends == one]])
        return done

    def _each(self, batch: Batch) -> Mask:
        region, letters = batch.regions.strings()
        label, reader = batch.label[region], batch.reader[region]
        # The classes in doubt, and some others where a region has fewer of them.
        most = int(batch.doubt.sum(1).max())
        which = np.argsort(~batch.doubt, axis=1, kind="stable")[region, :most]
        with np.errstate(all="ignore"):
            low, high = self.bounds.points(letters, reader, label, which)
        unclear = ~((low > 0).all(1) | (high < 0).any(1))
        # Where many inputs are too close for float64, the region is cut: around one input more
        # can be told of others like it (tangent.py).
        done = np.bincount(region[unclear], minlength=len(batch)) <= _CLOSE
        self.found.tree.leaves(batch.node[done], np.full(int(done.sum()), OPEN))
        kept = done[region]
        self._paths(letters[kept], label[kept], low[kept], high[kept], which[kept])
        return done

    def _paths(self, letters: Index, label: Index, low: Array, high: Array, which: Index) -> None:
        """Keep single inputs by the ends of margins over `which` classes, all `[input column]`."""
        right = (low > 0).all(1)
        lost = np.where(np.isnan(high), np.inf, high)
        best = np.take_along_axis(which, lost.argmin(1)[:, None], 1)[:, 0]
        instead = np.where(lost.min(1) < 0, best, OPEN)
        instead = np.where(right, RIGHT, instead)
        for i in np.flatnonzero(instead == OPEN):
            if monotonic() > self.deadline:
                break
            found = self.exact.instead(letters[i].tolist(), int(label[i]))
            instead[i] = UNDECIDED if found is None else found
        wrong, rows = instead >= 0, letters.astype(np.int16)
        if wrong.any():
            self.found.wrong_inputs.append((rows[wrong], instead[wrong]))
        undecided = (instead == OPEN) | (instead == UNDECIDED)
        if undecided.any():
            self.found.undecided_inputs.append(rows[undecided])
