"""Boxes of strings, many at once: a set of letters for every free place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.verification.ordered_tables import OrderedTables
from tsc_interp.verification.ordered_tasks import Sets

Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

RIGHT = -1
UNDECIDED = -2


@dataclass(frozen=True)
class Boxes:
    """`sets [box place letter]`; the token that reads and the class of all strings, `[box]`."""

    sets: Mask
    reading: Index
    label: Index

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, chosen: Any) -> Boxes:
        return Boxes(self.sets[chosen], self.reading[chosen], self.label[chosen])

    def with_sets(self, sets: Mask) -> Boxes:
        return Boxes(sets, self.reading, self.label)

    def without_empty(self) -> Boxes:
        return self[self.holds_strings()]

    def holds_strings(self) -> Mask:
        return np.asarray((self.sets.sum(2) > 0).all(1))

    def sizes(self) -> list[int]:
        """How many strings each holds, as Python's whole numbers."""
        per_place = self.sets.sum(2)
        if per_place.shape[1] * np.log2(max(self.sets.shape[2], 2)) < 62:
            return [int(size) for size in per_place.prod(1, dtype=np.int64)]
        return [int(np.prod(row.astype(object))) for row in per_place]

    def is_single(self) -> Mask:
        return np.asarray((self.sets.sum(2) == 1).all(1))

    def full_sets(self, i: int, tables: OrderedTables) -> list[list[int]]:
        """One box as sorted letter indices for every place, the reading letter's too."""
        found = [np.flatnonzero(row).tolist() for row in self.sets[i]]
        return [*found, [int(self.reading[i])]] if tables.reads_last else found


@dataclass(frozen=True)
class Decided:
    """Boxes and who wins in them: `RIGHT`, `UNDECIDED`, or the class that beats the label."""

    boxes: Boxes
    instead: Index


@dataclass(frozen=True)
class Step:
    """One round of a search: what it settled, what it cut, and single strings it could not tell."""

    decided: list[Decided]
    waiting: Boxes
    doubtful: Boxes


def join(parts: Sequence[Boxes], like: Boxes) -> Boxes:
    parts = [part for part in parts if len(part)] or [like[:0]]
    return Boxes(
        np.concatenate([part.sets for part in parts]),
        np.concatenate([part.reading for part in parts]),
        np.concatenate([part.label for part in parts]),
    )


def from_partition(pieces: Iterable[tuple[int, Sets]], tables: OrderedTables) -> Boxes:
    """Label-constant boxes as arrays, one for each letter that reads."""
    sets, reading, labels = [], [], []
    letters = tables.letters
    for label, piece in pieces:
        mask = np.zeros((len(piece), letters), dtype=bool)
        for place, one in enumerate(piece):
            mask[place, list(one)] = True
        for reader in sorted(piece[-1]) if tables.reads_last else (0,):
            sets.append(mask[: tables.free])
            reading.append(reader)
            labels.append(label)
    shape = (len(sets), tables.free, letters)
    return Boxes(
        np.array(sets, dtype=bool).reshape(shape),
        np.array(reading, dtype=np.int64),
        np.array(labels, dtype=np.int64),
    )


def split_at(boxes: Boxes, place: Index, part: Mask) -> Boxes:
    """Each box in two: `part [box letter]` of the set at `place [box]`, and the rest of it."""
    rows = np.arange(len(boxes))
    one, other = boxes.sets.copy(), boxes.sets.copy()
    one[rows, place] &= part
    other[rows, place] &= ~part
    both = join([boxes.with_sets(one), boxes.with_sets(other)], boxes)
    return both.without_empty()
