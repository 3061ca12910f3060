"""One head and only linear maps after it: every margin is a sum over keys, exactly.

A head's output is Σ w v / Σ w. Multiplied by Σ w > 0, output y minus output j is Σ w (m_y - m_j)
over the keys, where m_c is what a key alone would give class c. So the extreme of a margin over a
region is one sweep, without levels, directions or relaxations.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index, Stage, Trellis
from tsc_interp.verification.bounds.intervals import UNIT, Array, Interval
from tsc_interp.verification.order.directions import Bounded
from tsc_interp.verification.order.keys import WEIGHT_UNITS, Keys, Maps, Rounded
from tsc_interp.verification.order.relax import needs_scale, settled, times
from tsc_interp.verification.order.scores import Layout, Scores, chunks, highest

_MOST = 1 << 25
"""Numbers in a table of terms; larger models take the general way."""
_NUMBERS_AT_ONCE = 1 << 20
_TINY = 2.0**-1000
_FEW_GROUPS = 16
_WIDE = 0.25
"""Where more classes of a region are in doubt, all are bounded: whole rows are looked up faster."""


def has_terms(config: ClassifierConfig, keys: Keys) -> bool:
    """Whether margins are such sums, and few enough numbers say all of them."""
    readers, heads, places, letters = keys.weights.shape
    linear = heads == 1 and keys.maps.inner is None and not needs_scale(config, keys.maps)
    return linear and readers * places * letters * keys.maps.outer.values.shape[1] <= _MOST


class Terms:
    """Terms `table [place letter reader class]` and `own [reader class]` of all keys of a model.

    slack [place letter reader], own_slack [reader]: more than any difference of two terms is off,
    its share of what adding up rounds included.
    """

    def __init__(self, config: ClassifierConfig, keys: Keys) -> None:
        self.maps = keys.maps
        weight = keys.weights[:, 0].transpose(1, 2, 0)
        reading, reading_off = times((keys.constant.values, keys.constant.errors), keys.maps.outer)
        shift = keys.maps.after.values
        shift = shift if config.final_norm else shift + keys.maps.shift.values
        parts = np.abs(keys.maps.after.values) + np.abs(keys.maps.shift.values)
        errors = keys.maps.after.errors + keys.maps.shift.errors
        off = (reading_off + errors + 4 * UNIT * parts).max(1)
        size = (np.abs(reading) + parts).max(1)
        alone = reading + shift
        units = 2 * (weight.shape[0] + 24 + WEIGHT_UNITS) * UNIT

        def slack(weight: Array, value: Array, error: Array) -> Array:
            """`value` and `error [... class]` of keys: `[... reader]`."""
            largest = np.abs(value).max(-1)[..., None] + size
            wide = error.max(-1)[..., None] + off
            more = 2 * weight * (units * largest + wide)
            return np.asarray(more * (1 + 1e-12) + _TINY * (1 + largest))

        value, error = times(_both(keys.values, 0), keys.maps.outer)
        self.table = weight[..., None] * (value[:, :, None] + alone)
        self.slack = slack(weight, value, error)
        own, error = times(_both(keys.own_values, 0), keys.maps.outer)
        self.own = keys.own_weights * (own + alone)
        self.own_slack = np.diagonal(slack(keys.own_weights[:, 0], own, error))


def _both(values: Rounded, head: int) -> tuple[Array, Array]:
    return values.values[head], values.errors[head]


class _Pairs:
    """Regions by number and classes: sign times the margins of single keys, slack included."""

    def __init__(
        self, terms: Terms, reader: Index, label: Index, rows: Index, which: Index, sign: int
    ) -> None:
        self.terms, self.sign, self.rows, self.which = terms, sign, rows, which
        self.readers, self.labels = reader, label
        self.reader, classes = reader[rows], terms.own.shape[1]
        self.class_ = self.reader * classes + which
        self.regions = rows[::classes]
        full = (self.regions[:, None] * classes + np.arange(classes)).reshape(-1)
        self.every = np.array_equal(full, rows * classes + which)
        """Whether these are all classes of some regions: then rows of a table are what is asked."""

    def _between(self, table: Array, slack: Array) -> Array:
        """`table [... reader class]` to `[... pair]`: what regions share is looked up once."""
        mine = self.sign * table[..., self.readers, self.labels] + slack[..., self.readers]
        if self.every:
            found: Array = table.take(self.readers[self.regions], axis=-2)
            if self.sign > 0:
                np.negative(found, out=found)
            found += mine[..., self.regions, None]
            return found.reshape(*table.shape[:-2], -1)
        other = table.reshape(*table.shape[:-2], -1).take(self.class_, axis=-1)
        found = mine.take(self.rows, axis=-1)
        found -= self.sign * other
        return found

    def base(self, fixed: Sequence[tuple[int, int]]) -> Array:
        """What every input has, `[pair]`."""
        found = self._between(self.terms.own, self.terms.own_slack)
        for place, letter in fixed:
            found += self._between(self.terms.table[place, letter], self.terms.slack[place, letter])
        return found

    def of_symbols(self, places: Sequence[int], symbols: Index) -> Array:
        """Of rows of letters, `[symbol pair]`."""
        found: Array | float = 0.0
        for place, letters in zip(places, symbols.T, strict=True):
            chosen = slice(len(letters)) if len(letters) == letters[-1] + 1 else letters
            part = self._between(self.terms.table[place, chosen], self.terms.slack[place, chosen])
            found = part if len(places) == 1 else found + part
        return np.asarray(found)

    def of_one(self, places: Sequence[int], symbols: Index) -> Array:
        """Of one row of letters for each region, `[pair]`."""
        found = np.zeros(len(self.rows))
        for place, letters in zip(places, symbols[self.rows].T, strict=True):
            table, label = self.terms.table[place], self.labels[self.rows]
            found += table[letters, self.reader, label] - table[letters, self.reader, self.which]
            found += self.sign * self.terms.slack[place][letters, self.reader]
        return self.sign * found


def _between(stage: Stage) -> list[tuple[slice, Index | slice]]:
    """Edges between two states and their symbols, as slices where they follow each other."""
    found: list[tuple[slice, Index | slice]] = []
    starts = stage.grouped.edge_starts.tolist()
    for start, stop in zip(starts, [*starts[1:], len(stage)], strict=True):
        symbols = stage.symbols[1][start:stop]
        first, last = int(symbols[0]), int(symbols[-1])
        follow = last - first + 1 == stop - start  # they rise within a group
        found.append((slice(start, stop), slice(first, last + 1) if follow else symbols))
    return found


def _top(score: Array, symbols: Index | slice, tops: dict[int, tuple[int, Array]]) -> Array:
    """The largest score of some symbols; `tops` has what is known from each first one on."""
    if not isinstance(symbols, slice):
        return np.asarray(score[symbols].max(0))
    stop, top = tops.get(symbols.start, (-1, score[:0]))
    if not symbols.start < stop <= symbols.stop:
        top = score[symbols].max(0)
    elif stop < symbols.stop:
        top = np.maximum(top, score[stop : symbols.stop].max(0))
    tops[symbols.start] = symbols.stop, top
    return top


class LinearBounds:
    """Bounds for regions of one trellis; as `Bounds`, and exact but for rounding."""

    few = 64
    refines = False
    probes: tuple[()] = ()

    def __init__(self, terms: Terms, trellis: Trellis) -> None:
        self.terms, self.trellis = terms, trellis
        self.layouts = [Layout(stage) for stage in trellis.stages]
        widest = max(prod(layout.shape) for layout in self.layouts)
        classes = terms.own.shape[1]
        self.at_once = max(1, _NUMBERS_AT_ONCE // (widest * classes)) * classes
        few = all(len(layout.source) <= _FEW_GROUPS for layout in self.layouts)
        self.between = [_between(stage) for stage in trellis.stages] if few else []
        """Per stage the edges between two states with their symbols, where these are few."""

    @property
    def maps(self) -> Maps:
        return self.terms.maps

    def bounded(
        self, regions: Regions, reader: Index, label: Index, start: list[Array] | None, doubt: Mask
    ) -> Bounded:
        """Margins times a path's weight: their ends where a class is in doubt."""
        shape = doubt.shape
        low, high = settled(self.maps.same, label, np.full(shape, np.nan), np.full(shape, np.nan))
        low[~doubt] = np.inf
        known = Bounded(regions, reader, label, [], low, high)
        for sign, ends in ((-1, low), (1, high)):
            asked = np.isnan(ends) & ~(low > 0)
            wide = np.broadcast_to(asked.mean(1, keepdims=True) > _WIDE, shape)
            for rows, which in (np.nonzero(wide), np.nonzero(asked & ~wide)):
                for some in chunks(len(rows), self.at_once):
                    at = rows[some], which[some]
                    if self.between:
                        pairs = _Pairs(self.terms, reader, label, *at, sign)
                        found = self._highest(regions, pairs)
                    else:
                        found = self.scores(known, *at, sign).highest()
                    ends[at] = np.where(asked[at], sign * found, ends[at])
        return known

    def scores(self, known: Bounded, rows: Index, which: Index, sign: int) -> Scores:
        """Of sign times the margin over `which` for regions by number."""
        pairs = _Pairs(self.terms, known.reader, known.label, rows, which, sign)
        found = []
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
            found.append(score)
        return Scores(self.layouts, found, pairs.base(self.trellis.fixed))

    def _highest(self, regions: Regions, pairs: _Pairs) -> Array:
        """The largest total of each pair: as `scores` says it, without a score for every edge."""
        groups = []
        for stage, mask, between in zip(
            self.trellis.stages, regions.masks, self.between, strict=True
        ):
            symbols, of_edge = stage.symbols
            first = of_edge[mask.argmax(1)]
            if ((of_edge == first[:, None]) | ~mask).all():  # as where a letter reads
                lead = stage.grouped.of_edges(np.logical_or, mask).T[:, pairs.rows]
                groups.append(np.where(lead, pairs.of_one(stage.places, symbols[first]), -np.inf))
                continue
            score, best = pairs.of_symbols(stage.places, symbols), []
            tops: dict[int, tuple[int, Array]] = {}
            for edges, symbol in between:
                inside = mask[:, edges]
                has = np.asarray(inside.any(1))
                if (inside.all(1) | ~has).all():
                    top = _top(score, symbol, tops)
                else:
                    kept = inside.T.take(pairs.rows, axis=1)
                    top = np.where(kept, score[symbol], -np.inf).max(0)
                best.append(top if has.all() else np.where(has[pairs.rows], top, -np.inf))
            groups.append(np.stack(best))
        return highest(self.layouts, groups, pairs.base(self.trellis.fixed))

    def is_still(self, levels: list[Array], share: float) -> bool:
        """Never: there are no directions to tell it by, and nothing is lost here around inputs."""
        return False

    def points(self, letters: Index, reader: Index, label: Index, which: Index) -> Interval:
        """Margins over some classes of single inputs, times their weights: `[input class]`."""
        terms, every = self.terms, np.arange(len(letters))
        total, off = terms.own[reader], terms.own_slack[reader]
        for place in range(self.trellis.length):
            at = place, letters[:, place], reader
            total, off = total + terms.table[at], off + terms.slack[at]
        margin, off = total[every, label][:, None] - total[:, which], off[:, None]
        return settled(self.maps.same, label, margin - off, margin + off, which)
