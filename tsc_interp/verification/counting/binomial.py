"""Strings behind many boxes of count vectors, summed exactly in bounded memory.

At a fixed length n, and with all letters but two fixed, those two share m letters: b of one and
m - b of the other, C(m, b) ways each. So vectors are looked at as *runs* b0..b1 on *rows* (m, other
letters); neighbouring boxes merge into one run, and a run's strings are a difference of two partial
sums of row m of Pascal's triangle. The two letters are chosen so that there are few rows. Boxes are
disjoint, so merging saves work and changes no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from math import comb, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsc_interp.verification.counting.costs import Work
from tsc_interp.verification.counting.tally import Integers, Side

Pair = list[int]
"""Two columns."""

ROWS_AT_ONCE = 1 << 18
"""About 40 MB of index arrays."""
_FAR = 300
"""Steps along Pascal's triangle that cost more than computing a coefficient anew."""


def add_boxes(side: Side, low: Integers, high: Integers, work: Work, sign: int = 1) -> None:
    """Add the vectors and strings of disjoint boxes, or take them away (sign = -1)."""
    limit, size = side.max_length, low.shape[1]
    if not len(low):
        return
    if size == 1:
        for start, end in zip(low[:, 0].tolist(), high[:, 0].tolist(), strict=True):
            for length in range(start, min(end, limit) + 1):
                side.vectors[length] += sign
                side.strings[length] += sign
        return
    for pair, member in _pairs(low, high):
        columns = [*(column for column in range(size) if column not in pair), *pair]
        _add_rows(side, low[member][:, columns], high[member][:, columns], work, sign)


def rows_of(low: Integers, high: Integers) -> float:
    """How many rows `add_boxes` makes of these boxes, before any merge."""
    if low.shape[1] == 1 or not len(low):
        return float(len(low))
    return sum(_rows_by(pair, low[member], high[member]) for pair, member in _pairs(low, high))


def _rows_by(pair: Pair, low: Integers, high: Integers) -> float:
    """The same if these two letters make the runs and all others are fixed."""
    sizes = high - low + 1.0
    ends = sizes[:, pair].sum(axis=1) - 1
    return float((sizes.prod(axis=1) / sizes[:, pair].prod(axis=1) * ends).sum())


