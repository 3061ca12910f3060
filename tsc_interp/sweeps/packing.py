"""From a sweep to its tasks: rows get their numbers, and those still missing are packed.

A row's number is its place in the grids, part after part, cell after cell, seed after seed; a model
that came before keeps its earlier number. So numbers stay when parts are added at the end.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.sweeps.definition import SweepOptions, SweepPart
from tsc_interp.training.config import RunConfig, TrainingConfig
from tsc_interp.training.engine import shape_of

ENSEMBLE = 128
"""Models in a task: more train no faster, and are lost together when a worker dies."""
_FEWEST = 16
_TASKS_PER_PROCESS = 4
_PARAMETERS = 2_000_000
"""In one ensemble: a few copies of them, and what attention needs for a batch, fit in memory."""

_KEY_VERSION = "1"

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Piece:
    """Models of one cell: their rows, and the seed of each."""

    label: str
    config: RunConfig
    rows: Sequence[int]
    """A range where they are all of the cell, which may be millions."""
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Task:
    """One ensemble: models of one shape, trained alike."""

    pieces: tuple[Piece, ...]
    options: SweepOptions

    @property
    def models(self) -> int:
        return sum(len(piece.rows) for piece in self.pieces)

    @property
    def name(self) -> str:
        """The first and the last row, and a key of all that decides the result."""
        digest = hashlib.sha256(f"{_KEY_VERSION} {self.options.to_json()}".encode())
        for piece in self.pieces:
            digest.update(f"\0{piece.config.key()} {piece.rows} {piece.seeds}".encode())
        rows = [row for piece in self.pieces for row in piece.rows]
        return f"{min(rows):09d}-{max(rows):09d}-{digest.hexdigest()[:16]}"


def all_pieces(parts: Iterable[SweepPart]) -> list[Piece]:
    """Every model once, in the order of the rows: a piece for each cell that has new seeds."""
    parts = list(parts)
    keys = {id(cell): cell.config.key() for part in parts for cell in part.cells}
    repeated = Counter(keys[id(cell)] for part in parts for cell in part.cells)
    seen: dict[str, set[int]] = {}
    pieces, row = [], 0
    for part in parts:
        for cell in part.cells:
            key, seeds = keys[id(cell)], part.seeds
            if repeated[key] > 1:  # else nobody need remember: a sweep may have millions of seeds
                earlier = seen.setdefault(key, set())
                seeds = tuple(seed for seed in seeds if seed not in earlier)
                earlier.update(seeds)
            if seeds:
                pieces.append(Piece(cell.label, cell.config, range(row, row + len(seeds)), seeds))
                row += len(seeds)
    return pieces


def total(pieces: Sequence[Piece]) -> int:
    return pieces[-1].rows[-1] + 1 if pieces else 0


def wanted(pieces: Sequence[Piece], parts: Iterable[SweepPart]) -> Flags:
    """Which rows are models of these parts."""
    seeds: dict[str, list[frozenset[int]]] = {}
    for part in parts:
        chosen = frozenset(part.seeds)
        for cell in part.cells:
            seeds.setdefault(cell.config.key(), []).append(chosen)
    flags = np.zeros(total(pieces), dtype=bool)
    for piece in pieces:
        for chosen in seeds.get(piece.config.key(), []):
            if len(chosen) >= len(piece.seeds) and chosen.issuperset(piece.seeds):
                flags[piece.rows[0] : piece.rows[-1] + 1] = True
            else:
                for row, seed in zip(piece.rows, piece.seeds, strict=True):
                    flags[row] |= seed in chosen
    return flags


def pack(
    pieces: Sequence[Piece],
    missing: Flags,
    options: SweepOptions,
    processes: int,
    ensemble: int | None = None,
) -> list[Task]:
    """The missing rows as tasks; cells that can share a training loop share tasks."""
    groups: dict[tuple[ClassifierConfig, TrainingConfig], list[Piece]] = {}
    for piece in pieces:
        places = np.flatnonzero(missing[piece.rows[0] : piece.rows[-1] + 1]).tolist()
        if places:
            remaining = Piece(
                piece.label,
                piece.config,
                tuple(piece.rows[place] for place in places),
                tuple(piece.seeds[place] for place in places),
            )
            key = (shape_of(piece.config.classifier), piece.config.training)
            groups.setdefault(key, []).append(remaining)
    sizes = {key: _size(key[0], int(missing.sum()), processes, ensemble) for key in groups}
    return [
        Task(tuple(part), options)
        for key, group in groups.items()
        for part in _cut(group, sizes[key])
    ]


def _size(shape: ClassifierConfig, models: int, processes: int, ensemble: int | None) -> int:
    """As large as pays, but enough tasks that no core waits long for the last one."""
    if ensemble is not None:
        return ensemble
    parameters = sum(int(np.prod(shape)) for shape in shape.weight_shapes().values())
    even = -(-models // (processes * _TASKS_PER_PROCESS))
    return max(1, min(ENSEMBLE, max(even, _FEWEST), _PARAMETERS // parameters))


def _cut(pieces: Sequence[Piece], most: int) -> Iterator[list[Piece]]:
    """The same models in as few parts as may be, none larger than `most`, and all alike."""
    models = sum(len(piece.rows) for piece in pieces)
    size = -(-models // -(-models // most))
    part: list[Piece] = []
    room = size
    for piece in pieces:
        start = 0
        while start < len(piece.rows):
            end = min(start + room, len(piece.rows))
            part.append(
                Piece(piece.label, piece.config, piece.rows[start:end], piece.seeds[start:end])
            )
            room -= end - start
            start = end
            if room == 0:
                yield part
                part, room = [], size
    if part:
        yield part
