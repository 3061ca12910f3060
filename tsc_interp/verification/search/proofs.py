"""Proofs for every length at once, on one support.

Plain softmax sees ratios only. Divide all counts by the largest: that letter weighs 1, every other
letter something in [0, 1], and CLS, where it is attended to, 1 / largest, also in [0, 1]. One such
*chart* per letter covers all strings of the support, however long, and a chart is a compact box, so
branch and bound decides it with finitely many boxes unless the logit comes arbitrarily close to 0.

With scores scaled by log n, a token whose score is `gap` below a head's best weighs at most
n · n^gap times as much as the best. If gap < -1 that falls with n, so for n ≥ N each head's output
is confined by N^(1 + gap): one explicit tail bound per support.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from tsc_interp.verification.bounds.intervals import UNIT, Array, Interval, sure
from tsc_interp.verification.bounds.supports import CombinedSupport, Support
from tsc_interp.verification.bounds.tables import TableSupport
from tsc_interp.verification.search.cutting import Corner, halve_ratios

_BATCH = 16
_WORK = 20_000_000
"""Microseconds' worth of boxes: twenty seconds."""
_FREE = 2.0**200
"""As good as any larger weight beside a 1: the means differ by less than their rounding."""


@dataclass(frozen=True)
class Chart:
    """Boxes of relative weights that cover [0, 1]^d: the largest letter weighs 1."""

    largest: int
    low: tuple[Corner, ...]
    high: tuple[Corner, ...]


@dataclass(frozen=True)
class AllLengths:
    """A support on which the margin stays above zero, with its cover."""

    least_margin: float
    charts: tuple[Chart, ...]

    @property
    def boxes(self) -> int:
        return sum(len(chart.low) for chart in self.charts)


def prove_all_lengths(
    support: Support, budget: int = 20_000, *, sharpen: bool = True
) -> AllLengths | None:
    """A cover that shows the margin above zero for every ratio, or None if none was found.

    Boxes with the worst bound are cut first. Once all are on the right side, a little more
    cutting can `sharpen` the bound that is reported. A costly model gets fewer boxes.
    """
    if support.log_n:
        return None
    budget = min(budget, _WORK // support.cost)
    search = _ChartSearch(support)
    while not search.proved and search.examined < budget:
        if search.best_seen <= 0 or search.stuck:
            return None  # a ratio that is wrong, or one that is too extreme to tell
        search.cut()
    if not search.proved:
        return None
    spent = search.examined
    while sharpen and search.best_seen - search.worst > 0.02 and search.examined < spent + 64:
        search.cut()
    return search.result()


class _ChartSearch:
    """All charts of a support in one queue, the smallest lower bound first."""

    def __init__(self, support: Support) -> None:
        self.support = support
        self.tokens = len(support.letters) + int(support.attends_cls)
        self.queue: list[tuple[float, int, int, Corner, Corner]] = []
        self.finished: list[tuple[float, int, int, Corner, Corner]] = []
        self.best_seen = np.inf
        self.examined = 0
        dims = self.tokens - 1
        self._add(
            [(column, (0.0,) * dims, (1.0,) * dims) for column in range(len(support.letters))]
        )

    @property
    def worst(self) -> float:
        """No ratio's margin is below this."""
        return min(entry[0] for entry in (*self.queue[:1], *self.finished))

    @property
    def proved(self) -> bool:
        return self.worst > 0

    @property
    def stuck(self) -> bool:
        """Whether a box that cannot be cut is not proved."""
        return any(entry[0] <= 0 for entry in self.finished)

    def cut(self) -> None:
        parts = []
        for _ in range(min(_BATCH, len(self.queue))):
            entry = heapq.heappop(self.queue)
            halves = halve_ratios(entry[3], entry[4])
            parts += [(entry[2], *half) for half in halves]
            if not halves:
                self.finished.append(entry)
        self._add(parts)
        if not parts:
            self.examined += _BATCH

    def _add(self, boxes: list[tuple[int, Corner, Corner]]) -> None:
        if not boxes:
            return
        light = np.array([self._weights(chart, low) for chart, low, _ in boxes])
        heavy = np.array([self._weights(chart, high) for chart, _, high in boxes])
        lower, _ = self._bounds(light, heavy)
        # The heavy corner is a true ratio of counts, or the limit of such ratios.
        _, at_corner = self._bounds(heavy, heavy)
        self.best_seen = min(self.best_seen, float(at_corner.min()))
        for (chart, low, high), bound in zip(boxes, lower.tolist(), strict=True):
            self.examined += 1
            heapq.heappush(self.queue, (bound, self.examined, chart, low, high))

    def _bounds(self, light: Array, heavy: Array) -> Interval:
        any_length = np.ones(len(light))
        return self.support.bounds(light, heavy, any_length, any_length)

    def _weights(self, chart: int, free: Corner) -> Corner:
        """All tokens' weights: the chart's letter put back among the free ones."""
        at = chart + int(self.support.attends_cls)
        return (*free[:at], 1.0, *free[at:])

    def result(self) -> AllLengths:
        entries = [*self.queue, *self.finished]
        charts = []
        for column, letter in enumerate(self.support.letters):
            cover = [entry for entry in entries if entry[2] == column]
            charts.append(Chart(letter, tuple(e[3] for e in cover), tuple(e[4] for e in cover)))
        return AllLengths(self.worst, tuple(charts))


def finer(proof: AllLengths) -> AllLengths:
    """The same cover, every box cut once in every direction, for looser bounds than ours."""
    charts = []
    for chart in proof.charts:
        boxes = list(zip(chart.low, chart.high, strict=True))
        for _ in chart.low[0]:
            boxes = [half for box in boxes for half in halve_ratios(*box) or [box]]
        charts.append(Chart(chart.largest, tuple(b[0] for b in boxes), tuple(b[1] for b in boxes)))
    return AllLengths(proof.least_margin, tuple(charts))


def tail_bounds(support: Support, start: int) -> Interval | None:
    """The range over all strings of the support from `start` letters on (log n only)."""
    if isinstance(support, CombinedSupport):
        ends = [tail_bounds(part, start) for part in support.parts]
        known = [end for end in ends if end is not None]
        return support.combined(known) if len(known) == len(ends) else None
    if not isinstance(support, TableSupport) or not support.log_n:
        return None
    with np.errstate(all="ignore"):
        # The real gap is at most one rounding above; N^(1 + gap) is rounded upwards too.
        gaps = np.nextafter(support.gaps, np.inf)
        # With CLS counted, n copies of (n + 1)^gap are at most (n + 1)^(1 + gap).
        power = (1 + gaps) * np.log(start + support.cls_counted) * (1 - 64 * UNIT)
        reach = np.where(gaps < -1, np.exp(power) * (1 + 64 * UNIT) + 1e-300, _FREE)
        heavy = np.where(support.gaps == 0, 1.0, reach)
        light = np.where(support.gaps == 0, 1.0, 0.0)
        # Several best tokens: any mixture of them is possible, so let all but one range freely.
        for head in range(len(heavy)):
            best = np.flatnonzero(support.gaps[head] == 0)
            heavy[head, best[1:]], light[head, best[1:]] = _FREE, 0.0
        return sure(*support.bounds_of_weights(light[None], heavy[None]))
