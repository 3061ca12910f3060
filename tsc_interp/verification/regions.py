"""Counting by regions: boxes of count vectors decided at once, only the boundary point by point.

The second implementation of exact counting, sharing with enumeration only the face's arithmetic.
A box whose bounds show one sign (and one label) is right or wrong as a whole; others are cut in
two until few points are left, which are evaluated. Work grows with the surface between right and
wrong, about L² for three letters, not with the L³ / 6 vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, prod

import numpy as np
from numpy.typing import NDArray

from tsc_interp.verification.cutting import halve_counts
from tsc_interp.verification.faces import Faces, count_box_bounds
from tsc_interp.verification.labels import all_faces, full_counts, label_range, labels_of
from tsc_interp.verification.runs import RunCollector
from tsc_interp.verification.search import RIGHT, UNDECIDED, corner_verdicts
from tsc_interp.verification.tally import Integers, Side, Tally, order

Progress = Callable[[int], None]

_BATCH = 4096
_LEAF = 64


def count_regions(faces: Faces, max_length: int, progress: Progress | None = None) -> Tally:
    """The same tally as `enumerate_counts`, for lengths it cannot reach."""
    config = faces.config
    tally = Tally(max_length, config.n_letters, method="regions")
    for letters in all_faces(config, max_length):
        _FaceCount(faces, letters, tally).run(progress)
    return tally


class _FaceCount:
    """One face: a stack of boxes, and collectors of wrong vectors for each way of being wrong."""

    def __init__(self, faces: Faces, letters: tuple[int, ...], tally: Tally) -> None:
        self.faces, self.letters, self.tally = faces, letters, tally
        self.limit = tally.max_length
        self.collectors = [RunCollector(len(letters), self.limit) for _ in tally.sides]

    def run(self, progress: Progress | None) -> None:
        size = len(self.letters)
        low = np.ones((1, size), dtype=np.int64)
        high = np.full((1, size), self.limit - size + 1, dtype=np.int64)
        stack = [(low, high)]
        while stack:
            low, high = stack.pop()
            if len(low) > _BATCH:
                # Depth first: the rest waits, so that memory stays bounded.
                stack.append((low[_BATCH:], high[_BATCH:]))
                low, high = low[:_BATCH], high[:_BATCH]
            cut = self._step(low, high)
            if progress is not None:
                progress(sum(lattice_points(low[~cut], high[~cut], self.limit).tolist()))
            if cut.any():
                stack.append(self._halves(low[cut], high[cut]))
        for side, collector in zip(self.tally.sides, self.collectors, strict=True):
            collector.add_to(side)

    def _step(self, low: Integers, high: Integers) -> NDArray[np.bool_]:
        """Decide what can be decided, and say which boxes are to be cut."""
        self.tally.boxes += len(low)
        least, most = count_box_bounds(
            self.faces[self.letters], low.astype(float), high.astype(float)
        )
        surely, maybe = label_range(self.faces.config, self.letters, low, high)
        false_positive, false_negative = (least > 0) & ~maybe, (most <= 0) & surely
        right = ((least > 0) & surely) | ((most <= 0) & ~maybe)
        self._collect(0, low[false_positive], high[false_positive])
        self._collect(1, low[false_negative], high[false_negative])
        open_ = ~(false_positive | false_negative | right)
        small = open_ & ((high - low + 1).prod(axis=1, dtype=np.float64) <= _LEAF)
        self._judge(_points(low[small], high[small], self.limit))
        return np.asarray(open_ & ~small)

    def _judge(self, points: Integers) -> None:
        if not len(points):
            return
        self.tally.evaluated += len(points)
        verdict = corner_verdicts(self.faces, self.letters, points)
        if (verdict == RIGHT).all():
            return
        labels = labels_of(self.faces.config, self.letters, points)
        wrong = (verdict != RIGHT) & (verdict != UNDECIDED)
        for index, member in enumerate((wrong & ~labels, wrong & labels, verdict == UNDECIDED)):
            self._collect(index, points[member], points[member])

    def _collect(self, index: int, low: Integers, high: Integers) -> None:
        """A wrong box's first string is its low corner, so the first of all is among those."""
        if not len(low):
            return
        side: Side = self.tally.sides[index]
        lengths = low.sum(axis=1)
        shortest = low[lengths == lengths.min()].tolist()
        first = np.array(min(map(tuple, shortest), key=order), dtype=np.int64)
        side.offer(full_counts(self.faces.config, self.letters, first).tolist())
        self.collectors[index].add(low, high)

    def _halves(self, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Cut each box, and trim."""
        low, high = halve_counts(low, high)
        slack = self.limit - low.sum(axis=1)
        kept = slack >= 0
        low, high, slack = low[kept], high[kept], slack[kept]
        # Counts above low + slack would make the string too long: they hold no vector.
        return low, np.minimum(high, low + slack[:, None])


def _points(low: Integers, high: Integers, limit: int) -> Integers:
    """Every vector in these small boxes, up to the length limit."""
    sizes = high - low + 1
    volumes = sizes.prod(axis=1)
    box = np.repeat(np.arange(len(low)), volumes)
    index = np.arange(len(box)) - np.repeat(volumes.cumsum() - volumes, volumes)
    points = np.empty((len(box), low.shape[1]), dtype=np.int64)
    for column in range(low.shape[1]):
        index, offset = np.divmod(index, sizes[box, column])
        points[:, column] = low[box, column] + offset
    within: NDArray[np.bool_] = points.sum(axis=1) <= limit
    return points[within]


def lattice_points(low: Integers, high: Integers, limit: int) -> Integers:
    """How many vectors each box holds up to the length limit, by inclusion and exclusion."""
    size = low.shape[1]
    sizes = high - low + 1
    slack = limit - low.sum(axis=1)
    total: Integers = np.zeros(len(low), dtype=object)
    for subset in range(1 << size):
        members = [axis for axis in range(size) if subset >> axis & 1]
        left = np.maximum(slack - sizes[:, members].sum(axis=1), -1).astype(object)
        simplex = prod([left + 1 + i for i in range(size)], start=np.ones_like(left))
        total = total + (-1) ** len(members) * simplex
    return np.asarray(total // factorial(size))
