"""Dynamic programming over a trellis, for many regions and functionals at once.

A *job* is one region, one functional q of a head's coordinates and one level λ. The edge e of a
stage scores Σ w (q · μ - λ) over the keys it places, and one sweep finds the path with the largest
total. The largest mean of q · μ over all paths of a region is the λ at which that total is zero
(Dinkelbach): a path's own mean is a better λ than the one it was found with. After any number of
sweeps, λ + total / (least weight of a path) bounds every mean from above.

Numbers are float64, and what they round is bounded once for all sweeps (`reach`): a total over n
places is a sum of terms, each off by a few units of w (|q| · |μ| + |λ|).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.verification.bounds.intervals import LEAST_WEIGHT, MEAN_TINY, UNIT, Array
from tsc_interp.verification.order.keys import WEIGHT_UNITS, Keys, used_letters
from tsc_interp.verification.order.scores import Layout, Scores

_NUMBERS_AT_ONCE = 1 << 19


@dataclass(frozen=True)
class Head:
    """One head's values in few coordinates: v = centre + basis μ, up to `slop`.

    centre [d], basis [d k], slop [d]; mu [place letter k] with |μ| at most `size` [k].
    """

    centre: Array
    basis: Array
    slop: Array
    mu: Array
    size: Array

    @property
    def rank(self) -> int:
        return int(self.basis.shape[1])


_SMALL = 1e-6
"""Singular values below this share of the largest are slop: float32 factors round to that."""


def head_of(keys: Keys, head: int, used: Mask) -> Head:
    """The affine span of the values that occur, by singular value decomposition."""
    values, errors = keys.values.values[head], keys.values.errors[head]
    rows = values[used]
    own = keys.own_weights[:, head] > 0
    rows = np.concatenate([rows, keys.own_values.values[head][own]])
    off = np.concatenate([errors[used], keys.own_values.errors[head][own]]).max(0)
    centre = rows.mean(0)
    _, singular, right = np.linalg.svd(rows - centre, full_matrices=False)
    rank = max(1, int((singular > _SMALL * singular[0]).sum()))
    basis = right[:rank].T
    mu = (values - centre) @ basis
    coordinates = (rows - centre) @ basis
    size = np.abs(coordinates).max(0)
    # What the coordinates leave out, and what adding them up again rounds.
    residue = np.abs(rows - centre - coordinates @ basis.T).max(0)
    units = 4 * (rank + 4) * UNIT * (np.abs(rows).max(0) + np.abs(centre) + np.abs(basis) @ size)
    return Head(centre, basis, residue + units + off, mu, size)


class Sweeps:
    """A trellis with the weights and coordinates of every edge, for each reader and head."""

    def __init__(self, trellis: Trellis, keys: Keys) -> None:
        self.trellis, self.keys = trellis, keys
        self.layouts = [Layout(stage) for stage in trellis.stages]
        n_heads, n_letters = keys.weights.shape[1], keys.weights.shape[3]
        used = used_letters(trellis, n_letters)
        self.heads = [head_of(keys, head, used) for head in range(n_heads)]
        self.weight: list[list[Array]] = []
        self.moment: list[list[Array]] = []
        """`[head][stage]`: Σ w `[reader flat]` and Σ w μ `[reader k flat]`."""
        self.base_weight, self.base_moment = [], []
        for number, head in enumerate(self.heads):
            parts = [self._stage(number, head, i) for i in range(len(trellis.stages))]
            self.weight.append([part[0] for part in parts])
            self.moment.append([part[1] for part in parts])
            weight, moment = self._fixed(number, head)
            self.base_weight.append(weight)
            self.base_moment.append(moment)
        widest = max(len(layout.flat) for layout in self.layouts)
        self.at_once = max(8, _NUMBERS_AT_ONCE // max(widest * 4, trellis.n_edges))
        """Jobs that fit into the cache together."""
        self.units = 2 * (trellis.length + 16 + WEIGHT_UNITS) * UNIT

    def _stage(self, number: int, head: Head, index: int) -> tuple[Array, Array]:
        stage, layout = self.trellis.stages[index], self.layouts[index]
        edges = np.minimum(layout.flat, len(stage) - 1)
        letters = stage.letters[edges]
        weights = self.keys.weights[:, number]
        total = np.zeros((len(weights), len(edges)))
        moment = np.zeros((len(weights), head.rank, len(edges)))
        for column, place in enumerate(stage.places):
            w = weights[:, place, letters[:, column]]
            total += w
            moment += w[:, None] * head.mu[place, letters[:, column]].T
        return total, moment

    def _fixed(self, number: int, head: Head) -> tuple[Array, Array]:
        weight = self.keys.own_weights[:, number].copy()
        own = (self.keys.own_values.values[number] - head.centre) @ head.basis
        moment = weight[:, None] * own
        for place, letter in self.trellis.fixed:
            w = self.keys.weights[:, number, place, letter]
            weight += w
            moment += w[:, None] * head.mu[place, letter]
        return weight, moment

    def weights_of(self, regions: Regions, reader: Index, head: int) -> tuple[Array, Array]:
        """At most the least, and at least the largest, weight of a path: `[region]`."""
        least = self.base_weight[head][reader].copy()
        most = least.copy()
        for stage, layout, mask in zip(self.weight[head], self.layouts, regions.masks, strict=True):
            weights = stage[:, layout.place][reader]
            least += np.where(mask, weights, np.inf).min(1)
            most += np.where(mask, weights, 0.0).max(1)
        return least * (1 - self.units), most * (1 + self.units)

    def reach(self, head: int, q: Array) -> Array:
        """More than rounding moves a mean of q · μ: `[job]`."""
        span = self.heads[head]
        return np.asarray(2 * (self.units + 4 * span.rank * UNIT) * (np.abs(q) @ span.size))


class Jobs:
    """Scores of a batch: `a - λ b` per stage, -inf at edges outside the region.

    For regions by number `rows [job]`, with the readers' tables, and `q [job k]`.
    """

    def __init__(
        self, sweeps: Sweeps, regions: Regions, rows: Index, reader: Index, head: int, q: Array
    ) -> None:
        self.sweeps, self.head, self.reader = sweeps, head, reader
        self.b = [weight[reader] for weight in sweeps.weight[head]]
        self.a = []
        for moment, layout, mask in zip(
            sweeps.moment[head], sweeps.layouts, regions.masks, strict=True
        ):
            scores = _contract(moment, reader, q)
            inside = np.zeros((len(mask), mask.shape[1] + 1), dtype=bool)
            inside[:, :-1] = mask
            scores[~inside[:, layout.flat][rows]] = -np.inf
            self.a.append(scores)
        self.a0 = np.einsum("jk,jk->j", sweeps.base_moment[head][reader], q)
        self.b0 = sweeps.base_weight[head][reader]

    def __len__(self) -> int:
        return len(self.a0)

    def negated(self) -> Jobs:
        """The same with the functional's sign changed."""
        negated = copy(self)
        negated.a, negated.a0 = [np.where(np.isfinite(a), -a, a) for a in self.a], -self.a0
        return negated

    def mixed(
        self, jobs: Sequence[Jobs], parts: Sequence[tuple[Array, Array]], total: Array
    ) -> Jobs:
        """One job for several heads: `total` + Σ_h (a_h - level b_h) · over, `parts` per head."""
        mixed = copy(self)
        mixed.a = [np.zeros(a.shape) for a in self.a]
        mixed.b = [np.zeros(a.shape) for a in self.a]
        mixed.a0, mixed.b0 = total, np.zeros(len(self))
        for head_jobs, (level, over) in zip(jobs, parts, strict=True):
            mixed.a0 = mixed.a0 + (head_jobs.a0 - level * head_jobs.b0) * over
            for score, a, b in zip(mixed.a, head_jobs.a, head_jobs.b, strict=True):
                score += (a - level[:, None] * b) * over[:, None]
        return mixed

    def average(self) -> Array:
        """Somewhere to begin: the mean over all edges."""
        inside = [np.isfinite(a) for a in self.a]
        top = self.a0 + sum(np.where(i, a, 0).sum(1) for i, a in zip(inside, self.a, strict=True))
        low = self.b0 + sum((b * i).sum(1) for i, b in zip(inside, self.b, strict=True))
        return np.asarray(top / low)

    def sweep(self, level: Array) -> tuple[Array, Array]:
        """The largest total at this level, and the weight of the path that has it: `[job]`."""
        value = np.zeros((len(self), 1))
        picks = []
        rows = np.arange(len(self))
        for a, b, layout in zip(self.a, self.b, self.sweeps.layouts, strict=True):
            score = (a - level[:, None] * b).reshape(len(self), *layout.edge.shape)
            inner = score.argmax(2)
            best = np.take_along_axis(score, inner[:, :, None], 2)[:, :, 0]
            best += value[:, layout.source]
            if layout.incoming.shape == (1, 1):
                outer = np.zeros((len(self), 1), dtype=np.int64)
                value = best
            else:
                padded = np.concatenate([best, np.full((len(self), 1), -np.inf)], axis=1)
                spread = padded[:, layout.incoming]
                column = spread.argmax(2)
                value = np.take_along_axis(spread, column[:, :, None], 2)[:, :, 0]
                outer = layout.incoming[np.arange(layout.incoming.shape[0]), column]
            picks.append((inner, outer))
        state = value.argmax(1)
        total = value[rows, state] + (self.a0 - level * self.b0)
        weight = self.b0.copy()
        for i in reversed(range(len(picks))):
            (inner, outer), layout = picks[i], self.sweeps.layouts[i]
            group = np.minimum(outer[rows, state], len(layout.source) - 1)
            column = inner[rows, group]
            weight += self.b[i][rows, group * layout.edge.shape[1] + column]
            state = layout.source[group]
        return total, weight

    def largest(self, level: Array, least: Array, most: Array, sweeps: int) -> tuple[Array, Array]:
        """At least the largest mean of every job, and the largest one found.

        `level` is where to begin; `least` and `most` are bounds on the weight of a path.
        """
        size = np.abs(np.where(np.isfinite(level), level, 0.0))
        bound = np.full(len(self), np.inf)
        reached = np.full(len(self), -np.inf)
        for _ in range(sweeps):
            total, weight = self.sweep(level)
            over = level + np.maximum(total, 0) / least + np.minimum(total, 0) / most
            bound = np.minimum(bound, np.where(np.isnan(over), np.inf, over))
            mean = level + total / weight
            reached = np.fmax(reached, mean)
            size = np.maximum(size, np.abs(mean))
            if (bound - reached <= 1e-12 * (size + 1e-300)).all():
                break
            level = np.where(np.isfinite(mean), mean, level)
        return np.where(least > LEAST_WEIGHT, bound + MEAN_TINY, np.inf), reached

    def at(self, level: Array) -> Scores:
        """The scores at one level."""
        scores = [np.ascontiguousarray((a - level[:, None] * b).T)
                 for a, b in zip(self.a, self.b, strict=True)]  # fmt: skip
        return Scores(self.sweeps.layouts, scores, self.a0 - level * self.b0)


def _contract(moment: Array, reader: Index, q: Array) -> Array:
    """q · Σ w μ for each job: `[job flat]`."""
    out = np.empty((len(q), moment.shape[2]))
    for token in np.unique(reader):
        rows = reader == token
        out[rows] = q[rows] @ moment[token]
    return out
