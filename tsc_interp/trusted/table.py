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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.trusted.errors import UsageError

Index = NDArray[np.int64]
Table = TypeVar("Table", bound="Trellis")


def row_starts(*columns: Index) -> Index:
    """Where rows differ from the row before."""
    changes = np.ones(len(columns[0]), dtype=bool)
    changes[1:] = False
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


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
    def by_letters(self) -> Index:
        """The edges in order of source, then letters."""
        return np.argsort(row_numbers((self.source, *self.letters.T)))


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
    def labels(self) -> tuple[int, ...]:
        """The answers of the last nodes."""
        return tuple(sorted(set(self.label.tolist())))

    @property
    def n_edges(self) -> int:
        """The number of edges."""
        return sum(map(len, self.stages))

    def of_label(self, label: int) -> Self:
        """The inputs with this label, states with the same continuations merged.

        Example:
            >>> from tsc_interp.tasks import Maximum, trellis_of
            >>> trellis = trellis_of(Maximum(), n_letters=4, length=3)
            >>> trellis.sizes, trellis.of_label(2).sizes
            ((1, 4, 4, 4), (1, 2, 2, 1))
        """
        return self.of_labels([label])

    def of_labels(self, labels: Sequence[int]) -> Self:
        """The inputs with one of these labels, states with the same continuations merged.

        Raises:
            UsageError: where no input has one of these labels.
        """
        kept = [np.ones(len(stage), dtype=bool) for stage in self.stages]
        kept[self.label_stage] = (self.label[:, None] == np.array(labels)).any(1)
        return self.where(kept)

    def where(self, kept: list[NDArray[np.bool_]]) -> Self:
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


def _merged(trellis: Table, kept: list[NDArray[np.bool_]]) -> Table:
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
        starts = row_starts(source)
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
        stages.insert(0, type(stage)(stage.places, sources, rows[:, -1], rows[:, :-2]))
        if number == trellis.label_stage:
            labels = rows[:, -2]
    made = tuple(stages)
    return type(trellis)(trellis.length, trellis.fixed, made, trellis.label_stage, labels)


def edge_order(source: Index, target: Index, letters: Index) -> Index:
    """By source, then target, then letters from the first place on."""
    return np.lexsort((*letters.T[::-1], target, source))
