"""Branch and bound over the paths of one trellis: every input right, wrong, or undecided.

Regions of one label and one reading letter are asked about many at a time (decide.py); what the
trusted base does not show is cut and asked about again, and where few paths are left, all of them
one by one. What is left when the time is spent is undecided, never right.
"""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

import numpy as np

from tsc_interp.tasks.regions import Floats, Mask, Regions
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.judge import Judge
from tsc_interp.trusted.sets import Layout, Sets
from tsc_interp.trusted.trees import EACH
from tsc_interp.verification.order.decide import Cuts, Decider
from tsc_interp.verification.order.found import OPEN, SINGLY, Batch, Found

FEW = EACH
"""Regions of at most so many paths may be looked at path by path; tests lower it."""
_CHEAP = 32
"""Regions of so few paths are looked at path by path, which is cheaper than asking about them."""
LISTED = 1 << 20
"""Where no more paths than this wait, all may be looked at path by path."""
_PER_REGION = 100
"""They are, once so many regions have been asked about that this is the cheaper way."""
_INPUTS_AT_ONCE = 1 << 14
_MOST_WAITING = 64
"""Batches."""
_MASKS_AT_ONCE = 1 << 19
"""Bits of masks in one batch: few enough that the time is looked at often."""


Side = tuple[Batch, Index]
"""Part of a batch that was cut, and the rows it came from."""


