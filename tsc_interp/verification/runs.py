"""Strings behind many boxes of count vectors, summed exactly.

At a fixed length n, and with all letters but the last two fixed, the last two share m letters: b of
one and m - b of the other, C(m, b) ways each. So vectors are kept as *runs* b0..b1 on *rows*
(m, other letters), a run's strings are a difference of two partial sums of a row of Pascal's
triangle, and neighbouring boxes merge into one run. The cost is that of the outline of the region,
not of its volume.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import comb

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.verification.tally import Integers, Side

_COMPACT_AT = 4_000_000


class RunCollector:
    """Collects disjoint boxes of one face; `add_to` turns them into counts per length."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        self.base = limit + 2
        if self.base**size >= 2**61:
            raise UnsupportedError(
                f"{size} letters up to length {limit} have too many count vectors to index; "
                f"ask for a shorter length"
            )
        self._events: list[Integers] = []
        self._held = 0
        self._compact_at = _COMPACT_AT

    def add(self, low: Integers, high: Integers) -> None:
        if self.size == 1:
            # One letter: let the run go along the length itself, on a single row.
            keys, ends = low[:, 0], high[:, 0] + 1
        else:
            keys, ends = self._rows(low, high)
        # One number per event, so that a plain sort puts a start before an end at the same place.
        self._events += [2 * keys, 2 * ends + 1]
        self._held += 2 * len(keys)
        if self._held > self._compact_at:
            self._compact()

    def _rows(self, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Where runs start, and where they have ended, one per box, fixed letters and m."""
        fixed = high[:, :-2] - low[:, :-2] + 1
        pair_low, pair_high = low[:, -2:].sum(axis=1), high[:, -2:].sum(axis=1)
        sizes = np.concatenate([fixed, (pair_high - pair_low + 1)[:, None]], axis=1)
        volumes = sizes.prod(axis=1)
        box = np.repeat(np.arange(len(low)), volumes)
        index = np.arange(len(box)) - np.repeat(volumes.cumsum() - volumes, volumes)
        index, offset = np.divmod(index, sizes[box, -1])
        m = pair_low[box] + offset
        key, used = m.copy(), m.copy()
        for column in range(self.size - 2):
            index, offset = np.divmod(index, sizes[box, column])
            count = low[box, column] + offset
            key = key * self.base + count
            used += count
        start = np.maximum(low[box, -2], m - high[box, -1])
        end = np.minimum(high[box, -2], m - low[box, -1]) + 1
        within = used <= self.limit
        key = key[within] * self.base
        return key + start[within], key + end[within]

    def _compact(self) -> None:
        """Where one run ends and the next begins, both events vanish."""
        events = np.concatenate(self._events)
        self._events = []
        events.sort()
        both = events[1:] >> 1 == events[:-1] >> 1
        kept = np.ones(len(events), dtype=bool)
        kept[1:] &= ~both
        kept[:-1] &= ~both
        self._events = [events[kept]]
        self._held = len(self._events[0])
        self._compact_at = max(_COMPACT_AT, 2 * self._held)

    def add_to(self, side: Side) -> None:
        if not self._events:
            return
        self._compact()
        events = self._events[0] >> 1
        # Sorted and disjoint: events are start, end, start, end, ...
        starts, ends = events[0::2], events[1::2]
        if self.size == 1:
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                for length in range(start, min(end, self.limit + 1)):
                    side.vectors[length] += 1
                    side.strings[length] += 1
            return
        row, start = np.divmod(starts, self.base)
        end = ends - row * self.base
        others = np.empty((len(row), self.size - 2), dtype=np.int64)
        for column in range(self.size - 3, -1, -1):
            row, others[:, column] = np.divmod(row, self.base)
        _sum_strings(side, row, others, start, end)


def _sum_strings(side: Side, m: Integers, others: Integers, start: Integers, end: Integers) -> None:
    """Runs sorted by m: the strings of one are ways to place the others × Σ C(m, b)."""
    extra = others.sum(axis=1)
    lengths = m + extra
    vectors = np.bincount(
        lengths, weights=(end - start).astype(float), minlength=side.max_length + 1
    )
    for length in np.flatnonzero(vectors).tolist():
        side.vectors[length] += int(vectors[length])
    if others.shape[1] <= 1:
        inner = [1] * len(others)
    else:
        inner = [_multinomial(row) for row in others.tolist()]
    bounds = np.flatnonzero(np.r_[True, m[1:] != m[:-1], True]).tolist()
    strings = side.strings
    pascal = [1]
    for first, last in pairwise(bounds):
        pair = int(m[first])
        while len(pascal) <= pair:
            pascal = [1, *map(int.__add__, pascal, pascal[1:]), 1]
        below = [0, *accumulate(pascal)]
        place = [1]
        for more in range(1, int(extra[first:last].max(initial=0)) + 1):
            place.append(place[-1] * (pair + more) // more)
        chosen = slice(first, last)
        for more, ways, b0, b1 in zip(
            extra[chosen].tolist(),
            inner[chosen],
            start[chosen].tolist(),
            end[chosen].tolist(),
            strict=True,
        ):
            strings[pair + more] += place[more] * ways * (below[b1] - below[b0])


def _multinomial(counts: list[int]) -> int:
    ways, total = 1, 0
    for count in counts:
        total += count
        ways *= comb(total, count)
    return ways
