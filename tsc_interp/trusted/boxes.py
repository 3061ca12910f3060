"""Boxes of how often each letter of a support occurs, and what attention makes of them.

    a box       every letter from `low` to `high` times, all ends whole numbers
    a chart     one letter weighs 1, the others (and CLS) from `low` to `high`: ratios, any length
    a tail      all inputs from n letters on, scores scaled by log n
    a limit     all attention on one letter

A key of a letter weighs its count times exp(score), somewhere in an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tsc_interp.trusted.means import Mask, Stage, Sums, together
from tsc_interp.trusted.spans import UNIT, Floats, Span, exponential, up

_ONE_STATE = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Boxes:
    """Some regions of one kind and one support.

    low, high [region key]: multiplicities, CLS first, then the support's letters
    shortest, longest [region]: numbers of letters, where scores grow with log n
    tail: every input from `shortest` letters on, however often each letter occurs
    """

    low: Floats
    high: Floats
    shortest: Sequence[int] = ()
    longest: Sequence[int] = ()
    tail: bool = False

    @classmethod
    def of_counts(cls, low: Floats, high: Floats, attend_cls: bool, length: int) -> Boxes:
        """Boxes of counts `[region letter]`, of the strings in them up to a length."""
        # Larger counts make a string longer than that.
        high = np.minimum(high, low + (length - low.sum(1, keepdims=True)))
        own = np.full((len(low), 1), float(attend_cls))
        shortest, longest = low.sum(1).astype(int), np.minimum(high.sum(1), length).astype(int)
        ends = np.hstack([own, low]), np.hstack([own, high])
        return cls(*ends, shortest.tolist(), longest.tolist())

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, at: slice) -> Boxes:
        ends = self.low[at], self.high[at], self.shortest[at], self.longest[at]
        return Boxes(*ends, self.tail)


@dataclass(frozen=True)
class Weights:
    """How much keys weigh for one query, relative to one of them: `[head region key]`.

    A free key may weigh anything: the mean is a mixture of the others' mean and its value.
    """

    low: Floats
    high: Floats
    free: Mask

    @classmethod
    def of(cls, gaps: Span, powers: Span | None, logs: Span | None, boxes: Boxes) -> Weights:
        """From scores relative to a key's.

        Args:
            gaps: `[head region key]`, without log n.
            powers: Their exp, where it is known.
            logs: `[region 1]` what scores are multiplied by, where they are.
            boxes: How often keys occur.
        """
        present = np.broadcast_to(boxes.high > 0, gaps.low.shape)
        if boxes.tail:
            assert logs is not None
            # Relative to one copy of the best key, all copies of another weigh at most n · n^gap:
            # falling in n where the gap is below -1. (Where n counts CLS there are fewer copies.)
            best = (gaps.low == 0) & (gaps.high == 0) & present
            falls = (gaps.high < -1) & present
            reach = exponential((gaps + Span.exact(np.array(1.0))) * logs).high
            high = np.where(best, 1.0, np.where(falls, reach, 0.0))
            return cls(np.where(best, 1.0, 0.0), high, present & ~best & ~falls)
        if logs is not None or powers is None:
            powers = exponential(gaps if logs is None else gaps * logs)
        weights = Span(boxes.low, boxes.high) * powers
        low = np.where(present, np.maximum(weights.low, 0.0), 0.0)
        return cls(low, np.where(present, weights.high, 0.0), np.zeros_like(present))

    def __getitem__(self, head: int) -> Weights:
        return Weights(self.low[head], self.high[head], self.free[head])

    def some(self, regions: NDArray[np.int64]) -> Weights:
        """Those of some regions."""
        return Weights(self.low[:, regions], self.high[:, regions], self.free[:, regions])

    def flat(self) -> Weights:
        """Heads and regions on one axis."""
        keys = self.low.shape[-1]
        low, high = self.low.reshape(-1, keys), self.high.reshape(-1, keys)
        return Weights(low, high, self.free.reshape(-1, keys))

    def sums(self, values: Span, q: Floats) -> Sums:
        """Of directions `q [region row d]` and values `[region key d]`, for one axis of regions."""
        middle, radius = values.middle, values.radius
        d, keys = middle.shape[-1], middle.shape[-2]
        units = (d + 2 * keys + 16) * UNIT
        # A little above q · v, [region row key].
        wide = np.abs(q) @ np.swapaxes(np.abs(middle) + radius, 1, 2)
        above = q @ np.swapaxes(middle, 1, 2) + np.abs(q) @ np.swapaxes(radius, 1, 2)
        above = up(above + up(wide * units))
        stages = []
        for key in range(keys):
            weights = np.stack([self.low[:, key], self.high[:, key]], axis=-1)[:, None]
            scores = weights[:, None] * above[:, :, key, None, None]
            present = np.ones(weights.shape, dtype=bool)
            stages.append(Stage(scores, weights, present, _ONE_STATE, _ONE_STATE[None]))
        slack = 4 * units * (up(wide * (1 + units)) @ self.high[:, :, None])[..., 0]
        mass_slack = 4 * units * self.high.sum(1, keepdims=True)
        free = np.where(self.free[:, None], above, -np.inf).max(2) if self.free.any() else None
        shape = above.shape[:2]
        zero = np.zeros((shape[0], 1))
        return Sums(stages, np.zeros(shape), zero, up(slack), up(mass_slack), units, free)


@dataclass
class BoxRegions:
    """What the reading token holds after the last attention (`margins.Attended`)."""

    base: Span
    weights: Weights
    values: Span
    """`[head region key d]`"""

    @cached_property
    def reach(self) -> Span:
        """Where its residual lies."""
        reach, present = self.base, (self.weights.high > 0) | self.weights.free
        low = np.where(present[..., None], self.values.low, np.inf).min(2)
        high = np.where(present[..., None], self.values.high, -np.inf).max(2)
        for head in range(len(low)):
            reach = reach + Span(low[head], high[head])
        return reach

    def highest(self, q: Floats, enough: Floats | None = None) -> Floats:
        """At least q · (what the heads add) everywhere in a box: `[region row]`."""
        number, heads = len(self.base.low), len(self.values.low)
        rows = np.broadcast_to(q, (number, *q.shape[1:]))
        if not heads:
            return np.zeros(rows.shape[:2])
        flat = Span(*(x.reshape(-1, *x.shape[2:]) for x in (self.values.low, self.values.high)))
        tiled = np.concatenate([rows] * heads)
        bounds = self.weights.flat().sums(flat, tiled).bound(None)
        of_heads = bounds.reshape(heads, number, -1)
        apart = of_heads[0].copy()
        for bound in of_heads[1:]:
            apart = up(apart + bound)
        if heads == 1 or enough is None or self.weights.free.any():
            return np.asarray(apart)
        # Heads may cancel, where that is still asked. Along no direction there is nothing to gain.
        left = np.flatnonzero(~((apart < enough) | ~rows.any(-1)).all(1))
        weights, values = self.weights.some(left), self.values[:, left]

        def sums(head: int, directions: Floats) -> Sums:
            return weights[head].sums(values[head], directions)

        if len(left):
            joint = together(sums, list(of_heads[:, left]), rows[left])
            apart[left] = np.fmin(apart[left], joint)
        return np.asarray(apart)

    def highest_of_each(self, q: Floats, own: NDArray[np.int64]) -> Floats:
        """The same of single inputs of one layer: `[region row]`, each along `q[own[region]]`."""
        values, (groups, rows, d) = self.values[:, 0], q.shape
        turned = Span(np.swapaxes(values.low, 1, 2), np.swapaxes(values.high, 1, 2))
        along = Span.exact(q.reshape(-1, d)) @ turned
        shape = (*values.low.shape[:1], groups, rows, values.low.shape[1])
        scores = Span(along.low.reshape(shape), along.high.reshape(shape))[:, own]
        weights = Span(self.weights.low, self.weights.high)[:, :, None]
        return ((scores * weights).total() * weights.total().inverse()).total(0).high

    def means(self) -> Span:
        """Where the residual stream lies after attention, `[region d]`."""
        d = self.base.low.shape[-1]
        with np.errstate(all="ignore"):
            both = self.highest(np.concatenate([np.eye(d), -np.eye(d)])[None])
        most, least = np.split(both, 2, axis=1)
        found = self.base + Span(-least, most)
        return Span(np.maximum(found.low, self.reach.low), np.minimum(found.high, self.reach.high))