class Partition:
    """The search over one trellis (of one or several labels)."""

    def __init__(
        self, judge: Judge, trellis: Trellis, deadline: float, float32: bool = False
    ) -> None:
        """With `float32` a region is cut until the same is shown of the float32 model."""
        self.judge, self.trellis, self.deadline, self.float32 = judge, trellis, deadline, float32
        self.layouts = [Layout(stage) for stage in trellis.stages]
        self.decider = Decider(judge, self.layouts, float32)
        self.found = Found(trellis)
        self.waiting = self._initial()
        self.lists = False
        """Whether all that waits is looked at path by path."""

    def go_on(self, found: Found) -> None:
        """Search what an earlier search has left, and look again at its undecided inputs."""
        self.found = found
        self.waiting = self._batch(*found.leaves(lambda outcome: outcome == OPEN))
        if found.undecided_inputs:
            rows = np.concatenate(found.undecided_inputs).astype(np.int64)
            found.undecided_inputs = []
            self._inputs(rows, self.trellis.labels_of(rows))

    def advance(self, until: float) -> bool:
        """Search on, for one batch at least; whether nothing is left."""
        self._allow(max(0.0, self.deadline - monotonic()))
        try:
            self._advance(until)
        except NotProved:
            if monotonic() < self.deadline:
                raise
        finally:
            self._allow(float("inf"))
        return not len(self.waiting)

    def _advance(self, until: float) -> None:
        size = max(1, _MASKS_AT_ONCE // self.trellis.n_edges)
        paths = self.waiting.regions.sizes()
        while len(self.waiting) and monotonic() <= self.deadline:
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

    def left(self) -> float:
        """About the share of inputs that are not decided."""
        if not len(self.waiting):
            return 0.0
        whole = Regions.whole(self.trellis).sizes().sum()
        return float(self.waiting.regions.sizes().sum() / whole)

    def _allow(self, seconds: float) -> None:
        """The trusted base stops when the time is over, too."""
        self.judge.budget.seconds = seconds
        self.judge.budget.restart()

    # -- the beginning -------------------------------------------------------------------------

    def _initial(self) -> Batch:
        """One region for each label and each letter that may read."""
        trellis, whole = self.trellis, Regions.whole(self.trellis)
        stage, last = trellis.label_stage, trellis.length - 1
        node = self.found.cut_apart(0, stage, whole.masks[stage][:-1])
        regions, node = self._split(whole, node, stage, trellis.label)
        if self.judge.spec.reads == "last_letter" and last in trellis.place_of:
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
        trellis = self.trellis
        label = trellis.label[regions.masks[trellis.label_stage].argmax(1)]
        return Batch(regions, label, node)

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

    def _round(self, batch: Batch, totals: Floats) -> list[Batch]:
        few = np.asarray(totals <= min(FEW, EACH if self.lists else _CHEAP))
        if self.lists and not few.all():
            return [batch[few], *self._halved(batch[~few])]
        if few.any():
            done = self._few(batch[few])
            batch = batch[~few].joined([batch[few][done:]])
            if done or not len(batch):
                return [batch]
        self.found.examined += len(batch)
        shown = self.decider.shown(batch.regions, batch.label)
        closed = np.flatnonzero(shown.sure if self.float32 else shown.outcome != OPEN)
        self.found.close(batch.node[closed], shown.outcome[closed])
        if self.float32:
            self.found.sure.update(batch.node[closed].tolist())
            half = np.setdiff1d(np.flatnonzero(shown.outcome != OPEN), closed)
            pairs = zip(batch.node[half].tolist(), shown.outcome[half].tolist(), strict=True)
            self.found.known.update(pairs)
        return self._apply(batch[shown.open], shown.cuts)

    def _apply(self, batch: Batch, cuts: Cuts) -> list[Batch]:
        rest, alive, made = batch, np.arange(len(batch)), []
        for part in (cuts.right, cuts.wrong):
            has = np.asarray(part[alive].any(1))
            chosen = np.flatnonzero(has)
            inside, outside = self._cut(
                rest[chosen], cuts.stage[alive[chosen]], part[alive[chosen]]
            )
            made.append(inside[0])
            rest = rest[~has].joined([outside[0]])
            alive = np.concatenate([alive[~has], alive[chosen[outside[1]]]])
        halved = cuts.then[alive] >= 0
        at = alive[halved]
        inside, outside = self._cut(rest[halved], cuts.then[at], cuts.bad[at])
        return [*made, inside[0], outside[0], rest[~halved]]

    def _halved(self, batch: Batch) -> list[Batch]:
        """Each region cut at the stage where it has most edges, without bounds."""
        edges = np.stack([mask.sum(1) for mask in batch.regions.masks])
        stage = edges.argmax(0)
        part = np.zeros((len(batch), max(map(len, self.trellis.stages))), dtype=bool)
        for row, i in enumerate(stage.tolist()):
            kept = np.flatnonzero(batch.regions.masks[i][row])
            part[row, kept[: len(kept) // 2]] = True
        return [side for side, _ in self._cut(batch, stage, part)]

    def _few(self, batch: Batch) -> int:
        """Path by path; says how many of the regions are done, from the front."""
        done, totals = 0, np.cumsum(batch.regions.sizes())
        while done < len(batch):
            if done and monotonic() > self.deadline:
                break
            before = totals[done - 1] if done else 0.0
            last = max(done + 1, int(np.searchsorted(totals, before + _INPUTS_AT_ONCE, "right")))
            some = batch[done:last]
            of, letters, _ = Sets(self.trellis, some.regions.masks, self.layouts).paths()
            try:
                self._inputs(letters, some.label[of])
            except NotProved:
                if monotonic() < self.deadline:
                    raise
                break
            self.found.close(some.node, np.full(len(some), SINGLY))
            done = last
        return done

    def _inputs(self, letters: Index, label: Index) -> None:
        """Keep single inputs."""
        asked = np.full(len(letters), self.float32)
        answer, sure = self.judge.of_inputs(letters, label, asked)
        wrong, open_, rows = (answer >= 0) & (answer != label), answer < 0, letters.astype(np.int16)
        if wrong.any():
            self.found.wrong_inputs.append((rows[wrong], answer[wrong]))
        if open_.any():
            self.found.undecided_inputs.append(rows[open_])
        self.found.sure_inputs += np.array([(sure & ~wrong).sum(), (sure & wrong).sum()])


def _side(batch: Batch, regions: Regions, has: Mask, node: Index) -> Side:
    """Part of a batch: those regions that have a path, at these nodes."""
    return replace(batch.part(has, regions), node=node[has]), np.flatnonzero(has)
