"""A trellis: all inputs of one length as the paths through stages, each with its label.

A stage places letters at one or several places of the input. Its edges lead from the states before
it to the states after it, and each edge says which letters it places. Every path is one input, and
the edge a path takes through one stage (`label_stage`) tells its label. Fixed letters (a `+`, a
separator) belong to no stage.

    running maximum of two letters over three places: one place per stage, states 0 and 1
    ten-digit addition: stage j places a_j, b_j and the written digit s_j; its states are the carry

There is no model in this file: only letters by index, places, and states.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.trusted.errors import UsageError

Index = NDArray[np.int64]


def _starts(*columns: Index) -> Index:
    """Where rows differ from the row before."""
    changes = np.ones(len(columns[0]), dtype=bool)
    changes[1:] = False
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


class Grouped:
    """The edges of a stage grouped by (source, target), and the groups by target.

    Edges are in order of source and target, so a group is a slice. `reduceat` over `edge_starts`
    gives a number per group, and over `source_starts` one per source. For targets the groups are
    first brought into the order `by_target`, then cut at `target_starts`.
    """

    def __init__(self, source: Index, target: Index) -> None:
        self.edge_starts = _starts(source, target)
        self.group_of = np.repeat(
            np.arange(len(self.edge_starts)), np.diff(self.edge_starts, append=len(source))
        )
        self.source, self.target = source[self.edge_starts], target[self.edge_starts]
        self.source_starts = _starts(self.source)
        self.by_target = np.argsort(self.target, kind="stable")
        self.target_starts = _starts(self.target[self.by_target])
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
class Stage:
    """Edges in order of source, then target, then letters.

    places  where the stage's letters stand, k of them
    source  `[edge]` state before
    target  `[edge]` state after
    letters `[edge k]` letters by index, one per place
    """

    places: tuple[int, ...]
    source: Index
    target: Index
    letters: Index

    def __len__(self) -> int:
        return len(self.source)

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
    def by_letters(self) -> Index:
        """The edges in order of source, then letters."""
        return np.argsort(row_numbers((self.source, *self.letters.T)))

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
class Trellis:
    """Inputs of `length` letters. Boundary 0 has one state; states are numbered per boundary.

    Raises:
        UsageError: where two edges of a state place the same letters (two paths would be one
            input), a place belongs to no stage or to several, or a state has no edge in or out.
    """

    length: int
    fixed: tuple[tuple[int, int], ...]
    stages: tuple[Stage, ...]
    label_stage: int
    label: Index
    """`[edge]` of the label stage."""

    def __post_init__(self) -> None:
        places = [place for place, _ in self.fixed]
        places += [place for stage in self.stages for place in stage.places]
        least = [letter for _, letter in self.fixed]
        least += [int(stage.letters.min(initial=0)) for stage in self.stages]
        if min(least) < 0:
            raise UsageError(f"letters of a trellis are indices from 0, got {min(least)}")
        if sorted(places) != list(range(self.length)):
            raise UsageError(
                f"the stages and fixed letters of a trellis must place each of {self.length} "
                f"letters once; they place {sorted(places)}"
            )
        before = 1
        for number, stage in enumerate(self.stages):
            if not len(stage) or _missing(stage.source, before):
                raise UsageError(f"states before stage {number} of a trellis lack edges")
            rows = np.sort(row_numbers((stage.source, *stage.letters.T)))
            if (rows[1:] == rows[:-1]).any():
                raise UsageError(f"stage {number} has two edges with the same letters and source")
            before = int(stage.target.max()) + 1
            if _missing(stage.target, before):
                raise UsageError(f"a state after stage {number} of a trellis is never reached")
        if len(self.label) != len(self.stages[self.label_stage]):
            raise UsageError("a trellis needs one label per edge of its label stage")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of states at each boundary, one more than there are stages."""
        return (1, *(int(stage.target.max()) + 1 for stage in self.stages))

    @cached_property
    def place_of(self) -> dict[int, tuple[int, int]]:
        """For each free place its stage, and its column there."""
        return {
            place: (number, column)
            for number, stage in enumerate(self.stages)
            for column, place in enumerate(stage.places)
        }

    @property
    def every(self) -> tuple[NDArray[np.bool_], ...]:
        """All edges, `[1 edge]` per stage."""
        return tuple(np.ones((1, len(stage)), dtype=bool) for stage in self.stages)

    @property
    def labels(self) -> tuple[int, ...]:
        """The answers of the last nodes."""
        return tuple(sorted(set(self.label.tolist())))

    @property
    def n_edges(self) -> int:
        """The number of edges."""
        return sum(map(len, self.stages))

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

    def of_label(self, label: int) -> Trellis:
        """The inputs with this label, states with the same continuations merged.

        Example:
            >>> from tsc_interp.tasks import Maximum, trellis_of
            >>> trellis = trellis_of(Maximum(), n_letters=4, length=3)
            >>> trellis.sizes, trellis.of_label(2).sizes
            ((1, 4, 4, 4), (1, 2, 2, 1))
        """
        return self.of_labels([label])

    def of_labels(self, labels: Sequence[int]) -> Trellis:
        """The inputs with one of these labels, states with the same continuations merged.

        Raises:
            UsageError: where no input has one of these labels.
        """
        kept = [np.ones(len(stage), dtype=bool) for stage in self.stages]
        kept[self.label_stage] = (self.label[:, None] == np.array(labels)).any(1)
        return self.where(kept)

    def where(self, kept: list[NDArray[np.bool_]]) -> Trellis:
        """The inputs all of whose edges are kept, `[edge]` per stage; equal states merged.

        Raises:
            UsageError: where there is none.
        """
        return _merged(self, _trimmed(self, kept))


