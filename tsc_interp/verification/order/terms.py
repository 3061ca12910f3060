"""One head and only linear maps after it: every margin is a sum over keys, exactly.

A head's output is Σ w v / Σ w. Multiplied by Σ w > 0, output y minus output j is Σ w (m_y - m_j)
over the keys, where m_c is what a key alone would give class c. So the extreme of a margin over a
region is one sweep, without levels, directions or relaxations.
"""

from __future__ import annotations

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.verification.bounds.intervals import UNIT, Array, Interval
from tsc_interp.verification.order.bounds import Bounded
from tsc_interp.verification.order.keys import WEIGHT_UNITS, Keys, Maps, Rounded
from tsc_interp.verification.order.relax import needs_scale, settled, times
from tsc_interp.verification.order.sweeps import Layout, Scores, chunks

_MOST = 1 << 25
"""Numbers in a table of terms; larger models take the general way."""
_NUMBERS_AT_ONCE = 1 << 18
_TINY = 2.0**-1000


def has_terms(config: ClassifierConfig, keys: Keys) -> bool:
    """Whether margins are such sums, and few enough numbers say all of them."""
    readers, heads, places, letters = keys.weights.shape
    linear = heads == 1 and keys.maps.inner is None and not needs_scale(config, keys.maps)
    return linear and readers * places * letters * keys.maps.outer.values.shape[1] <= _MOST


class Terms:
    """Terms `table [place letter reader class]` and `own [reader class]` of all keys of a model.

    slack [place letter reader], own_slack [reader]: more than any difference of two terms is off,
    its share of what adding up rounds included; `room` times a key's weight is added.
    """

    def __init__(self, config: ClassifierConfig, keys: Keys, room: float) -> None:
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
            more = 2 * weight * (units * largest + wide + room)
            return np.asarray(more * (1 + 1e-12) + _TINY * (1 + largest))

        value, error = times(_both(keys.values, 0), keys.maps.outer)
        self.table = weight[..., None] * (value[:, :, None] + alone)
        self.slack = slack(weight, value, error)
        own, error = times(_both(keys.own_values, 0), keys.maps.outer)
        self.own = keys.own_weights * (own + alone)
        self.own_slack = np.diagonal(slack(keys.own_weights[:, 0], own, error))


def _both(values: Rounded, head: int) -> tuple[Array, Array]:
    return values.values[head], values.errors[head]


class LinearBounds:
    """Bounds for regions of one trellis; as `Bounds`, and exact but for rounding."""

    few = 64
    refines = False
    probes: tuple[()] = ()

    def __init__(self, terms: Terms, trellis: Trellis) -> None:
        self.terms, self.trellis = terms, trellis
        self.layouts = [Layout(stage) for stage in trellis.stages]
        widest = max(len(layout.flat) for layout in self.layouts)
        self.at_once = max(8, _NUMBERS_AT_ONCE // widest)

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
        known = Bounded([], low, high)
        for sign, ends in ((-1, low), (1, high)):
            rows, which = np.nonzero(np.isnan(ends) & ~(low > 0))
            for some in chunks(len(rows), self.at_once):
                at = rows[some], which[some]
                scored = self.scores(regions, reader, label, known, *at, sign)
                ends[at] = sign * scored.highest()
        return known

    def scores(
        self,
        regions: Regions,
        reader: Index,
        label: Index,
        known: Bounded,
        rows: Index,
        which: Index,
        sign: int,
    ) -> Scores:
        """Of sign times the margin of `which` for regions by number."""
        terms, reader, label = self.terms, reader[rows], label[rows]
        classes = terms.own.shape[1]
        mine, other = reader * classes + label, reader * classes + which
        if sign < 0:
            mine, other = other, mine

        def between(table: Array, slack: Array) -> Array:
            flat = table.reshape(*table.shape[:-2], -1)
            found = flat.take(mine, axis=-1)
            found -= flat.take(other, axis=-1)
            found += slack.take(reader, axis=-1)
            return found

        base = between(terms.own, terms.own_slack)
        for place, letter in self.trellis.fixed:
            base = base + between(terms.table[place, letter], terms.slack[place, letter])
        found = []
        for stage, layout, mask in zip(
            self.trellis.stages, self.layouts, regions.masks, strict=True
        ):
            symbols, of_edge = stage.symbols
            score = np.full((len(symbols) + 1, len(rows)), -np.inf)
            score[:-1] = 0.0
            for column, place in enumerate(stage.places):
                letters = symbols[:, column]
                table, slack = terms.table[place], terms.slack[place]
                if len(letters) == letters[-1] + 1:  # a view, not a copy
                    table, slack = table[: len(letters)], slack[: len(letters)]
                else:
                    table, slack = table[letters], slack[letters]
                score[:-1] += between(table, slack)
            symbol = np.append(of_edge, len(symbols))[layout.flat]
            score = score[symbol]
            if not mask.all():
                inside = np.zeros((mask.shape[1] + 1, len(mask)), dtype=bool)
                inside[:-1] = mask.T
                score[~inside[layout.flat][:, rows]] = -np.inf
            found.append(score)
        return Scores(self.layouts, found, base)

    def is_still(self, levels: list[Array], share: float) -> bool:
        """Never: there are no directions to tell it by, and nothing is lost here around inputs."""
        return False

    def points(self, letters: Index, reader: Index, label: Index, which: Index) -> Interval:
        """Margins over some classes of single inputs, times their weights: `[input class]`."""
        terms, at = self.terms, (np.arange(self.trellis.length), letters, reader[:, None])
        mine = terms.own[reader, label] + terms.table[(*at, label[:, None])].sum(1)
        margin = mine[:, None] - terms.own[:, which][reader]
        margin -= terms.table[..., which][at].sum(1)
        off = (terms.own_slack[reader] + terms.slack[at].sum(1))[:, None]
        return settled(self.maps.same, label, margin - off, margin + off, which)
