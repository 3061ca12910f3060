"""The one bound of a mean: Σ w (q · v) / Σ w over the keys of an input, over a region.

A region is a row of stages with edges. An input takes one edge through each stage, and an edge has
a weight w and a score w (q · v):

    order     the edges are the trellis's that the region has; an edge places one letter or several
    counts    one state; a stage per letter, and two edges: its fewest and its most copies

For any number λ, one sweep over the stages finds the largest Σ w (q · v - λ) of all inputs, and
λ + that / (the least or the largest Σ w) is above every mean. `highest` looks for a good λ by the
input that a sweep finds (Dinkelbach), but every sweep's bound holds whatever λ was: none is
believed. Several heads are bounded one by one, and, since they may cancel on every input, in one
sweep of all.

Sweeps are in float64, and everything that they round is bounded at once: a total is a sum with one
term per key, each off by a few units of w (|q| · |v| + |λ|), and by what underflows (`TINY`). The
assumptions are those of spans.py. A NaN survives every maximum, so it can only fail to show
something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tsc_interp.trusted.spans import TINY, Floats, down, up

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

_SWEEPS = 8
_CLOSE = 2.0**-36
"""Bounds this close to a mean that some input has, relatively, are not improved."""


@dataclass
class Stage:
    """Edges in groups of one source and one target: slots of a group, of which some are empty.

    scores [region row group slot] and weights [region group slot], -inf and 0 where empty; present
    [region group slot]; source [group]; incoming [target most], padded with the number of groups
    """

    scores: Floats
    weights: Floats
    present: Mask
    source: Index
    incoming: Index


@dataclass
class Sums:
    """One head's sums over all inputs of every region, for some directions q.

    total [region row], mass [region 1]: of what every input has besides the stages
    slack [region row], mass_slack [region 1]: how far sums of scores and weights can be off
    free [region row]: values that the mean may reach however little else weighs; -inf without
    """

    stages: list[Stage]
    total: Floats
    mass: Floats
    slack: Floats
    mass_slack: Floats
    units: float
    free: Floats | None = None

    def sweep(self, level: Floats, regions: Index, rows: Index) -> tuple[Floats, Floats]:
        """The largest Σ (scores - level weights) of an input, and that input's Σ w, about.

        `[job]`, each job a row of a region.
        """
        best = heavy = np.zeros((len(level), 1))
        for stage in self.stages:
            weight = stage.weights[regions]
            value = stage.scores[regions, rows] - level[:, None, None] * weight
            slot = value.argmax(2)[..., None]
            groups = np.take_along_axis(value, slot, 2)[..., 0] + best[:, stage.source]
            mass = np.take_along_axis(weight, slot, 2)[..., 0] + heavy[:, stage.source]
            best, heavy = _best(groups, mass, stage.incoming)
        best, heavy = _best(best, heavy, np.arange(best.shape[1])[None])
        total, common_mass = self.total[regions, rows], self.mass[regions, 0]
        return best[:, 0] + (total - level * common_mass), heavy[:, 0] + common_mass

    def largest(self, level: Floats) -> Floats:
        """The largest Σ (scores - level weights) of an input, `[region row]`, about."""
        best = np.zeros((*level.shape, 1))
        for stage in self.stages:
            value = stage.scores - level[..., None, None] * stage.weights[:, None]
            groups = value.max(-1) + best[..., stage.source]
            if stage.incoming.shape[1] > 1:
                pad = np.full((*level.shape, 1), -np.inf)
                groups = np.concatenate([groups, pad], axis=-1)
            best = groups[..., stage.incoming].max(-1)
        return np.asarray(best.max(-1) + (self.total - level * self.mass))

    def bound(self, enough: Floats | None, sweeps: int = _SWEEPS) -> Floats:
        """Above every mean, `[region row]`; where `enough` is given, below that if any bound is."""
        if enough is not None:
            at = tuple(np.ogrid[: enough.shape[0], : enough.shape[1]])
            bounds = self._above(enough, self.largest(enough), at)
            return bounds if self.free is None else np.maximum(bounds, self.free)
        level = self.middle()
        bounds, left = np.full(level.shape, np.inf), np.ones(level.shape, dtype=bool)
        for _ in range(sweeps):
            at = np.nonzero(left)
            total, mass = self.sweep(level[at], *at)
            over, mean = self._above(level[at], total, at), level[at] + total / mass
            bounds[at] = np.minimum(bounds[at], over)  # NaN if one of them is
            close = over - mean <= _CLOSE * (np.abs(mean) + np.abs(over))
            level[at] = np.where(close | ~np.isfinite(mean), level[at], mean)
            left[at] = ~close
            if close.all():
                break
        return bounds if self.free is None else np.maximum(bounds, self.free)

    def _above(self, level: Floats, total: Floats, at: tuple[Index, ...]) -> Floats:
        """What the largest total at a level shows, of these regions and rows."""
        (least, most), (regions, _) = self.masses, at
        slack = self.slack[at] + np.abs(level) * self.mass_slack[regions, 0] + TINY
        excess = up(up(total + up(slack * (1 + self.units))))
        less = np.where(excess > 0, excess / least[regions, 0], excess / most[regions, 0])
        return up(level + up(less))

    @cached_property
    def masses(self) -> tuple[Floats, Floats]:
        """At most the least, and at least the largest Σ w of an input: `[region 1]`."""
        least, most = self.mass, self.mass
        for stage in self.stages:
            least = least + np.where(stage.present, stage.weights, np.inf).min((1, 2))[:, None]
            most = most + np.where(stage.present, stage.weights, 0.0).max((1, 2))[:, None]
        low = down(least - self.mass_slack)
        return np.where(low > 0, low, np.nan), up(most + self.mass_slack)

    def middle(self) -> Floats:
        """Somewhere to begin: the mean over all edges."""
        total, mass = self.total, self.mass
        for stage in self.stages:
            number = stage.present.sum((1, 2))[:, None]
            scores = np.where(stage.present[:, None], stage.scores, 0.0).sum((2, 3))
            total = total + scores / number
            mass = mass + (stage.weights * stage.present).sum((1, 2))[:, None] / number
        return np.asarray(total / mass)


def highest(
    sums: Callable[[int, Floats], Sums], heads: int, q: Floats, enough: Floats | None = None,
    known: Sequence[Floats] | None = None,
) -> Floats:  # fmt: skip
    """Above Σ_heads q · (what the head adds) in all of a region: `[region row]`.

    Args:
        sums: Makes the sums of one head along directions `[region row d]`.
        heads: How many there are.
        q: Directions, exact numbers.
        enough: `[region row]` what bounds need only be below, if they can.
        known: Bounds of each head alone.

    Returns:
        A bound for each, NaN where none could be shown.
    """
    if not heads:
        return np.zeros(q.shape[:2])
    if heads == 1:
        return sums(0, q).bound(enough)
    high = known or [sums(head, q).bound(None) for head in range(heads)]
    apart = high[0]
    for bound in high[1:]:
        apart = up(apart + bound)
    if enough is None or not (apart < enough).all():
        apart = np.fmin(apart, together(sums, high, q))
    return apart


def together(sums: Callable[[int, Floats], Sums], high: Sequence[Floats], q: Floats) -> Floats:
    """Above the sum of all heads' means on every input, on which they may cancel: `[region row]`.

    With W = Σ w and T = Σ w (q · v - λ), a mean is λ + T / M + (mean - λ) (1 - W / M) for any λ and
    any M > 0. One sweep finds the largest Σ_heads T / M of all inputs. The rest is at most how far
    the mean (between its lowest and its highest, `high`) is from λ, times how far W / M is from 1.
    """
    heads = [sums(head, q) for head in range(len(high))]
    low = [-sums(head, -q).bound(None) for head in range(len(high))]
    first = heads[0]
    scores, total = [np.zeros_like(stage.scores) for stage in first.stages], 0.0 * first.total
    offset = np.zeros_like(total)
    for head, least, most in zip(heads, low, high, strict=True):
        level, (light, heavy) = least / 2 + most / 2, head.masses
        mass = light / 2 + heavy / 2
        for scaled, stage in zip(scores, head.stages, strict=True):
            weight = (level[:, :, None, None] * stage.weights[:, None]) / mass[..., None, None]
            scaled += stage.scores / mass[..., None, None] - weight
        total += (head.total - level * head.mass) / mass
        slack = head.slack + np.abs(level) * head.mass_slack + TINY
        offset = up(offset + up(level + up(up(slack * (1 + head.units)) / mass)))
        away = np.maximum(up(most - level), up(level - least))
        apart = np.maximum(up(up(heavy / mass) - 1), up(1 - down(light / mass)))
        offset = up(offset + up(away * apart))
    stages = [
        Stage(scaled, stage.weights, stage.present, stage.source, stage.incoming)
        for scaled, stage in zip(scores, first.stages, strict=True)
    ]
    job = np.nonzero(np.ones(total.shape, dtype=bool))
    joint = Sums(stages, total, first.mass, first.slack, first.mass_slack, first.units)
    largest = joint.sweep(np.zeros(total.size), *job)[0]
    return up(up(largest.reshape(total.shape) + offset) + TINY)


def _best(values: Floats, beside: Floats, rows: Index) -> tuple[Floats, Floats]:
    """The largest of each row of items, and what stands beside it: `[job row]`."""
    if rows.shape[1] == 1:
        return values[:, rows[:, 0]], beside[:, rows[:, 0]]
    pad = np.full((len(values), 1), -np.inf)
    values = np.concatenate([values, pad], axis=1)[:, rows]
    beside = np.concatenate([beside, pad], axis=1)[:, rows]
    slot = values.argmax(2)[..., None]
    return np.take_along_axis(values, slot, 2)[..., 0], np.take_along_axis(beside, slot, 2)[..., 0]
