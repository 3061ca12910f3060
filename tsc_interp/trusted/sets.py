"""Represents sets of inputs as paths of a trellis, many sets at once.

A set is one mask of edges per stage: its paths are those through chosen edges only. It can say how
many paths it has, their labels and letters, and enumerate them.

"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.trusted.table import Index, Stage, Trellis

Mask = NDArray[np.bool_]


class Layout:
    """One stage with its edges in a rectangle, `[group slot]`: a group per (source, target).

    Slots without an edge have the number of edges. `incoming [target most]` has the groups that
    lead to each state, padded with the number of groups; `outgoing` those that leave each.
    """

    def __init__(self, stage: Stage) -> None:
        order = np.lexsort((stage.target, stage.source))
        source, target = stage.source[order], stage.target[order]
        new = (np.diff(source, prepend=-1) != 0) | (np.diff(target, prepend=-1) != 0)
        self.edge = _padded(np.cumsum(new) - 1, order, len(stage))
        self.source, self.target = source[new], target[new]
        groups = np.arange(len(self.source))
        self.incoming = _padded(self.target, groups, len(groups))
        self.outgoing = _padded(self.source, groups, len(groups))


def slots(trellis: Trellis) -> int:
    """Slots of the rectangles of all stages, without making them: at least the edges."""
    total = 0
    for stage in trellis.stages:
        pairs = stage.source * (int(stage.target.max()) + 1) + stage.target
        sizes = np.unique(pairs, return_counts=True)[1]
        total += len(sizes) * int(sizes.max())
    return total


def _padded(row: Index, item: Index, nothing: int) -> Index:
    """`[row most]`: the items of each row from the left, then `nothing`."""
    by_row = np.argsort(row, kind="stable")
    sizes = np.bincount(row)
    column = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    padded = np.full((len(sizes), int(sizes.max())), nothing, dtype=np.int64)
    padded[row[by_row], column] = item[by_row]
    return padded


class Sets:
    """Sets of paths of one trellis: those through the edges `masks[stage] [set edge]`."""

    def __init__(
        self, trellis: Trellis, masks: Sequence[Mask], layouts: Sequence[Layout] | None = None
    ) -> None:
        self.trellis = trellis
        self.layouts = layouts or [Layout(stage) for stage in trellis.stages]
        self.masks = self._on_paths(masks)

    @classmethod
    def whole(cls, trellis: Trellis) -> Sets:
        """One set of all paths."""
        return cls(trellis, [np.ones((1, len(stage)), dtype=bool) for stage in trellis.stages])

    def __len__(self) -> int:
        return len(self.masks[0])

    def __getitem__(self, chosen: Any) -> Sets:
        return Sets(self.trellis, [mask[chosen] for mask in self.masks], self.layouts)

    def _on_paths(self, masks: Sequence[Mask]) -> list[Mask]:
        """The edges that lie on a path of chosen edges from the first stage to the last."""
        kept = list(masks)
        reached: Mask = np.ones((len(kept[0]), 1), dtype=bool)
        for number, (stage, layout) in enumerate(
            zip(self.trellis.stages, self.layouts, strict=True)
        ):
            kept[number] = kept[number] & reached[:, stage.source]
            reached = _some(_some(kept[number], layout.edge), layout.incoming)
        for number in reversed(range(len(kept))):
            stage, layout = self.trellis.stages[number], self.layouts[number]
            kept[number] = kept[number] & reached[:, stage.target]
            reached = _some(_some(kept[number], layout.edge), layout.outgoing)
        return kept

    @property
    def has_paths(self) -> Mask:
        return np.asarray(self.masks[0].any(1))

    def counts(self) -> list[int]:
        """How many paths each set has."""
        ways: NDArray[Any] = np.ones((len(self), 1), dtype=object)
        for mask, layout in zip(self.masks, self.layouts, strict=True):
            edges = _spread(mask, layout.edge, False).sum(2)
            ways = _spread(ways[:, layout.source] * edges, layout.incoming, 0).sum(2)
        return [int(number) for number in ways.sum(1)]

    def labels(self) -> Index:
        """The label that all paths of a set have; -1 where they have several, or there are none."""
        return _only(self.masks[self.trellis.label_stage], self.trellis.label)

    def letters_at(self, place: int) -> Index:
        """The letter that all paths of a set have at a place, or -1."""
        for at, letter in self.trellis.fixed:
            if at == place:
                return np.where(self.masks[0].any(1), letter, -1)
        number, column = self.trellis.place_of[place]
        return _only(self.masks[number], self.trellis.stages[number].letters[:, column])

    def paths(self) -> tuple[Index, Index, Index]:
        """Every path of every set: the set, its letters `[path place]`, and its label."""
        of, state = np.arange(len(self)), np.zeros(len(self), dtype=np.int64)
        letters, label = np.zeros((len(self), self.trellis.length), dtype=np.int64), state
        for place, letter in self.trellis.fixed:
            letters[:, place] = letter
        for number, (stage, mask) in enumerate(zip(self.trellis.stages, self.masks, strict=True)):
            path, edge = np.nonzero(mask[of] & (stage.source == state[:, None]))
            of, letters, label, state = of[path], letters[path], label[path], stage.target[edge]
            letters[:, list(stage.places)] = stage.letters[edge]
            label = self.trellis.label[edge] if number == self.trellis.label_stage else label
        return of, letters, label

    def first(self) -> tuple[int, ...]:
        """The first path of all sets in the order of the alphabet."""
        remaining, chosen = self, dict(self.trellis.fixed)
        for place in range(self.trellis.length):
            if place in chosen:
                continue
            number, column = self.trellis.place_of[place]
            letters = self.trellis.stages[number].letters[:, column]
            chosen[place] = int(letters[remaining.masks[number].any(0)].min())
            masks = list(remaining.masks)
            masks[number] = masks[number] & (letters == chosen[place])
            remaining = Sets(self.trellis, masks, self.layouts)
            remaining = remaining[remaining.has_paths]
        return tuple(chosen[place] for place in range(self.trellis.length))

    def used(self, letters: int) -> Mask:
        """`[set place letter]`: which letters stand where in some path."""
        present = np.zeros((len(self), self.trellis.length, letters), dtype=bool)
        for place, letter in self.trellis.fixed:
            present[:, place, letter] = True
        for stage, mask in zip(self.trellis.stages, self.masks, strict=True):
            rows, edges = np.nonzero(mask)
            for column, place in enumerate(stage.places):
                present[rows, place, stage.letters[edges, column]] = True
        return present

    @property
    def slots(self) -> int:
        """Numbers in one table of a sweep, for each set and row."""
        return sum(layout.edge.size for layout in self.layouts)

    @cached_property
    def rectangles(self) -> list[Mask]:
        """`[set group slot]` per stage: the edges of each set."""
        pairs = zip(self.masks, self.layouts, strict=True)
        return [_spread(mask, layout.edge, False) for mask, layout in pairs]


def _spread(values: NDArray[Any], places: Index, nothing: Any) -> NDArray[Any]:
    """`values [set item]` at these places `[row most]`, `nothing` where there is none."""
    column = np.full((len(values), 1), nothing, dtype=values.dtype)
    return np.concatenate([values, column], axis=1)[:, places]


def _some(flags: Mask, places: Index) -> Mask:
    """Whether one of the items of each row is set: `[set row]`."""
    return np.asarray(_spread(flags, places, False).any(2))


def _only(mask: Mask, values: Index) -> Index:
    """The one value of all chosen edges, or -1: `[set]`."""
    most = np.iinfo(np.int64).max
    low = np.where(mask, values, most).min(1)
    return np.where(low == np.where(mask, values, -1).max(1), low, -1)
