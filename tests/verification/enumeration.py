"""Counting the plain way, every count vector up to a length: the oracle of regions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

import tsc_interp as tsc
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.counting.costs import EXACT_BUDGET
from tsc_interp.verification.counting.tally import Integers, Side, Tally
from tsc_interp.verification.labels import all_supports, full_counts
from tsc_interp.verification.search.ways import OPEN, TaskWays

# Small enough for a chunk's intermediate arrays to stay in the processor's cache.
CHUNK = 1 << 11


def enumerate_counts(model: CountModel, max_length: int) -> Tally:
    """Every count vector of at most `max_length` letters, one by one."""
    config = model.config
    tally = Tally(max_length, config.n_letters, model.multiclass)
    model.exact_work = EXACT_BUDGET
    ways, pascal = TaskWays(model), PascalRows()
    for letters in all_supports(config, max_length):
        for vectors in positive_vectors(len(letters), max_length):
            found = ways.decided(letters, vectors)
            for way, side in zip([*range(ways.wrong), OPEN], tally.sides, strict=True):
                record(model, letters, vectors[found == way], side, pascal)
    tally.out_of_budget = model.exact_work <= 0
    return tally


def same_counts(one: Tally, other: Tally) -> bool:
    """Whether two tallies agree on every number and every shortest string."""
    return all(
        (a.vectors, a.strings, a.shortest) == (b.vectors, b.strings, b.shortest)
        for a, b in zip(one.sides, other.sides, strict=True)
    )


def verify_both_ways(checkpoint: Checkpoint, max_length: int, **options: Any) -> tsc.Verdict:
    """`tsc.verify`, after its counts were compared with those of enumeration."""
    verdict = tsc.verify(checkpoint, max_length, **options)
    assert isinstance(verdict, tsc.Verdict)
    assert same_counts(verdict.tally, enumerate_counts(CountModel(checkpoint), max_length))
    return verdict


# -- vectors, and how many strings stand behind them -------------------------------------------


def record(
    model: CountModel,
    letters: tuple[int, ...],
    vectors: Integers,
    side: Side,
    pascal: PascalRows,
) -> None:
    if not len(vectors):
        return
    lengths = vectors.sum(axis=1)
    for length in np.unique(lengths).tolist():
        chosen = vectors[lengths == length]
        side.vectors[length] += len(chosen)
        side.strings[length] += pascal.strings(length, chosen)
    shortest = vectors[lengths == lengths.min()]
    first = shortest[np.lexsort(tuple(-shortest.T[::-1]))[0]]
    side.offer(full_counts(model.config, letters, first).tolist())


class PascalRows:
    """Σ of multinomial coefficients over vectors of one length.

    The coefficient of (i, j, rest) is multinomial(i + j, rest) · C(i + j, i): vectors that share
    all but their first two letters share the first factor, and rows of Pascal's triangle hold the
    second.
    """

    def __init__(self) -> None:
        self._rows: dict[int, list[int]] = {}

    def row(self, m: int) -> list[int]:
        if m not in self._rows:
            row = [1]
            for i in range(m):
                row.append(row[-1] * (m - i) // (i + 1))
            self._rows[m] = row
        return self._rows[m]

    def strings(self, length: int, vectors: Integers) -> int:
        if vectors.shape[1] == 1:
            return 1
        vectors = vectors[np.lexsort(tuple(vectors.T[2:])) if vectors.shape[1] > 2 else slice(None)]
        rest = vectors[:, 2:]
        starts = np.flatnonzero(np.r_[True, (rest[1:] != rest[:-1]).any(axis=1)]).tolist()
        firsts = vectors[:, 0].tolist()
        total = 0
        for start, end in zip(starts, [*starts[1:], len(firsts)], strict=True):
            others = rest[start].tolist()
            pair = length - sum(others)
            arrangements, left = 1, length
            for count in others:
                arrangements *= self.row(left)[count]
                left -= count
            total += arrangements * sum(map(self.row(pair).__getitem__, firsts[start:end]))
        return total


def positive_vectors(size: int, max_length: int) -> Iterator[Integers]:
    """All vectors of `size` positive counts with sum ≤ max_length, in chunks, by length."""
    pending: list[Integers] = []
    waiting = 0
    for block in _blocks(size, max_length):
        pending.append(block)
        waiting += len(block)
        if waiting >= CHUNK:
            joined = np.concatenate(pending)
            whole = waiting - waiting % CHUNK
            yield from (joined[start : start + CHUNK] for start in range(0, whole, CHUNK))
            pending, waiting = [joined[whole:]], waiting - whole
    if waiting:
        yield np.concatenate(pending)


def _blocks(size: int, max_length: int) -> Iterator[Integers]:
    """Blocks of one length each: up to three letters vary at once, more are looped over."""
    pairs = _pairs_by_sum(max_length) if size >= 3 else np.zeros((0, 2), dtype=np.int64)
    for length in range(size, max_length + 1):
        if size == 1:
            yield np.array([[length]])
        elif size == 2:
            first = np.arange(1, length)
            yield np.stack([first, length - first], axis=1)
        else:
            for rest in _compositions(size - 3, length - 3):
                left = length - sum(rest)
                chosen = pairs[: comb(left - 1, 2)]
                block = np.empty((len(chosen), size), dtype=np.int64)
                block[:, :2] = chosen
                block[:, 2] = left - chosen.sum(axis=1)
                block[:, 3:] = rest
                yield block


def _pairs_by_sum(max_length: int) -> Integers:
    """Pairs of positive numbers, smaller sums first, so that 'sum < n' is a prefix."""
    sums = np.repeat(np.arange(2, max_length), np.arange(1, max_length - 1))
    first = np.concatenate([np.arange(1, total) for total in range(2, max_length)] or [sums])
    return np.stack([first, sums - first], axis=1)


def _compositions(parts: int, largest_sum: int) -> Iterator[tuple[int, ...]]:
    """All tuples of `parts` positive numbers with at most this sum."""
    for cuts in combinations(range(1, largest_sum + 1), parts):
        yield tuple(b - a for a, b in zip((0, *cuts), cuts, strict=False))
