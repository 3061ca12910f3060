"""Trellises as searches and tasks use them: edges in groups, single inputs, and how they are made.

What has to be trusted of a trellis is in `tsc_interp.trusted.table`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.trusted import table
from tsc_interp.trusted.table import Index as Index
from tsc_interp.trusted.table import edge_order as edge_order
from tsc_interp.trusted.table import row_numbers as row_numbers
from tsc_interp.trusted.table import row_starts


class Grouped:
    """The edges of a stage grouped by (source, target), and the groups by target.

    Edges are in order of source and target, so a group is a slice. `reduceat` over `edge_starts`
    gives a number per group, and over `source_starts` one per source. For targets the groups are
    first brought into the order `by_target`, then cut at `target_starts`.
    """

    def __init__(self, source: Index, target: Index) -> None:
        self.edge_starts = row_starts(source, target)
        self.group_of = np.repeat(
            np.arange(len(self.edge_starts)), np.diff(self.edge_starts, append=len(source))
        )
        self.source, self.target = source[self.edge_starts], target[self.edge_starts]
        self.source_starts = row_starts(self.source)
        self.by_target = np.argsort(self.target, kind="stable")
        self.target_starts = row_starts(self.target[self.by_target])
        self.single = len(self.edge_starts) == len(source)

    def of_edges(self, ufunc: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        """`[... edge]` to `[... group]`."""
        if self.single:
            return values
        return np.asarray(ufunc.reduceat(values, self.edge_starts, axis=-1))

    def to_targets(self, ufunc: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        """`[... group]` to `[... state after]`."""
        if len(self.target_starts) == len(self.target):
            return values[..., self.by_target]
        return np.asarray(ufunc.reduceat(values[..., self.by_target], self.target_starts, axis=-1))

    def to_sources(self, ufunc: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        """`[... group]` to `[... state before]`."""
        if len(self.source_starts) == len(self.source):
            return values
        return np.asarray(ufunc.reduceat(values, self.source_starts, axis=-1))


@dataclass(frozen=True, eq=False)
class Stage(table.Stage):
    """Edges in order of source, then target, then letters."""

    @cached_property
    def symbols(self) -> tuple[Index, Index]:
        """The different rows of letters `[symbol k]`, and the symbol of each edge."""
        if not self.places:
            return self.letters[:1], np.zeros(len(self), dtype=np.int64)
        _, first, of_edge = np.unique(
            row_numbers(self.letters.T), return_index=True, return_inverse=True
        )
        return self.letters[first], of_edge

    @cached_property
    def grouped(self) -> Grouped:
        """The edges by source and target."""
        return Grouped(self.source, self.target)

    def located(self, columns: Sequence[int], source: Index, letters: Index) -> Index:
        """The edges with these sources and letters in these columns; -1 where there is none."""
        rows = np.column_stack([self.source, self.letters[:, list(columns)]])
        both = np.concatenate([rows, np.column_stack([source, letters])])
        known, of_row = np.unique(row_numbers((both + 1).T), return_inverse=True)
        edge = np.full(len(known), -1)
        edge[of_row[: len(rows)]] = np.arange(len(rows))
        return np.asarray(edge[of_row[len(rows) :]])


@dataclass(frozen=True, eq=False)
class Trellis(table.Trellis):
    """Inputs of `length` letters, as the paths through stages."""

    stages: tuple[Stage, ...]

    @property
    def every(self) -> tuple[NDArray[np.bool_], ...]:
        """All edges, `[1 edge]` per stage."""
        return tuple(np.ones((1, len(stage)), dtype=bool) for stage in self.stages)

    def path(self, letters: Index) -> list[int] | None:
        """The edge of each stage that one input takes, or None where it is no path."""
        edges, state = [], 0
        if any(letters[place] != letter for place, letter in self.fixed):
            return None
        for stage in self.stages:
            placed = (stage.letters == letters[list(stage.places)]).all(1)
            matching = np.flatnonzero(placed & (stage.source == state))
            if not len(matching):
                return None
            edges.append(int(matching[0]))
            state = int(stage.target[matching[0]])
        return edges

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its inputs and labels, which claims about them name."""
        content = hashlib.sha256(repr((self.length, self.fixed, self.label_stage)).encode())
        content.update(np.ascontiguousarray(self.label, dtype=np.int64).tobytes())
        for stage in self.stages:
            content.update(repr((stage.places, stage.letters.shape)).encode())
            for array in (stage.source, stage.target, stage.letters):
                content.update(np.ascontiguousarray(array, dtype=np.int64).tobytes())
        return content.hexdigest()

    def labels_of(self, rows: Index) -> Index:
        """The label of each input `[input place]`; -1 where it is no path."""
        state, labels = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        found = np.ones(len(rows), dtype=bool)
        for place, letter in self.fixed:
            found &= rows[:, place] == letter
        for number, stage in enumerate(self.stages):
            edges = stage.located(range(len(stage.places)), state, rows[:, list(stage.places)])
            found &= edges >= 0
            state = np.where(found, stage.target[edges], 0)
            if number == self.label_stage:
                labels = self.label[edges]
        return np.where(found, labels, -1)

    def label_of(self, letters: Index) -> int | None:
        """The label of one input, or None where it is no path."""
        edges = self.path(letters)
        return None if edges is None else int(self.label[edges[self.label_stage]])


def make_stage(places: tuple[int, ...], source: Index, target: Index, letters: Index) -> Stage:
    """A stage with its edges brought in order; see `edge_order`."""
    order = edge_order(source, target, letters)
    return Stage(places, source[order], target[order], letters[order])


def letter_stage(place: int, target: Index) -> Stage:
    """The stage of one place where any letter may stand: `target [state letter]` is where to."""
    states, n_letters = target.shape
    source = np.repeat(np.arange(states), n_letters)
    letters = np.tile(np.arange(n_letters), states)[:, None]
    return make_stage((place,), source, target.reshape(-1), letters)