def _pairs(low: Integers, high: Integers) -> Iterator[tuple[Pair, NDArray[np.bool_]]]:
    """Which two letters make the runs, for all boxes, or for parts of them.

    One pair for all merges best. Boxes along several edges of the support have none that suits them
    all: then each box takes its two most frequent letters, which fixes the rare ones.
    """
    size = low.shape[1]
    top = np.argsort(high, axis=1, kind="stable")[:, -2:]
    group = top.min(axis=1) * size + top.max(axis=1)
    frequent = [([i // size, i % size], group == i) for i in np.flatnonzero(np.bincount(group))]
    frequent_rows = sum(_rows_by(pair, low[member], high[member]) for pair, member in frequent)
    rows = {pair: _rows_by([*pair], low, high) for pair in combinations(range(size), 2)}
    best = min(rows, key=rows.__getitem__)
    yield from [([*best], np.ones(len(low), bool))] if rows[best] <= 4 * frequent_rows else frequent


def _add_rows(side: Side, low: Integers, high: Integers, work: Work, sign: int) -> None:
    limit = side.max_length
    low, high = _split(low.astype(np.int64), high.astype(np.int64))
    # A box, or half of one, may hold only strings that are too long.
    fits = low.sum(axis=1) <= limit
    low, high = low[fits], high[fits]
    fixed = (high - low + 1)[:, :-2].prod(axis=1)
    first = low[:, -2:].sum(axis=1)
    last = np.minimum(high[:, -2:].sum(axis=1), limit - low[:, :-2].sum(axis=1))
    ways = _Ways(side, work, sign)
    for m0, m1 in _slabs(first, last, fixed, limit):
        chosen = np.flatnonzero((first < m1) & (last >= m0))
        rows = fixed[chosen] * (np.minimum(last[chosen] + 1, m1) - np.maximum(first[chosen], m0))
        part = (rows.cumsum() - 1) // ROWS_AT_ONCE
        for group in np.split(chosen, np.flatnonzero(np.diff(part)) + 1):
            ways.add(*_runs(low[group], high[group], m0, m1, limit))
        work.spend_rows(int(rows.sum()))


def _split(low: Integers, high: Integers) -> tuple[Integers, Integers]:
    """Halve boxes along their other letters until one m of a box fits in memory."""
    while True:
        sizes = (high - low + 1)[:, :-2]
        big = np.flatnonzero(sizes.prod(axis=1, dtype=np.float64) > ROWS_AT_ONCE)
        if not len(big):
            return low, high
        axis = sizes[big].argmax(axis=1)
        middle = (low[big, axis] + high[big, axis]) // 2
        upper_low, upper_high = low[big], high[big]
        upper_low[np.arange(len(big)), axis] = middle + 1
        high[big, axis] = middle
        low, high = np.concatenate([low, upper_low]), np.concatenate([high, upper_high])


def _slabs(
    first: Integers, last: Integers, fixed: Integers, limit: int
) -> Iterator[tuple[int, int]]:
    """Ranges of m with about `ROWS_AT_ONCE` rows, each at least one m wide."""
    change = np.zeros(limit + 2, dtype=np.int64)
    np.add.at(change, first, fixed)
    np.add.at(change, last + 1, -fixed)
    rows = change.cumsum()
    start, slab_rows = None, 0
    for m in np.flatnonzero(rows).tolist():
        if start is not None and slab_rows + int(rows[m]) > ROWS_AT_ONCE:
            yield start, m
            start, slab_rows = None, 0
        start = m if start is None else start
        slab_rows += int(rows[m])
    if start is not None:
        yield start, limit + 1


def _runs(
    low: Integers, high: Integers, m0: int, m1: int, limit: int
) -> tuple[Integers, Integers, Integers, Integers]:
    """m, the other letters, start and end of each run, sorted by m, neighbours merged."""
    m_low = np.maximum(low[:, -2:].sum(axis=1), m0)
    m_high = np.minimum(high[:, -2:].sum(axis=1), m1 - 1)
    sizes = np.column_stack([m_high - m_low, (high - low)[:, :-2]]) + 1
    volumes = sizes.prod(axis=1)

    def of_rows(column: Integers) -> Integers:
        return np.repeat(column, volumes)

    index = np.arange(int(volumes.sum())) - of_rows(volumes.cumsum() - volumes)
    index, m = np.divmod(index, of_rows(sizes[:, 0]))
    m += of_rows(m_low)
    row = [m]
    for column in range(low.shape[1] - 2):
        index, count = np.divmod(index, of_rows(sizes[:, 1 + column]))
        row.append(count + of_rows(low[:, column]))
    start = np.maximum(of_rows(low[:, -2]), m - of_rows(high[:, -1]))
    end = np.minimum(of_rows(high[:, -2]), m - of_rows(low[:, -1])) + 1
    within = sum(row) <= limit
    return _merged([column[within] for column in row], start[within], end[within])


def _merged(
    row: list[Integers], start: Integers, end: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Runs by one number each, (row, place): where one ends and another starts, both vanish."""
    table = None
    lows, spans = zip(*((int(c.min()), int(c.max() - c.min()) + 1) for c in row), strict=True)
    width = int(end.max()) + 1
    if prod(spans) * width < 2**61:
        key = np.zeros_like(start)
        for column, lowest, span in zip(row, lows, spans, strict=True):
            key = key * span + (column - lowest)
    else:
        # Long strings of many letters: number the rows there are, in their order.
        table, key = np.unique(np.column_stack(row), axis=0, return_inverse=True)
        key = key.ravel()
    events = np.concatenate([2 * (key * width + start), 2 * (key * width + end) + 1])
    events.sort()
    events >>= 1
    equal = events[1:] == events[:-1]
    kept = np.ones(len(events), dtype=bool)
    kept[1:] &= ~equal
    kept[:-1] &= ~equal
    # Sorted and disjoint: what is left is start, end, start, end, ...
    key, start = np.divmod(events[kept][0::2], width)
    end = events[kept][1::2] - key * width
    rows = _columns(key, lows, spans) if table is None else table[key]
    return rows[:, 0], rows[:, 1:], start, end


def _columns(key: Integers, lows: tuple[int, ...], spans: tuple[int, ...]) -> Integers:
    """The rows that were numbered by `lows` and `spans`."""
    table = np.empty((len(key), len(spans)), dtype=np.int64)
    for column in range(len(spans) - 1, -1, -1):
        key, offset = np.divmod(key, spans[column])
        table[:, column] = lows[column] + offset
    return table


class _Ways:
    """Adds runs to a side: the strings of one are ways to place the others × Σ C(m, b)."""

    def __init__(self, side: Side, work: Work, sign: int) -> None:
        self.side, self.work, self.sign = side, work, sign
        self._place, self._below = Binomial(), PartialSum()

    def add(self, m: Integers, others: Integers, start: Integers, end: Integers) -> None:
        """Runs sorted by m."""
        extra = others.sum(axis=1)
        vectors = np.zeros(self.side.max_length + 1, dtype=np.int64)
        np.add.at(vectors, m + extra, end - start)
        for length in np.flatnonzero(vectors).tolist():
            self.side.vectors[length] += self.sign * int(vectors[length])
        bounds = np.flatnonzero(np.r_[True, m[1:] != m[:-1], True]).tolist() if len(m) else []
        for first, last in pairwise(bounds):
            chosen = slice(first, last)
            self._add_row(
                int(m[first]), extra[chosen].tolist(), others[chosen].tolist(),
                start[chosen].tolist(), end[chosen].tolist(),
            )  # fmt: skip

    def _add_row(
        self, m: int, extra: list[int], others: list[list[int]], start: list[int], end: list[int]
    ) -> None:
        """All runs of one m: first by the number of other letters, then placed among the m."""
        below = self._below.of_row(m, {*start, *end})
        by_extra: dict[int, int] = {}
        for more, row, b0, b1 in zip(extra, others, start, end, strict=True):
            ways = below[b1] - below[b0]
            if len(row) > 1:
                ways *= _multinomial(row)
            by_extra[more] = by_extra.get(more, 0) + ways
        strings = self.side.strings
        bits, placed = 0, min(by_extra)
        places = self._place.at(m + placed, placed)
        for more in sorted(by_extra):
            if more - placed > _FAR:
                placed, places = more, comb(m + more, more)
            while placed < more:
                placed += 1
                places = places * (m + placed) // placed
            counted = places * by_extra[more]
            strings[m + more] += self.sign * counted
            bits += counted.bit_length()
        self.work.spend_sums(len(extra), self._below.steps, m, bits, strings)


class Binomial:
    """C(n, k), reached from the one asked for before by steps along Pascal's triangle."""

    def __init__(self) -> None:
        self.n, self.k, self.value = 0, 0, 1

    def at(self, n: int, k: int) -> int:
        if abs(n - self.n) + abs(k - self.k) > min(k, n - k):
            self.n, self.k, self.value = n, k, comb(n, k)
        while self.n < n:
            self.n += 1
            self.value = self.value * self.n // (self.n - self.k)
        while self.k < k:
            self.value = self.value * (self.n - self.k) // (self.k + 1)
            self.k += 1
        while self.k > k:
            self.value = self.value * self.k // (self.n - self.k + 1)
            self.k -= 1
        while self.n > n:
            self.value = self.value * (self.n - self.k) // self.n
            self.n -= 1
        return self.value


class PartialSum:
    """Σ over j < b of C(m, j), each reached by steps from the nearest one known.

    Known are those of the row asked for before, those of this row so far, and the empty sum.
    """

    def __init__(self) -> None:
        self._known = [_Place(0, 0, 0, 1)]
        self.steps = 0
        """Made for the row asked for last."""

    def of_row(self, m: int, wanted: set[int]) -> dict[int, int]:
        """The partial sums at these b; rows are symmetric, so only their near halves are walked."""
        self.steps = 0
        before = self._known if self._known[0].m <= m else []
        places: list[_Place] = []
        i = 0
        for b in sorted({min(b, m + 1 - b) for b in wanted}):
            start = places[-1] if places else _Place(m, 0, 0, 1)
            steps = b - start.b
            while i < len(before) and steps > 1:
                away = abs(b - before[i].b) + m - before[i].m
                if away < steps:
                    start, steps = before[i], away
                if before[i].b >= b:
                    break
                i += 1
            self.steps += steps
            places.append(_walk(start, m, b))
        self._known = places
        sums, whole = {place.b: place.sum for place in places}, 1 << m
        return {b: sums[b] if b in sums else whole - sums[m + 1 - b] for b in wanted}


class _Place(NamedTuple):
    """In row m of Pascal's triangle: the sum of the terms before b, and the term at b."""

    m: int
    b: int
    sum: int
    term: int


def _walk(start: _Place, to_m: int, to_b: int) -> _Place:
    m, b, total, term = start
    while m < to_m:
        total = 2 * total - term * b // (m - b + 1)
        m += 1
        term = term * m // (m - b)
    while b < to_b:
        total += term
        term = term * (m - b) // (b + 1)
        b += 1
    while b > to_b:
        term = term * b // (m - b + 1)
        total -= term
        b -= 1
    return _Place(m, b, total, term)


def _multinomial(counts: list[int]) -> int:
    ways, total = 1, 0
    for count in counts:
        total += count
        ways *= comb(total, count)
    return ways