def row_numbers(columns: Sequence[Index] | Index) -> Index:
    """One whole number for each row, in the order of the rows (of numbers from 0)."""
    numbers = columns[0]
    for column in columns[1:]:
        size = int(column.max()) + 1
        if int(numbers.max()) * size >= 1 << 62:
            _, numbers = np.unique(numbers, return_inverse=True)
        numbers = numbers * size + column
    return numbers


def _missing(states: Index, count: int) -> bool:
    """Whether some state below `count` does not occur, or another one does."""
    if states.min() < 0 or states.max() >= count or count > len(states):
        return True  # before a table of `count` entries is made
    return not np.bincount(states, minlength=count).all()


def _trimmed(trellis: Trellis, kept: list[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """Edges that lie on a path of kept edges."""
    reached = np.ones(1, dtype=bool)
    for stage, mask, size in zip(trellis.stages, kept, trellis.sizes[1:], strict=True):
        mask &= reached[stage.source]
        reached = np.zeros(size, dtype=bool)
        reached[stage.target[mask]] = True
    for stage, mask, size in reversed(
        list(zip(trellis.stages, kept, trellis.sizes[:-1], strict=True))
    ):
        mask &= reached[stage.target]
        reached = np.zeros(size, dtype=bool)
        reached[stage.source[mask]] = True
    if not all(mask.any() for mask in kept):
        raise UsageError("no input of this length has that label, or those letters")
    return kept


def _merged(trellis: Trellis, kept: list[NDArray[np.bool_]]) -> Trellis:
    """From the end: states whose edges place the same letters and lead to the same states.

    In the label stage they must have the same labels, too.
    """
    merged = np.zeros(trellis.sizes[-1], dtype=np.int64)
    stages: list[Stage] = []
    for number in reversed(range(len(trellis.stages))):
        stage, mask, size = trellis.stages[number], kept[number], trellis.sizes[number]
        label = trellis.label if number == trellis.label_stage else np.zeros_like(stage.target)
        edges = stage.by_letters[mask[stage.by_letters]]
        source, target = stage.source[edges], merged[stage.target[edges]]
        rows = np.column_stack([stage.letters[edges], label[edges], target])
        starts = _starts(source)
        ends = [*starts[1:].tolist(), len(source)]
        content, width = rows.tobytes(), rows[:1].nbytes
        names: dict[bytes, int] = {}
        parts: list[Index] = []
        states: list[int] = []
        for start, stop in zip(starts.tolist(), ends, strict=True):
            key = content[start * width : stop * width]
            if key not in names:
                names[key] = len(parts)
                parts.append(rows[start:stop])
            states.append(names[key])
        merged = np.full(size, -1, dtype=np.int64)
        merged[source[starts]] = states
        sources = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        rows = np.concatenate(parts)
        order = edge_order(sources, rows[:, -1], rows[:, :-2])
        sources, rows = sources[order], rows[order]
        stages.insert(0, Stage(stage.places, sources, rows[:, -1], rows[:, :-2]))
        if number == trellis.label_stage:
            labels = rows[:, -2]
    return Trellis(trellis.length, trellis.fixed, tuple(stages), trellis.label_stage, labels)


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


def edge_order(source: Index, target: Index, letters: Index) -> Index:
    """By source, then target, then letters from the first place on."""
    return np.lexsort((*letters.T[::-1], target, source))
