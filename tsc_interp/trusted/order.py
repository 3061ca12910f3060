"""Regions of an order-sensitive model of one layer: sets of paths of a trellis.

A letter at a place is a key; a reader gives it one weight and one value per head. Tables are made
in `arb` balls, rounded outwards once, and kept as long as they fit into the memory allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, ctx

from tsc_interp.trusted import balls
from tsc_interp.trusted.budget import Budget, Kept
from tsc_interp.trusted.forward import Forward, Spot
from tsc_interp.trusted.margins import BITS, Index
from tsc_interp.trusted.means import Stage, Sums, highest
from tsc_interp.trusted.sets import Mask, Sets
from tsc_interp.trusted.spans import UNIT, Floats, Span, stacked, up
from tsc_interp.trusted.spec import FIRST_LETTER

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
        self, length: int, letters: int, own: bool, tables: Sequence[Span], base: Span, reach: Span
    ) -> None:
        """`tables [key item]` per head: w, w v, place by place; with `own`, the reader last."""
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
        return self._kept.get((length, reader), numbers, lambda: self._make(length, reader))

    def _make(self, length: int, reader: Spot) -> Keys:
        spec, forward, first = self.spec, self.forward, int(self.spec.reads == "first")
        places, letters = range(length), range(spec.n_letters)
        letter_spots = [(FIRST_LETTER + x, place + first) for place in places for x in letters]
        spots = forward.keys(letter_spots, reader)
        tables = []
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
                reach = reach + added.reach(0)[None]
        return Keys(length, spec.n_letters, len(spots) > len(letter_spots), tables, residual[0],
                    reach[0])  # fmt: skip

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
class PathRegions:
    """What the reading token holds after attention, over sets of paths (`margins.Attended`)."""

    sets: Sets
    keys: Sequence[Keys]
    """Of each set's reader."""

    @cached_property
    def base(self) -> Span:
        return stacked([keys.base for keys in self.keys])

    @cached_property
    def reach(self) -> Span:
        return stacked([keys.reach for keys in self.keys])

    def highest(self, q: Floats, enough: Floats | None = None) -> Floats:
        """At least q · (what the heads add) on every path of a set: `[region row]`."""
        heads, rows, number = len(self.keys[0].slack), q.shape[1], len(self.sets)
        step = max(1, _IN_CACHE // (number * self.sets.slots * max(1, heads)))
        bounds = np.zeros((number, rows))
        for start in range(0, rows, step):
            part = np.broadcast_to(
                q[:, start : start + step], (number, min(step, rows - start), q.shape[2])
            )
            wanted = None if enough is None else enough[:, start : start + step]
            bounds[:, start : start + step] = highest(self._sums, heads, part, wanted)
        return bounds

    def _sums(self, head: int, q: Floats) -> Sums:
        sets, keys, length = self.sets, self.keys, self.sets.trellis.length
        letters = keys[0].letters
        scores_of, weight_of = np.empty((*q.shape[:2], length, letters)), None
        weight_of = np.empty((len(sets), length, letters))
        total, slack = np.empty(q.shape[:2]), np.empty(q.shape[:2])
        mass, mass_slack = np.empty((len(sets), 1)), np.empty((len(sets), 1))
        used = sets.used(letters)
        for one in {id(key): key for key in keys}.values():
            at = np.array([key is one for key in keys])
            products = q[at] @ one.moment[head].reshape(q.shape[2], -1)
            scores_of[at] = products.reshape(-1, q.shape[1], length, letters)
            weight_of[at], mass[at] = one.weight[head], one.own_weight[head]
            total[at] = q[at] @ one.own_moment[head]
            slacks = one.slacks(head, used[at])
            slack[at] = (np.abs(q[at]) @ slacks[:, 1:, None])[..., 0]
            mass_slack[at, 0] = slacks[:, 0]
        for place, letter in sets.trellis.fixed:
            total = total + scores_of[:, :, place, letter]
            mass = mass + weight_of[:, place, letter, None]
        stages = []
        for stage, layout, mask in zip(
            sets.trellis.stages, sets.layouts, sets.rectangles, strict=True
        ):
            placed = stage.letters[np.minimum(layout.edge, len(stage) - 1)]
            columns = [(place, placed[..., i]) for i, place in enumerate(stage.places)]
            scores = sum(scores_of[:, :, place][:, :, chosen] for place, chosen in columns)
            weights = np.asarray(sum(weight_of[:, place][:, at] for place, at in columns))
            scores = np.where(mask[:, None], scores, -np.inf)
            stages.append(Stage(scores, weights, mask, layout.source, layout.incoming))
        return Sums(stages, total, mass, slack, mass_slack, keys[0].units)
