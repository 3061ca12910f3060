"""One head and only linear maps after it: every margin is a sum over keys, exactly.

A head's output is Σ w v / Σ w. Multiplied by Σ w > 0, output y minus output j is Σ w (m_y - m_j)
over the keys, where m_c is what a key alone would give class c. So the extreme of a margin over a
region is one sweep, without levels, directions or relaxations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.verification.bounds.intervals import UNIT, Array, Interval
from tsc_interp.verification.order.directions import Bounded
from tsc_interp.verification.order.keys import WEIGHT_UNITS, Keys
from tsc_interp.verification.order.relax import settled, times
from tsc_interp.verification.order.scores import Layout, Scores, chunks

_MOST = 1 << 25
"""Numbers in a table of terms; larger models take the general way."""
_NUMBERS_AT_ONCE = 1 << 16
_SCORES_AT_ONCE = 1 << 18
"""Few enough numbers to stay in the processor's cache."""
_TINY = 2.0**-1000
_FEW_GROUPS = 16


def has_terms(keys: Keys) -> bool:
    """Whether margins are such sums, and few enough numbers say all of them."""
    readers, heads, places, letters = keys.weights.shape
    linear = heads == 1 and keys.maps.inner is None and not keys.maps.needs_scale
    return linear and readers * places * letters * keys.maps.outer.values.shape[1] <= _MOST


class Terms:
    """Terms `table [place letter reader class]` and `own [reader class]` of all keys of a model.

    slack [place letter reader], own_slack [reader]: more than any difference of two terms is off,
    its share of what adding up rounds included.
    """

    def __init__(self, keys: Keys) -> None:
        self.maps = keys.maps
        weight = keys.weights[:, 0].transpose(1, 2, 0)
        reading, reading_off = times(keys.constant, keys.maps.outer)
        errors = keys.maps.after.errors + keys.maps.shift.errors
        off = (reading_off + errors + 4 * UNIT * keys.maps.parts).max(1)
        size = (np.abs(reading) + keys.maps.parts).max(1)
        alone = reading + keys.maps.constant
        units = 2 * (weight.shape[0] + 24 + WEIGHT_UNITS) * UNIT

        def slack(weight: Array, value: Array, error: Array) -> Array:
            """`value` and `error [... class]` of keys: `[... reader]`."""
            largest = np.abs(value).max(-1)[..., None] + size
            wide = error.max(-1)[..., None] + off
            more = 2 * weight * (units * largest + wide)
            return np.asarray(more * (1 + 1e-12) + _TINY * (1 + largest))

        value, error = times(keys.values[0], keys.maps.outer)
        self.table = value[:, :, None] + alone
        self.table *= weight[..., None]
        self.slack = slack(weight, value, error)
        own, error = times(keys.own_values[0], keys.maps.outer)
        self.own = keys.own_weights * (own + alone)
        self.own_slack = np.diagonal(slack(keys.own_weights[:, 0], own, error))


_Key = tuple[Array, Array, Index]
"""Terms `[letter reader class]` at a place, their slack, and letters."""


