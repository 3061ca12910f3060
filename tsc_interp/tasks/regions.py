"""Regions of a trellis, many at once: the paths that use only some of the edges.

A region is one mask of edges per stage. It is as good as a trellis of its own: its paths can be
counted, enumerated and sampled, and the first of them in alphabetical order is found without
looking at the others. Counts are exact whole numbers of any size.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.tasks.trellis import Grouped, Index, Stage, Trellis

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
_ROWS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class Regions:
    """`masks[stage] [region edge]`; make them with `whole` or `pruned`, never with idle edges."""

    trellis: Trellis
    masks: tuple[Mask, ...]

    @property
    def grouped(self) -> list[Grouped]:
        """The edges of each stage by source and target."""
        return [stage.grouped for stage in self.trellis.stages]

    @classmethod
    def whole(cls, trellis: Trellis) -> Regions:
        """One region with every path; of a stack one for each label."""
        return cls(trellis, trellis.every)

    def __len__(self) -> int:
        return len(self.masks[0])

    def __getitem__(self, chosen: Any) -> Regions:
        return self.with_masks(tuple(mask[chosen] for mask in self.masks))

    def with_masks(self, masks: Sequence[Mask]) -> Regions:
        """Return regions of the same trellis with these masks."""
        return Regions(self.trellis, tuple(masks))

    def joined(self, others: Sequence[Regions]) -> Regions:
        """These and others of the same trellis, in this order."""
        parts = [part for part in (self, *others) if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else self
        columns = zip(*(part.masks for part in parts), strict=True)
        return self.with_masks([np.concatenate(column) for column in columns])

    def pruned(self) -> tuple[Regions, Mask]:
        """Regions without edges that lie on no path, and which of these have a path at all.

        Those that have none are left out of the first.
        """
        reached = np.ones((len(self), 1), dtype=bool)
        alive = []
        for stage, grouped, mask in zip(self.trellis.stages, self.grouped, self.masks, strict=True):
            mask = mask & reached[:, stage.source]
            alive.append(mask)
            groups = grouped.of_edges(np.logical_or, mask)
            reached = grouped.to_targets(np.logical_or, groups)
        live = np.asarray(reached.any(1))
        for number in reversed(range(len(alive))):
            stage, grouped = self.trellis.stages[number], self.grouped[number]
            mask = alive[number] & reached[:, stage.target]
            alive[number] = mask
            reached = grouped.to_sources(np.logical_or, grouped.of_edges(np.logical_or, mask))
        if live.all():
            return self.with_masks(alive), live
        return self.with_masks([mask[live] for mask in alive]), live

    # -- how many ------------------------------------------------------------------------------

    @cached_property
    def _integer(self) -> Any:
        """int64 where no count can exceed it, else Python's own whole numbers."""
        bits = sum(
            log2(np.diff(np.append(g.edge_starts, len(s))).max() * len(g.source))
            for s, g in zip(self.trellis.stages, self.grouped, strict=True)
        )
        return np.int64 if bits < 62 else object

    def ways(self, exact: bool = True) -> list[NDArray[Any]]:
        """For each boundary the number of ways to go on to the end, `[region state]`."""
        number = self._integer if exact else np.float64
        ways = [np.ones((len(self), self.trellis.sizes[-1]), dtype=number)]
        for grouped, mask in zip(reversed(self.grouped), reversed(self.masks), strict=True):
            edges = grouped.of_edges(np.add, mask.astype(np.int64 if exact else number))
            ahead = edges.astype(number, copy=False) * ways[0][:, grouped.target]
            ways.insert(0, grouped.to_sources(np.add, ahead))
        return ways

    def counts(self) -> list[int]:
        """The number of paths of each region."""
        at_once = max(1, _ROWS_AT_ONCE // self.trellis.n_edges)
        counts: list[int] = []
        for start in range(0, len(self), at_once):
            counts += self[start : start + at_once].ways()[0][:, 0].tolist()
        return counts

    def sizes(self) -> Floats:
        """About how many paths each region has."""
        return self.ways(exact=False)[0][:, 0]

    def through(self, exact: bool = False) -> list[NDArray[Any]]:
        """How many paths go through each edge, `[region edge]` per stage; about so many."""
        number = self._integer if exact else np.float64
        after, flows = self.ways(exact=exact), []
        before = np.ones((len(self), 1), dtype=number)
        for i, (stage, mask) in enumerate(zip(self.trellis.stages, self.masks, strict=True)):
            flows.append(mask * (before[:, stage.source] * after[i + 1][:, stage.target]))
            edges = stage.grouped.of_edges(np.add, mask.astype(number))
            before = stage.grouped.to_targets(np.add, edges * before[:, stage.grouped.source])
        return flows

    # -- which ---------------------------------------------------------------------------------

    def strings(self, limit: int | None = None) -> tuple[Index, Index]:
        """Every path of every region, as the region's number and letters `[path place]`.

        `limit` stops an enumeration that was not meant to be so large, with a ValueError.
        """
        region = np.arange(len(self))
        state = np.zeros(len(self), dtype=np.int64)
        letters = np.zeros((len(self), self.trellis.length), dtype=np.int64)
        for place, letter in self.trellis.fixed:
            letters[:, place] = letter
        for stage, mask in zip(self.trellis.stages, self.masks, strict=True):
            row, edge = _going_on(mask, stage, region, state)
            if limit is not None and len(row) > limit:
                raise ValueError(f"these regions hold more than {limit} paths")
            region, state, letters = region[row], stage.target[edge], letters[row]
            letters[:, list(stage.places)] = stage.letters[edge]
        return region, letters

    def _letters(self, place: int) -> tuple[int, Index]:
        """The stage of a place, and the letters `[edge]` that its edges put there."""
        stage, column = self.trellis.place_of[place]
        return stage, self.trellis.stages[stage].letters[:, column]

    def least_letter(self, place: int) -> int:
        """The first letter that stands at this place in any of the regions."""
        stage, letters = self._letters(place)
        return int(letters[self.masks[stage].any(0)].min())

    def with_letter(self, place: int, letter: int) -> Regions:
        """The paths with this letter at this place."""
        stage, letters = self._letters(place)
        masks = list(self.masks)
        masks[stage] = masks[stage] & (letters == letter)
        return self.with_masks(masks).pruned()[0]

    def any_path(self, region: int) -> tuple[int, ...]:
        """One path of one region, the one its first edges lead along."""
        chosen, state = dict(self.trellis.fixed), 0
        for stage, mask in zip(self.trellis.stages, self.masks, strict=True):
            edge = int(np.argmax(mask[region] & (stage.source == state)))
            chosen |= dict(zip(stage.places, stage.letters[edge].tolist(), strict=True))
            state = int(stage.target[edge])
        return tuple(chosen[place] for place in range(self.trellis.length))

    def sample(self, count: int, seed: int = 0) -> Index:
        """Paths drawn uniformly from all regions together, with replacement: `[path place]`."""
        draw = random.Random(seed)
        ways = self.ways()
        totals = [int(total) for total in ways[0][:, 0]]
        ends = list(accumulate(totals))
        chosen = [bisect_right(ends, draw.randrange(ends[-1])) for _ in range(count)]
        rows = [list(self._drawn(region, ways, draw)) for region in chosen]
        return np.array(rows, dtype=np.int64).reshape(len(rows), self.trellis.length)

    def _drawn(self, region: int, ways: list[NDArray[Any]], draw: random.Random) -> Iterator[int]:
        chosen, state = dict(self.trellis.fixed), 0
        for number, stage in enumerate(self.trellis.stages):
            edges = np.flatnonzero(self.masks[number][region] & (stage.source == state))
            ahead = [int(way) for way in ways[number + 1][region, stage.target[edges]]]
            left = draw.randrange(sum(ahead))
            edge = edges[bisect_right(list(accumulate(ahead)), left)]
            chosen |= dict(zip(stage.places, stage.letters[edge].tolist(), strict=True))
            state = int(stage.target[edge])
        return (chosen[place] for place in range(self.trellis.length))

    def holds(self, letters: Index) -> Mask:
        """Which regions have the path of this input: `[region]`, nowhere if it is no path."""
        edges = self.trellis.path(letters)
        if edges is None:
            return np.zeros(len(self), dtype=bool)
        passed = [mask[:, edge] for mask, edge in zip(self.masks, edges, strict=True)]
        return np.asarray(np.logical_and.reduce(passed))


def first_path(pieces: Sequence[Regions]) -> tuple[int, ...]:
    """The first path of all regions, place by place in the alphabet's order."""
    length, chosen = pieces[0].trellis.length, dict(pieces[0].trellis.fixed)
    for place in range(length):
        if place not in chosen:
            least = [piece.least_letter(place) for piece in pieces]
            chosen[place] = min(least)
            pieces = [
                piece.with_letter(place, letter)
                for piece, letter in zip(pieces, least, strict=True)
                if letter == chosen[place]
            ]
    return tuple(chosen[place] for place in range(length))


def _going_on(mask: Mask, stage: Stage, region: Index, state: Index) -> tuple[Index, Index]:
    """(row, edge) for every kept edge that leaves the state a row is in, in order of rows."""
    owner, edges = np.nonzero(mask)  # in order of region and source
    states = int(stage.source[-1]) + 1
    counts = np.bincount(owner * states + stage.source[edges], minlength=len(mask) * states)
    first = np.cumsum(counts) - counts
    at = region * states + state
    n_edges = counts[at]
    row = np.repeat(np.arange(len(at)), n_edges)
    within = np.arange(len(row)) - np.repeat(np.cumsum(n_edges) - n_edges, n_edges)
    return row, edges[first[at][row] + within]
