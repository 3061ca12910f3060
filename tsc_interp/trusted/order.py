"""Regions of an order-sensitive model of one layer: sets of paths of a trellis.

A letter at a place is a key; a reader gives it one weight and one value per head. Tables are made
in `arb` balls, rounded outwards once, and kept as long as they fit into the memory allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import arb, ctx

from tsc_interp.trusted import balls
from tsc_interp.trusted.budget import Budget, Kept
from tsc_interp.trusted.forward import Forward, Spot
from tsc_interp.trusted.margins import BITS, Index, along
from tsc_interp.trusted.means import Stage, Sums, highest
from tsc_interp.trusted.probes import Probes, plane_of
from tsc_interp.trusted.sets import Mask, Sets
from tsc_interp.trusted.spans import TINY, UNIT, Floats, Span, down, stacked, up
from tsc_interp.trusted.spec import FIRST_LETTER

_ROUGH = 4
"""Sweeps for means that others are mixed of, which loses more than further ones would win."""
_IN_CACHE = 1 << 20
"""Numbers of one table of a sweep: more than fit are slower, not faster."""


class Keys:
    """What one reader meets in inputs of one length, per head and key.

    weight [head place letter], moment [head d place letter]: w, and w v; numbers near the real ones
    own_weight [head], own_moment [head d]: of the reader itself, zero where it does not attend
    slack [head key 1+d]: how far w and w v can be from those, w first, and what sums with so many
    terms round of them; the reader itself is the last key
    base, reach [d]: the reader's own residual; where its residual lies after attention
    """

    def __init__(
        self, length: int, letters: int, own: bool, tables: Sequence[Span], base: Span, reach: Span,
        values: Sequence[Span] = (),
    ) -> None:  # fmt: skip
        """`tables [key item]` per head: w, w v, place by place; with `own`, the reader last.

        `values [key d]` per head, if means along many directions may follow from those of a few.
        """
        self.values = values
        self._probes: list[tuple[Floats, Probes | None] | None] = [None] * len(values)
        self.base, self.reach, self.length, self.letters = base, reach, length, letters
        d, n = len(base.low), length * letters
        near = np.array([table.middle for table in tables]).reshape(len(tables), n + own, 1 + d)
        off = np.array([table.radius for table in tables]).reshape(near.shape)
        self.units = (d + 2 * length + len(tables) + 16) * UNIT
        self.slack = up(off + up(np.abs(near) + off) * (2 * self.units))
        table = near[:, :n].reshape(len(tables), length, letters, 1 + d)
        self.weight, self.moment = table[..., 0], np.moveaxis(table[..., 1:], 3, 1)
        own_sums = near[:, n:].sum(1) if own else np.zeros((len(tables), 1 + d))
        self.own_weight, self.own_moment = own_sums[:, 0], own_sums[:, 1:]

    def slacks(self, head: int, used: Mask) -> Floats:
        """At least what the keys of any path have together: `[region 1+d]`.

        `used [region place letter]`: which keys the paths of a region may have.
        """
        slack, n = self.slack[head], self.length * self.letters
        total = np.broadcast_to(slack[n:].sum(0), (len(used), slack.shape[1]))
        for place in range(self.length):
            of_place = slack[place * self.letters : (place + 1) * self.letters]
            total = total + np.where(used[:, place, :, None], of_place, 0.0).max(1)
        return up(total * (1 + self.units))

    def probes(self, head: int, asked: Floats) -> Probes | None:
        """For the means of one head along these directions, if its values lie in a plane."""
        if not self.values:
            return None
        known = self._probes[head]
        if known is None or not np.array_equal(known[0], asked):
            plane = plane_of(self.values[head])
            known = asked, None if plane is None else Probes(self.values[head], plane, asked)
            self._probes[head] = known
        return known[1]

    def added(self, letters: Index) -> Span:
        """What the heads add in single inputs `[input place]`, `[input d]`."""
        total, places = Span.exact(np.zeros((len(letters), len(self.base.low)))), self.length
        at = np.arange(places) * self.letters + letters
        for head, slack in enumerate(self.slack):
            table = np.concatenate([self.weight[head, None], self.moment[head]]).reshape(
                slack.shape[1], -1
            )
            own = np.append(self.own_weight[head], self.own_moment[head])
            near = table[:, at].sum(2).T + own
            off = slack[at].sum(1) + slack[places * self.letters :].sum(0)
            off = up(off * (1 + self.units) + TINY)
            sums = Span(down(near - off), up(near + off))
            total = total + sums[:, 1:] * sums[:, :1].inverse()
        return total


class OrderTables:
    """The keys of every reader of one model."""

    def __init__(self, forward: Forward, budget: Budget) -> None:
        self.forward, self.spec, self.spend = forward, forward.spec, budget
        self._kept = Kept(budget.memory)

    def readers(self, sets: Sets) -> Index:
        """The reading letter of every set, 0 where CLS reads; -1 where there are several."""
        if self.spec.reads == "last_letter":
            return sets.letters_at(sets.trellis.length - 1)
        return np.zeros(len(sets), dtype=np.int64)

    def keys(self, length: int, reader: Spot) -> Keys:
        """What a reader meets."""
        numbers = self.spec.n_heads * length * self.spec.n_letters * (self.spec.d_model + 2)
        with np.errstate(all="ignore"):  # what is no number fails every comparison
            return self._kept.get((length, reader), numbers, lambda: self._make(length, reader))

    def _make(self, length: int, reader: Spot) -> Keys:
        spec, forward, first = self.spec, self.forward, int(self.spec.reads == "first")
        places, letters = range(length), range(spec.n_letters)
        letter_spots = [(FIRST_LETTER + x, place + first) for place in places for x in letters]
        spots = forward.keys(letter_spots, reader)
        tables, values = [], []
        with ctx.workprec(BITS):
            own = forward.embedded([reader])
            base = own + forward.bias("blocks.0.attn.b_O", spec.d_model) if spec.n_heads else own
            residual = reach = Span.of(base.tolist())
            for head in range(spec.n_heads):
                self.spend()
                scores, added = self._met(length, head, spots, reader)
                # Any number may be subtracted from all scores; with the largest nothing overflows.
                most = arb(max(float(score.mid()) for score in scores))
                powers = [balls.hull(balls.exp_range(score - most)) for score in scores]
                weight = Span.of([[power] for power in powers])
                moment = weight * added
                tables.append(
                    Span(
                        np.concatenate([weight.low, moment.low], axis=1),
                        np.concatenate([weight.high, moment.high], axis=1),
                    )
                )
                values.append(added)
                reach = reach + added.reach(0)[None]
        return Keys(length, spec.n_letters, len(spots) > len(letter_spots), tables, residual[0],
                    reach[0], values)  # fmt: skip

    def _met(
        self, length: int, head: int, spots: Sequence[Spot], reader: Spot
    ) -> tuple[list[balls.Ball], Span]:
        """Scores, and what each key adds; all but the scores is one for every reader."""
        forward = self.forward

        def make() -> tuple[object, Span]:
            read = forward.normed("blocks.0.ln1", forward.embedded(spots))
            keys = forward.met("K", 0, head, read, spots)
            return keys, Span.of(forward.added(0, head, read).tolist())

        numbers = len(spots) * (self.spec.d_head + self.spec.d_model)
        # Where the reader is a key, it is so for this reader alone.
        name = ("met", length, head, reader if self.spec.reads != "last_letter" else None)
        keys, added = self._kept.get(name, numbers, make)
        asked = forward.normed("blocks.0.ln1", forward.embedded([reader]))
        query = forward.met("Q", 0, head, asked, [reader])
        scores = forward.scores(head, query, [reader], keys, spots, length)
        return scores.tolist()[0], added


@dataclass
class Inputs:
    """What the reading token holds after attention, in single inputs (`margins.Attended`).

    letters [input place], and which of the keys each reads, `[input]`
    """

    keys: Sequence[Keys]
    own: Index
    letters: Index

    @cached_property
    def base(self) -> Span:
        return stacked([keys.base for keys in self.keys])[self.own]

    @cached_property
    def reach(self) -> Span:
        return self.base + self._added

    @cached_property
    def _added(self) -> Span:
        added = Span(*np.empty((2, len(self.own), len(self.keys[0].base.low))))
        for number, keys in enumerate(self.keys):
            at = self.own == number
            part = keys.added(self.letters[at])
            added.low[at], added.high[at] = part.low, part.high
        return added

    def highest(self, q: Floats, enough: Floats | None = None) -> Floats:
        """At least q · (what the heads add): `[input row]`."""
        return along(Span.exact(q), self._added).high


@dataclass
class PathRegions:
    """What the reading token holds after attention, over sets of paths (`margins.Attended`)."""

    sets: Sets
    keys: Sequence[Keys]
    """Of each set's reader."""
    _heads: dict[int, _Met] = field(default_factory=dict)

    @cached_property
    def base(self) -> Span:
        return stacked([keys.base for keys in self.keys])

    @cached_property
    def reach(self) -> Span:
        return stacked([keys.reach for keys in self.keys])

    def highest(self, q: Floats, enough: Floats | None = None) -> Floats:
        """At least q · (what the heads add) on every path of a set: `[region row]`."""
        heads, rows, number = len(self.keys[0].slack), q.shape[1], len(self.sets)
        apart = self._by_probes(q[0]) if enough is None and len(q) == 1 else None
        if apart is not None and heads == 1:
            return apart[0]
        step = max(1, _IN_CACHE // (number * self.sets.slots * max(1, heads)))
        bounds = np.zeros((number, rows))
        for start in range(0, rows, step):
            at = slice(start, start + step)
            part = np.broadcast_to(q[:, at], (number, *q[0, at].shape))
            wanted = None if enough is None else enough[:, at]
            known = None if apart is None else [bound[:, at] for bound in apart]
            bounds[:, at] = highest(self.sums, heads, part, wanted, known)
        return bounds

    def _by_probes(self, asked: Floats) -> list[Floats] | None:
        """For each head, if the values of all lie in planes."""
        bounds = []
        for head in range(len(self.keys[0].slack)):
            probes = [key.probes(head, asked) for key, _ in self._by_reader]
            known = [one for one in probes if one is not None]
            if len(known) < len(probes):
                return None
            q = np.empty((len(self.sets), *known[0].directions.shape))
            for one, (_, at) in zip(known, self._by_reader, strict=True):
                q[at] = one.directions
            few = self.sums(head, q).bound(None, _ROUGH)
            bound = np.empty((len(q), len(asked)))
            for one, (_, at) in zip(known, self._by_reader, strict=True):
                bound[at] = one.above(few[at])
            bounds.append(bound)
        return bounds

    def sums(self, head: int, q: Floats) -> Sums:
        """One head's, along directions `[region row d]`."""
        trellis, letters = self.sets.trellis, self.keys[0].letters
        scores_of = np.empty((*q.shape[:2], trellis.length, letters))
        total, slack = np.empty(q.shape[:2]), np.empty(q.shape[:2])
        met = self._met(head)
        for key, at in self._by_reader:
            products = q[at] @ key.moment[head].reshape(q.shape[2], -1)
            scores_of[at] = products.reshape(-1, q.shape[1], trellis.length, letters)
            total[at] = q[at] @ key.own_moment[head]
            slack[at] = (np.abs(q[at]) @ met.slack[at, 1:, None])[..., 0]
        for place, letter in trellis.fixed:
            total = total + scores_of[:, :, place, letter]
        stages = []
        for layout, mask, columns, weights in zip(
            self.sets.layouts, self.sets.rectangles, self._columns, met.weights, strict=True
        ):
            scores = sum(
                (scores_of[:, :, place][:, :, chosen] for place, chosen in columns),
                np.zeros((q.shape[1], 1, 1)),
            )
            scores = np.where(mask[:, None], scores, -np.inf)
            stages.append(Stage(scores, weights, mask, layout.source, layout.incoming))
        return Sums(stages, total, met.mass, slack, met.slack[:, :1], self.keys[0].units)

    def _met(self, head: int) -> _Met:
        """The weights of a head, which are the same along all directions."""
        if head not in self._heads:
            trellis, letters, d = (
                self.sets.trellis,
                self.keys[0].letters,
                len(self.keys[0].base.low),
            )
            weight_of = np.empty((len(self.sets), trellis.length, letters))
            mass, slack = np.empty((len(self.sets), 1)), np.empty((len(self.sets), 1 + d))
            used = self.sets.used(letters)
            for key, at in self._by_reader:
                weight_of[at], mass[at] = key.weight[head], key.own_weight[head]
                slack[at] = key.slacks(head, used[at])
            for place, letter in trellis.fixed:
                mass = mass + weight_of[:, place, letter, None]
            weights = [
                sum((weight_of[:, place][:, at] for place, at in columns), np.zeros(mask.shape))
                for mask, columns in zip(self.sets.rectangles, self._columns, strict=True)
            ]
            self._heads[head] = _Met(weights, mass, slack)
        return self._heads[head]

    @cached_property
    def _by_reader(self) -> list[tuple[Keys, Index]]:
        """The keys of each reader, and the sets that it reads."""
        distinct = {id(key): key for key in self.keys}
        return [
            (key, np.flatnonzero([key is one for one in self.keys])) for key in distinct.values()
        ]

    @cached_property
    def _columns(self) -> list[list[tuple[int, Index]]]:
        """For each stage its places, and the letters `[group slot]` there."""
        columns = []
        for stage, layout in zip(self.sets.trellis.stages, self.sets.layouts, strict=True):
            placed = stage.letters[np.minimum(layout.edge, len(stage) - 1)]
            columns.append([(place, placed[..., i]) for i, place in enumerate(stage.places)])
        return columns


@dataclass
class _Met:
    """Weights `[region group slot]` of each stage, of what is fixed, and what all are off by."""

    weights: list[Floats]
    mass: Floats
    slack: Floats