class _Pairs:
    """Regions with a class each: sign times the margins of single keys, slack included.

    Without classes every one of a region is asked, and pairs are `[region class]`, not `[pair]`.
    """

    def __init__(
        self, terms: Terms, known: Bounded, regions: Index, which: Index | None, sign: int
    ) -> None:
        self.terms, self.regions, self.which, self.sign = terms, regions, which, sign
        self.reader, self.label = known.reader[regions], known.label[regions]
        self.shape = (len(regions), *(terms.own.shape[1:] if which is None else ()))

    def wide(self, numbers: Any) -> Any:
        """`[... region]` beside numbers of pairs."""
        return numbers[..., None] if self.which is None else numbers

    def _mine(self, keys: Sequence[_Key]) -> Array:
        """What keys give the label and as slack, `[... region]`."""
        total: Any = np.zeros((1, len(self.regions)))
        for table, slack, letters in keys:
            readers, classes = table.shape[-2:]
            at = letters * readers + self.reader
            total = total + (self.sign * table.take(at * classes + self.label) + slack.take(at))
        return np.asarray(total)

    def _others(self, keys: Sequence[_Key], out: Array | None = None) -> Array:
        """What keys give the other classes, `[... pair]`, and with another sign."""
        total = None if keys else np.zeros((1, *self.shape))
        for table, _, letters in keys:
            readers, classes = table.shape[-2:]
            at = letters * readers + self.reader
            if self.which is None:
                part = table.reshape(-1, classes).take(at, 0, out, "clip")
            else:
                part = table.take(at * classes + self.which, None, out, "clip")
            total, out = part if total is None else total + part, None
        assert total is not None
        return total if self.sign < 0 else np.negative(total, out=total)

    def _margins(self, keys: Sequence[_Key]) -> Array:
        """What keys add, `[... pair]`."""
        margins = self._others(keys)
        margins += self.wide(self._mine(keys))
        return margins

    def _keys(self, places: Sequence[int], letters: Index) -> list[_Key]:
        """`letters [... place]`."""
        tables, slacks = self.terms.table, self.terms.slack
        return [(tables[p], slacks[p], letters[..., i]) for i, p in enumerate(places)]

    def base(self, fixed: Sequence[tuple[int, int]]) -> Array:
        """What every input has, `[pair]`."""
        places = [place for place, _ in fixed]
        letters = np.array([letter for _, letter in fixed], dtype=np.int64)[None, None]
        own = self.terms.own, self.terms.own_slack, np.zeros((1, 1), dtype=np.int64)
        return np.asarray(self._margins([own, *self._keys(places, letters)])[0])

    def of_symbols(self, places: Sequence[int], symbols: Index) -> Array:
        """Of rows of letters, `[symbol pair]`."""
        return self._margins(self._keys(places, symbols[:, None]))

    def best(self, places: Sequence[int], symbols: Index, inside: Mask) -> Array:
        """The largest of the symbols `inside [region symbol]`, `[pair]`."""
        inside = inside[self.regions]
        if (inside.sum(1) <= 1).all():
            margin = self._margins(self._keys(places, symbols[inside.argmax(1)][None]))[0]
            return np.where(self.wide(inside.any(1)), margin, -np.inf)
        best, used = np.full(self.shape, -np.inf), np.flatnonzero(inside.any(0))
        mine = self._mine(self._keys(places, symbols[used, None]))
        mine[~inside.T[used]] = -np.inf
        step = max(1, _NUMBERS_AT_ONCE // best.size)
        room = np.empty((step, *self.shape))
        for chunk in chunks(len(used), step):
            now = mine[chunk]
            margin = self._others(self._keys(places, symbols[used[chunk], None]), room[: len(now)])
            margin += self.wide(now)
            np.maximum(best, margin[0] if len(margin) == 1 else margin.max(0), out=best)
        return best


_Step = tuple[int, int | None, Mask]
"""A group of edges, a group that is part of it (or None), and the rest `[region symbol]`."""


class LinearBounds:
    """Bounds for regions of one trellis; as `Bounds`, and exact but for rounding."""

    few = 128
    refines = False
    n_directions = 0

    def __init__(self, terms: Terms, trellis: Trellis) -> None:
        self.terms, self.trellis, self.maps = terms, trellis, terms.maps
        self.layouts = [Layout(stage) for stage in trellis.stages]
        widest = max(prod(layout.shape) for layout in self.layouts)
        self.at_once = max(1, _SCORES_AT_ONCE // widest)
        self.few_groups = all(len(layout.source) <= _FEW_GROUPS for layout in self.layouts)

    def bounded(
        self, regions: Regions, reader: Index, label: Index, start: Array | None, doubt: Mask
    ) -> Bounded:
        """Margins times a path's weight: their lower ends where a class is in doubt."""
        shape = doubt.shape
        low, high = settled(self.maps.same, label, np.full(shape, np.nan), np.full(shape, np.nan))
        low[~doubt] = np.inf
        known = Bounded(regions, reader, label, np.empty((len(regions), 0)), low, high)
        unknown = np.isnan(low)
        if self.few_groups:
            # All classes of a region: whole rows are looked up faster than some numbers of them.
            plan, rows = self._plan(regions), np.flatnonzero(unknown.any(1))
            for chunk in chunks(len(rows), max(1, _NUMBERS_AT_ONCE // shape[1])):
                at = rows[chunk]
                highest = self._highest(plan, _Pairs(self.terms, known, at, None, -1))
                low[at] = np.where(unknown[at], -highest, low[at])
            return known
        rows, classes = np.nonzero(unknown)
        for chunk in chunks(len(rows), self.at_once):
            pair = rows[chunk], classes[chunk]
            low[pair] = -self.scores(known, *pair, -1).highest()
        return known

    def scores(self, known: Bounded, rows: Index, which: Index, sign: int) -> Scores:
        """Of sign times the margin over `which` for regions by number."""
        pairs = _Pairs(self.terms, known, rows, which, sign)
        scores = []
        for stage, layout, mask in zip(
            self.trellis.stages, self.layouts, known.regions.masks, strict=True
        ):
            symbols, of_edge = stage.symbols
            score = np.full((len(symbols) + 1, len(rows)), -np.inf)
            score[:-1] = pairs.of_symbols(stage.places, symbols)
            score = score[np.append(of_edge, len(symbols))[layout.flat]]
            if not mask.all():
                inside = np.zeros((mask.shape[1] + 1, len(mask)), dtype=bool)
                inside[:-1] = mask.T
                score[~inside[layout.flat][:, rows]] = -np.inf
            scores.append(score)
        return Scores(self.layouts, scores, pairs.base(self.trellis.fixed))

    def _plan(self, regions: Regions) -> list[list[_Step]]:
        """How the best edge between two states is found, for each stage."""
        plan = []
        for stage, mask in zip(self.trellis.stages, regions.masks, strict=True):
            count = len(stage.symbols[0])
            starts = stage.grouped.edge_starts.tolist()
            masks = []
            for edges in map(slice, starts, [*starts[1:], len(stage)]):
                masks.append(np.zeros((len(regions), count), dtype=bool))
                masks[-1][:, stage.symbols[1][edges]] = mask[:, edges] if stage.places else True
            order = sorted(range(len(masks)), key=lambda group: int(masks[group].sum()))
            steps = []
            for i, group in enumerate(order):
                parts = (
                    part for part in reversed(order[:i]) if not (masks[part] & ~masks[group]).any()
                )
                part = next(parts, None)
                rest = masks[group] if part is None else masks[group] & ~masks[part]
                steps.append((group, part, rest))
            plan.append(steps)
        return plan

    def _highest(self, plan: list[list[_Step]], pairs: _Pairs) -> Array:
        """The largest total of each pair: as `scores` says it, without a score for every edge."""
        value = {0: pairs.base(self.trellis.fixed)}
        for stage, steps in zip(self.trellis.stages, plan, strict=True):
            best: dict[int, Array] = {}
            after: dict[int, Array] = {}
            for group, part, rest in steps:
                best[group] = pairs.best(stage.places, stage.symbols[0], rest)
                if part is not None:
                    np.maximum(best[group], best[part], out=best[group])
                target = int(stage.grouped.target[group])
                total = best[group] + value[int(stage.grouped.source[group])]
                largest = after.setdefault(target, total)
                if largest is not total:
                    np.maximum(largest, total, out=largest)
            value = after
        return np.asarray(reduce(np.maximum, value.values()))

    def points(self, letters: Index, reader: Index, label: Index, which: Index) -> Interval:
        """Margins of single inputs over `which [input column]`, times their weights."""
        terms = self.terms
        columns = np.concatenate([label[:, None], which], axis=1)
        total, off = terms.own[reader[:, None], columns], terms.own_slack[reader]
        readers, classes = terms.own.shape
        for table, slack, letter in zip(terms.table, terms.slack, letters.T, strict=True):
            at = letter * readers + reader
            total += table.take(at[:, None] * classes + columns)
            off += slack.take(at)
        margin, off = total[:, :1] - total[:, 1:], off[:, None]
        return settled(self.maps.same, label, margin - off, margin + off, which)
