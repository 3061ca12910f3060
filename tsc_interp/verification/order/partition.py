"""Branch and bound over the paths of one trellis: every input right, wrong, or undecided.

Regions of one label and one reading letter are bounded many at a time (decide.py); what is not
decided is cut and looked at again. Regions of few paths are looked at path by path: in float64 with
an error bound, and in ball arithmetic where that does not tell. What is left when the time is spent
is undecided, never right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index, Trellis
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
from tsc_interp.verification.order.tangent import tangent_of
from tsc_interp.verification.order.terms import LinearBounds

FEW = 1 << 20
"""Regions of at most so many paths may be looked at path by path; tests lower it."""
_STILL_PATHS = 1 << 16
"""The same, where inputs hardly differ."""
_CLOSE = 4
"""So many inputs of a region may be too close for float64 and be evaluated in balls."""
_NUMBERS_AT_ONCE = 1 << 19
_MASKS_AT_ONCE = 1 << 20
"""Bits of masks in one batch: few enough that the time is looked at often."""


@dataclass
class Batch:
    """Regions with what the search knows of them: `node [region]` is their place in the tree."""

    regions: Regions
    reader: Index
    label: Index
    node: Index
    levels: list[Array]
    """`[region direction]` per head: where to begin; NaN where nothing is known."""
    doubt: Mask
    """`[region class]`: classes that may beat the label somewhere in the region."""

    def __len__(self) -> int:
        return len(self.node)

    def __getitem__(self, chosen: Index | slice | Mask) -> Batch:
        return Batch(
            self.regions[chosen],
            self.reader[chosen],
            self.label[chosen],
            self.node[chosen],
            [level[chosen] for level in self.levels],
            self.doubt[chosen],
        )

    def joined(self, others: list[Batch]) -> Batch:
        parts = [part for part in (self, *others) if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else self
        heads = range(len(self.levels))
        return Batch(
            parts[0].regions.joined([part.regions for part in parts[1:]]),
            np.concatenate([part.reader for part in parts]),
            np.concatenate([part.label for part in parts]),
            np.concatenate([part.node for part in parts]),
            [np.concatenate([part.levels[head] for part in parts]) for head in heads],
            np.concatenate([part.doubt for part in parts]),
        )


Side = tuple[Batch, Index]
"""Part of a batch that was cut, and the rows it came from."""


@dataclass
class Tree:
    """Cuts and leaves in the order they were made; node 0 is the whole trellis.

    A cut is (stage, packed edges, child inside); the child outside comes directly after it.
    A leaf is `RIGHT`, `UNDECIDED`, `OPEN` for "each path on its own", or the class that wins.
    """

    nodes: list[tuple[int, bytes, int] | int | None] = field(default_factory=lambda: [None])

    def cut(self, node: Index, stage: Index, part: Mask) -> Index:
        """The children of these nodes, numbered: `[2 region]`."""
        first = len(self.nodes) + 2 * np.arange(len(node))
        packed = map(bytes, np.packbits(part, axis=1))
        self.nodes += [None] * (2 * len(node))
        cuts = zip(stage.tolist(), packed, first.tolist(), strict=True)
        for at, cut in zip(node.tolist(), cuts, strict=True):
            self.nodes[at] = cut
        return np.stack([first, first + 1])

    def parts(self, node: int, stage: int, parts: Mask) -> Index:
        """One cut after the other at a stage: the parts `[part edge]` and what is left."""
        first = len(self.nodes) + 2 * np.arange(len(parts))
        outside = np.array([node, *(first + 1)])
        self.cut(outside[:-1], np.full(len(parts), stage), parts)
        return np.array([*first, outside[-1]])

    def leaves(self, node: Index, outcome: Index) -> None:
        for at, one in zip(node.tolist(), outcome.tolist(), strict=True):
            self.nodes[at] = one


@dataclass
class Found:
    """What became of the paths of one trellis."""

    trellis: Trellis
    wrong: list[tuple[Regions, Index]] = field(default_factory=list)
    """Regions with the class that beats their label."""
    undecided: list[Regions] = field(default_factory=list)
    wrong_inputs: list[tuple[NDArray[np.int16], Index]] = field(default_factory=list)
    """Inputs found one by one `[input place]`, with the class that wins."""
    undecided_inputs: list[NDArray[np.int16]] = field(default_factory=list)
    examined: int = 0
    tree: Tree = field(default_factory=Tree)

    def give_up(self, regions: Regions, node: Index) -> None:
        """Call regions undecided that stand at these nodes of the tree."""
        if len(regions):
            self.tree.leaves(node, np.full(len(node), UNDECIDED))
            self.undecided.append(regions)


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
        while len(self.waiting):
            if monotonic() > self.deadline:
                return False
            batch, rest = self.waiting[-size:], self.waiting[:-size]
            self.waiting = rest.joined(self._round(batch))
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
        whole = through(Regions.whole(self.trellis))[1][0]
        return float(through(self.waiting.regions)[1].sum() / whole)

    def retry(self) -> None:
        """Look once more at single inputs for which there was no time."""
        rows = [row for part in self.found.undecided_inputs for row in part.astype(np.int64)]
        if rows:
            self.found.undecided_inputs, letters = [], np.array(rows)
            label = np.array([self.trellis.label_of(row) for row in rows])
            ends = np.full((len(rows), 1), np.nan)
            self._paths(letters, label, ends, ends, np.zeros(1, dtype=np.int64))

    # -- the beginning -------------------------------------------------------------------------

    def _initial(self) -> Batch:
        """One region for each label and each letter that may read."""
        trellis = self.trellis
        whole = Regions.whole(trellis)
        levels = [np.full((1, len(probe.q)), np.nan) for probe in self.bounds.probes]
        zero = np.zeros(1, dtype=np.int64)
        doubt = np.ones((1, len(self.bounds.maps.same)), dtype=bool)
        waiting = [Batch(whole, zero, zero + trellis.labels[0], zero.copy(), levels, doubt)]
        by_label = trellis.label
        waiting = self._split(waiting, trellis.label_stage, by_label, "label")
        if self.exact.config.reads == "last_letter":
            last = trellis.length - 1
            fixed = dict(trellis.fixed)
            if last in fixed:
                for batch in waiting:
                    batch.reader[:] = fixed[last]
            else:
                stage, column = trellis.place_of[last]
                letters = trellis.stages[stage].letters[:, column]
                waiting = self._split(waiting, stage, letters, "reader")
        return waiting[0].joined(waiting[1:])

    def only(self, regions: Regions, reader: Index) -> Partition:
        """Search these instead, of one label and reader each: nodes 0, 1, ... of the tree."""
        count, trellis = len(regions), self.trellis
        self.found.tree.nodes = [None] * count
        label = trellis.label[regions.masks[trellis.label_stage].argmax(1)]
        levels = [np.full((count, len(probe.q)), np.nan) for probe in self.bounds.probes]
        doubt = np.ones((count, len(self.bounds.maps.same)), dtype=bool)
        self.waiting = Batch(regions, reader, label, np.arange(count), levels, doubt)
        return self

    def _split(self, waiting: list[Batch], stage: int, value: Index, name: str) -> list[Batch]:
        """By the value of an edge of one stage: as cuts one after the other, but pruned at once."""
        found = []
        for batch in waiting:
            values = np.unique(value[batch.regions.masks[stage].any(0)])
            if len(values) == 1:
                getattr(batch, name)[:] = values
                found.append(batch)
                continue
            masks = [np.repeat(mask, len(values), axis=0) for mask in batch.regions.masks]
            masks[stage] = masks[stage] & (value == values[:, None])
            regions, _ = batch.regions.with_masks(masks).pruned()
            rows = np.zeros(len(values), dtype=np.int64)
            nodes = self.found.tree.parts(int(batch.node[0]), stage, value == values[:-1, None])
            levels = [level[rows] for level in batch.levels]
            made = Batch(
                regions,
                batch.reader[rows],
                batch.label[rows],
                nodes,
                levels,
                batch.doubt[rows],
            )
            getattr(made, name)[:] = values
            found += [made[i : i + 1] for i in range(len(made))] if name == "label" else [made]
        return found

    @property
    def _widest(self) -> int:
        return max(map(len, self.trellis.stages))

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
            _side(batch, inside, has_inside, children[0]),
            _side(batch, outside, has_outside, children[1]),
        )

    # -- rounds --------------------------------------------------------------------------------

    def _round(self, batch: Batch) -> list[Batch]:
        counts, totals = through(batch.regions)
        few = np.asarray(totals <= min(FEW, self.bounds.few))
        if few.any():
            few[few] = self._few(batch[few], totals[few])
            many = np.flatnonzero(~few)
            batch, counts, totals = batch[many], [count[many] for count in counts], totals[many]
            if not len(batch):
                return []
        self.found.examined += len(batch)
        known = None if any(np.isnan(level).any() for level in batch.levels) else batch.levels
        result = decide(
            self.bounds, batch.regions, batch.reader, batch.label, known, batch.doubt, counts
        )
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
                self._paths(letters, np.full(len(letters), label), low, high, classes)
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
        width = batch.doubt.shape[1] + self.trellis.length
        ends = np.floor(np.cumsum(totals) * width / _NUMBERS_AT_ONCE).astype(np.int64)
        return np.concatenate([self._each(batch[ends == one]) for one in np.unique(ends)])

    def _each(self, batch: Batch) -> Mask:
        region, letters = batch.regions.strings()
        label, reader = batch.label[region], batch.reader[region]
        # A class that wins in no region here can be left out, but for the label's own ties.
        classes = np.flatnonzero(batch.doubt.any(0))
        with np.errstate(all="ignore"):
            low, high = self.bounds.points(letters, reader, label, classes)
        unclear = ~((low > 0).all(1) | (high < 0).any(1))
        # Where many inputs are too close for float64, the region is cut: around one input more
        # can be told of others like it (tangent.py).
        done = np.bincount(region[unclear], minlength=len(batch)) <= _CLOSE
        self.found.tree.leaves(batch.node[done], np.full(int(done.sum()), OPEN))
        kept = done[region]
        self._paths(letters[kept], label[kept], low[kept], high[kept], classes)
        return done

    def _paths(self, letters: Index, label: Index, low: Array, high: Array, which: Index) -> None:
        """Keep single inputs by the ends of margins `[input column]`; `which [column]` class."""
        right = (low > 0).all(1)
        lost = np.where(np.isnan(high), np.inf, high)
        instead = np.where(lost.min(1) < 0, which[lost.argmin(1)], OPEN)
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


def _side(batch: Batch, regions: Regions, has: Mask, node: Index) -> Side:
    levels = [level[has] for level in batch.levels]
    rows = np.flatnonzero(has)
    doubt = batch.doubt[has]
    return Batch(regions, batch.reader[has], batch.label[has], node[has], levels, doubt), rows


def through(regions: Regions) -> tuple[list[Array], Array]:
    """How many paths go through each edge, `[region edge]` per stage, and in all; in float64."""
    grouped, stages = regions.grouped, regions.trellis.stages
    before = [np.ones((len(regions), 1))]
    sums = []
    for group, mask in zip(grouped, regions.masks, strict=True):
        sums.append(group.of_edges(np.add, mask.astype(np.float64)))
        before.append(group.to_targets(np.add, sums[-1] * before[-1][:, group.source]))
    after = np.ones((len(regions), regions.trellis.sizes[-1]))
    found: list[Array] = []
    for i in reversed(range(len(stages))):
        around = before[i][:, stages[i].source] * after[:, stages[i].target]
        found.insert(0, regions.masks[i] * around)
        after = grouped[i].to_sources(np.add, sums[i] * after[:, grouped[i].target])
    return found, before[-1].sum(1)
