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
from tsc_interp.verification.order.decide import Cuts, Decision
from tsc_interp.verification.order.exact import OrderedExact
from tsc_interp.verification.order.found import OPEN, RIGHT, SINGLY, Batch, Found
from tsc_interp.verification.order.tangent import tangent_of
from tsc_interp.verification.order.terms import LinearBounds

FEW = 1 << 20
"""Regions of at most so many paths may be looked at path by path; tests lower it."""
LISTED = 1 << 22
"""Where no more paths than this wait, all may be looked at path by path: some hundred thousand take
a second."""
_PER_REGION = 10_000
"""They are, once so many regions have been bounded that this is the cheaper way."""
_LISTED_AT_ONCE = 1 << 16
_STILL_PATHS = 1 << 16
"""The same, where inputs hardly differ."""
_CLOSE = 4
"""So many inputs of a region may be too close for float64 and be evaluated in balls."""
_NUMBERS_AT_ONCE = 1 << 19
_MOST_WAITING = 64
"""Batches."""
_MASKS_AT_ONCE = 1 << 20
"""Bits of masks in one batch: few enough that the time is looked at often."""


Side = tuple[Batch, Index]
"""Part of a batch that was cut, and the rows it came from."""


class Partition:
    """The search over one trellis (of one or several labels)."""

    def __init__(self, exact: OrderedExact, bounds: Bounds | LinearBounds, deadline: float) -> None:
        self.exact, self.bounds, self.deadline = exact, bounds, deadline
        self.trellis = bounds.trellis
        self.found = Found(self.trellis)
        self.waiting = self._initial()
        self.lists = False
        """Whether all that waits is looked at path by path."""

    def go_on(self, found: Found) -> None:
        """Search what an earlier search has left, and look again at its undecided inputs."""
        self.found = found
        self.waiting = self._batch(*found.leaves(lambda outcome: outcome == OPEN))
        rows = [row for part in found.undecided_inputs for row in part.astype(np.int64)]
        if rows:
            found.undecided_inputs, letters = [], np.array(rows)
            label = np.array([self.trellis.label_of(row) for row in rows])
            ends = np.full((len(rows), 1), np.nan)
            self._paths(letters, label, ends, ends, np.zeros(ends.shape, dtype=np.int64))

    def only(self, regions: Regions) -> Partition:
        """Search these instead, of one label and reader each: nodes 0, 1, ... of the tree."""
        self.found.nodes = [OPEN] * len(regions)
        self.waiting = self._batch(regions, np.arange(len(regions)))
        return self

    def advance(self, until: float) -> bool:
        """Search on, for one batch at least; whether nothing is left."""
        size = max(1, _MASKS_AT_ONCE // self.trellis.n_edges)
        paths = self.waiting.regions.sizes()
        while len(self.waiting):
            if monotonic() > self.deadline:
                return False
            # The largest first: what is left when the time is over are few inputs. But where many
            # regions wait, the smallest, which are decided and not cut into more.
            total = paths.sum()
            self.lists = total <= min(LISTED, _PER_REGION * self.found.examined)
            order = np.argsort(paths if len(paths) < _MOST_WAITING * size else -paths)
            batch, rest = self.waiting[order[-size:]], self.waiting[order[:-size]]
            cut = self._round(batch, paths[order[-size:]])
            self.waiting = rest.joined(cut)
            paths = np.concatenate([paths[order[:-size]], *(part.regions.sizes() for part in cut)])
            if monotonic() > until:
                break
        return not len(self.waiting)

    def left(self) -> float:
        """About the share of inputs that are not decided."""
        if not len(self.waiting):
            return 0.0
        whole = Regions.whole(self.trellis).sizes().sum()
        return float(self.waiting.regions.sizes().sum() / whole)

    # -- the beginning -------------------------------------------------------------------------

    def _initial(self) -> Batch:
        """One region for each label and each letter that may read."""
        trellis, whole = self.trellis, Regions.whole(self.trellis)
        stage, last = trellis.label_stage, trellis.length - 1
        node = self.found.cut_apart(0, stage, whole.masks[stage][:-1])
        regions, node = self._split(whole, node, stage, trellis.label)
        if self.exact.config.reads == "last_letter" and last in trellis.place_of:
            stage, column = trellis.place_of[last]
            letters = trellis.stages[stage].letters[:, column]
            regions, node = self._split(regions, node, stage, letters)
        return self._batch(regions, node)

    def _split(
        self, regions: Regions, node: Index, stage: int, value: Index
    ) -> tuple[Regions, Index]:
        """By the value of an edge of one stage: as cuts one after the other, but pruned at once."""
        edges = value == np.unique(value)[:, None]
        rows, value_index = np.nonzero(regions.masks[stage].astype(float) @ edges.T)
        nodes = [
            self.found.cut_apart(at, stage, edges[value_index[rows == row]][:-1])
            for row, at in enumerate(node.tolist())
        ]
        masks = list(regions[rows].masks)
        masks[stage] = masks[stage] & edges[value_index]
        return regions.with_masks(masks).pruned()[0], np.concatenate(nodes)

    def _batch(self, regions: Regions, node: Index) -> Batch:
        """Regions of one label and reader each, of which nothing else is known."""
        trellis, count = self.trellis, len(regions)
        label = trellis.label[regions.masks[trellis.label_stage].argmax(1)]
        reader, last = np.zeros(count, dtype=np.int64), trellis.length - 1
        if self.exact.config.reads == "last_letter" and last in trellis.place_of:
            stage, column = trellis.place_of[last]
            reader = trellis.stages[stage].letters[regions.masks[stage].argmax(1), column]
        elif self.exact.config.reads == "last_letter":
            reader[:] = dict(trellis.fixed)[last]
        doubt = np.ones((count, len(self.bounds.maps.same)), dtype=bool)
        levels = np.full((count, self.bounds.n_directions), np.nan)
        return Batch(regions, reader, label, node, doubt, levels)

    def _cut(self, batch: Batch, stage: Index, part: Mask) -> tuple[Side, Side]:
        """Each region at its own stage: the paths through `part [region edge]`, and the rest."""
        masks_in, masks_out = [], []
        for i, mask in enumerate(batch.regions.masks):
            at = (stage == i)[:, None]
            edges = part[:, : mask.shape[1]]
            masks_in.append(mask & (edges | ~at))
            masks_out.append(mask & ~(edges & at))
        inside, has_inside = batch.regions.with_masks(masks_in).pruned()
        outside, has_outside = batch.regions.with_masks(masks_out).pruned()
        # A cut that leaves one side empty is none: the region stays as it was.
        children = np.stack([batch.node, batch.node])
        at = np.flatnonzero(has_inside & has_outside)
        children[:, at] = self.found.cut(batch.node[at], stage[at], part[at])
        return (
            _side(batch, inside, has_inside, children[0]),
            _side(batch, outside, has_outside, children[1]),
        )

    # -- rounds --------------------------------------------------------------------------------

    def _round(self, batch: Batch, totals: Array) -> list[Batch]:
        few = np.asarray(totals <= min(FEW, _LISTED_AT_ONCE if self.lists else self.bounds.few))
        if self.lists and not few.all():
            return [batch[few], *self._halved(batch[~few])]
        if few.any():
            few[few] = self._few(batch[few], totals[few])
            batch, totals = batch[~few], totals[~few]
            if not len(batch):
                return []
            if monotonic() > self.deadline:
                return [batch]
        self.found.examined += len(batch)
        start = None if np.isnan(batch.levels).any() else batch.levels
        with np.errstate(all="ignore"):
            known = self.bounds.bounded(
                batch.regions, batch.reader, batch.label, start, batch.doubt
            )
            decision = Decision(self.bounds, known)
            batch = replace(batch, levels=known.levels, doubt=decision.doubt)
            outcome = decision.outcome
            halves = self._still(batch, totals, outcome)
            self.found.close(batch.node, outcome)
            open_ = np.flatnonzero(outcome == OPEN)
            if not len(open_):
                return []
            cuts = decision.cuts(open_)
        for row, i in enumerate(open_.tolist()):
            if i in halves:
                cuts.replace(row, *halves[i])
        return self._apply(batch[open_], cuts)

    def _still(self, batch: Batch, totals: Array, outcome: Index) -> dict[int, tuple[int, Mask]]:
        """Decide open regions whose inputs hardly differ around one of them; see tangent.py.

        Returns:
            Where float64 does not tell how to cut a region: the stage and edges.
        """
        halves: dict[int, tuple[int, Mask]] = {}
        if not isinstance(self.bounds, Bounds):
            return halves
        for i in np.flatnonzero(outcome == OPEN).tolist():
            if monotonic() > self.deadline or not self.bounds.is_still(batch.levels[i], STILL):
                continue
            label = int(batch.label[i])
            tangent = tangent_of(
                self.bounds, self.exact, batch.regions[i : i + 1], int(batch.reader[i]), label
            )
            if tangent is None:
                continue
            low, high = tangent.ranges()
            if (low > 0).all():
                outcome[i] = RIGHT
            elif high.min() < 0:
                outcome[i] = high.argmin()
            elif totals[i] <= _STILL_PATHS:
                outcome[i] = SINGLY
                classes = np.flatnonzero(~(low > 0))
                letters, low, high = tangent.paths(classes)
                columns = np.broadcast_to(classes, low.shape)
                self._paths(letters, np.full(len(letters), label), low, high, columns)
            elif self.bounds.is_still(batch.levels[i], SAME):
                halves[i] = tangent.halves(int(low.argmin()))
        return halves

    def _apply(self, batch: Batch, cuts: Cuts) -> list[Batch]:
        rest, alive = batch, np.arange(len(batch))
        for part, outcome in ((cuts.right, np.full(len(batch), RIGHT)), (cuts.wrong, cuts.instead)):
            has = np.asarray(part[alive].any(1))
            chosen = np.flatnonzero(has)
            inside, outside = self._cut(
                rest[chosen], cuts.stage[alive[chosen]], part[alive[chosen]]
            )
            self.found.close(inside[0].node, outcome[alive[chosen[inside[1]]]])
            rest = rest[~has].joined([outside[0]])
            alive = np.concatenate([alive[~has], alive[chosen[outside[1]]]])
        halved = cuts.then[alive] >= 0
        at = alive[halved]
        inside, outside = self._cut(rest[halved], cuts.then[at], cuts.bad[at])
        return [inside[0], outside[0], rest[~halved]]

    def _halved(self, batch: Batch) -> list[Batch]:
        """Each region cut at the stage where it has most edges, without bounds."""
        edges = np.stack([mask.sum(1) for mask in batch.regions.masks])
        stage = edges.argmax(0)
        part = np.zeros((len(batch), max(map(len, self.trellis.stages))), dtype=bool)
        for row, i in enumerate(stage.tolist()):
            kept = np.flatnonzero(batch.regions.masks[i][row])
            part[row, kept[: len(kept) // 2]] = True
        return [side for side, _ in self._cut(batch, stage, part)]

    def _few(self, batch: Batch, totals: Array) -> Mask:
        """Path by path, as many regions at a time as memory allows; says which are done."""
        classes = batch.doubt.sum(1)
        order, done = np.argsort(classes), np.zeros(len(batch), dtype=bool)
        numbers = np.cumsum((totals * (classes + self.trellis.length))[order])
        blocks = np.floor(numbers / _NUMBERS_AT_ONCE).astype(np.int64)
        for block in sorted(set(blocks.tolist())):
            if self.lists and monotonic() > self.deadline:
                break
            done[order[blocks == block]] = self._each(batch[order[blocks == block]])
        return done

    def _each(self, batch: Batch) -> Mask:
        region, letters = batch.regions.strings()
        label, reader = batch.label[region], batch.reader[region]
        # The classes in doubt, and some others where a region has fewer of them.
        most = int(batch.doubt.sum(1).max())
        classes = np.argsort(~batch.doubt, axis=1, kind="stable")[region, :most]
        with np.errstate(all="ignore"):
            low, high = self.bounds.points(letters, reader, label, classes)
        unclear = ~((low > 0).all(1) | (high < 0).any(1))
        # Where many inputs are too close for float64, the region is cut: around one input more
        # can be told of others like it (tangent.py).
        close = np.maximum(_CLOSE, np.bincount(region, minlength=len(batch)) >> 10)
        done = np.bincount(region[unclear], minlength=len(batch)) <= close
        self.found.close(batch.node[done], np.full(int(done.sum()), SINGLY))
        kept = done[region]
        self._paths(letters[kept], label[kept], low[kept], high[kept], classes[kept])
        return np.asarray(done)

    def _paths(self, letters: Index, label: Index, low: Array, high: Array, classes: Index) -> None:
        """Keep single inputs by the ends of margins over `classes`, all `[input column]`."""
        lost = np.where(np.isnan(high), np.inf, high)
        best = np.take_along_axis(classes, lost.argmin(1)[:, None], 1)[:, 0]
        outcome = np.where(lost.min(1) < 0, best, OPEN)
        outcome = np.where((low > 0).all(1), RIGHT, outcome)
        for i in np.flatnonzero(outcome == OPEN):
            if monotonic() > self.deadline:
                break
            winner = self.exact.instead(letters[i].tolist(), int(label[i]))
            outcome[i] = OPEN if winner is None else winner
        wrong, open_, rows = outcome >= 0, outcome == OPEN, letters.astype(np.int16)
        if wrong.any():
            self.found.wrong_inputs.append((rows[wrong], outcome[wrong]))
        if open_.any():
            self.found.undecided_inputs.append(rows[open_])


def _side(batch: Batch, regions: Regions, has: Mask, node: Index) -> Side:
    """Part of a batch: those regions that have a path, at these nodes."""
    return replace(batch.part(has, regions), node=node[has]), np.flatnonzero(has)
