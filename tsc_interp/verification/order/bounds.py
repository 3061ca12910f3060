"""Bounds on the margins of regions: supports of each head, linear forms, and what they decide.

A head's mean lies in few dimensions. In one or two, its support is found in fixed directions, and
any other functional is bounded by the two directions next to it. In more, each channel that the
relaxation needs is a direction of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.verification.bounds.intervals import LEAST_WEIGHT, UNIT, Array, Interval
from tsc_interp.verification.order.directions import Bounded, Probe
from tsc_interp.verification.order.keys import Keys
from tsc_interp.verification.order.relax import Forms, Relaxation
from tsc_interp.verification.order.scores import Scores, chunks
from tsc_interp.verification.order.sweeps import Jobs, Sweeps

_SWEEPS = 6
_ROUGH = 2
"""Sweeps for the ends of one head of several: they only bound a term that is small."""
STILL, SAME = 1e-5, 1e-9
"""Regions narrower than this, as a share of the values' size, are decided around one input; below
the second float64 hardly tells inputs apart."""


class Bounds:
    """Bounds for regions of one trellis."""

    few = 512
    """Regions of so few paths are looked at path by path, which is cheaper than bounding them."""
    refines = True
    """Whether `scores` tell more of a margin than `bounded`."""

    def __init__(self, config: ClassifierConfig, trellis: Trellis, keys: Keys) -> None:
        self.config, self.trellis, self.keys = config, trellis, keys
        self.sweeps = Sweeps(trellis, keys)
        self.at_once = self.sweeps.at_once
        heads = self.sweeps.heads
        largest = np.abs(keys.constant.values).max(0)
        for number in range(len(heads)):
            largest = largest + np.abs(keys.values.values[number]).max((0, 1))
            largest = largest + np.abs(keys.own_values.values[number]).max(0)
        self.largest = largest * (1 + 1e-6)
        self.maps = keys.maps
        self.relaxation = Relaxation(config, keys.maps, self.largest)
        self.channels = self.relaxation.directions
        self.probes = [Probe(head, self.channels) for head in heads]
        self.n_directions = sum(len(probe.q) for probe in self.probes)
        centre = keys.constant.values + sum(head.centre for head in heads)
        self.centre = centre
        """`[reader d]`: the residual stream at the heads' centres."""
        self.slop = keys.constant.errors.max(0) + sum((head.slop for head in heads), np.zeros(()))
        self.slop = self.slop + 4 * UNIT * self.largest

    # -- ranges --------------------------------------------------------------------------------

    def bounded(
        self,
        regions: Regions,
        reader: Index,
        label: Index,
        start: Array | None = None,
        doubt: Mask | None = None,
    ) -> Bounded:
        """Forms, and margins by the directions alone; of classes not in `doubt` nothing counts."""
        weights = [self.sweeps.weights_of(regions, reader, h) for h in range(len(self.probes))]
        starts = [None] * len(weights) if start is None else self._by_head(start)
        pairs = [
            self._support(regions, reader, head, known_levels, *weights[head])
            for head, known_levels in enumerate(starts)
        ]
        support = [bound for bound, _ in pairs]
        levels = np.concatenate([np.empty((len(regions), 0)), *(level for _, level in pairs)], 1)
        ranges = self._ranges(support, self._joint(regions, reader, support, weights), reader)
        forms = self.relaxation.forms(*ranges, label)
        low, high = self._by_directions(forms, support, ranges, reader)
        # Where outputs are the same the forms are infinite, and that is the margin.
        low = np.where(np.isinf(forms.low), forms.low, low + forms.low)
        high = np.where(np.isinf(forms.high), forms.high, high + forms.high)
        if doubt is not None:
            low[~doubt] = np.inf
        return Bounded(regions, reader, label, levels, low, high, forms, weights)

    def _by_head(self, levels: Array) -> list[Array]:
        """Levels `[... direction]` of all heads as those of each."""
        ends = np.cumsum([len(probe.q) for probe in self.probes], dtype=np.int64)
        return np.split(levels, ends, axis=-1)[:-1]

    def _support(
        self,
        regions: Regions,
        reader: Index,
        head: int,
        start: Array | None,
        least: Array,
        most: Array,
    ) -> tuple[Array, Array]:
        """At least the largest mean in each direction `[region direction]`, and one found."""
        q = self.probes[head].q
        bound = np.empty((len(regions), len(q)))
        reached = np.empty_like(bound)
        if not len(q):
            return bound, reached
        for chunk, rows, direction in self._blocks(len(regions), len(q)):
            jobs = Jobs(self.sweeps, regions, rows, reader[rows], head, q[direction])
            level = jobs.average() if start is None else start[rows, direction]
            level = np.where(np.isfinite(level), level, 0.0)
            largest = jobs.largest(level, least[rows], most[rows], _SWEEPS)
            bound[chunk] = largest[0].reshape(len(chunk), -1)
            reached[chunk] = largest[1].reshape(len(chunk), -1)
        bound = bound + self.sweeps.reach(head, q)
        return np.minimum(bound, np.abs(q) @ self.sweeps.heads[head].size * (1 + 1e-12)), reached

    def _blocks(self, regions: int, width: int) -> Iterator[tuple[Index, Index, Index]]:
        """Some regions at a time, and each of them `width` times: the region and which time."""
        for chunk in chunks(regions, max(1, self.at_once // max(1, width))):
            chosen = np.arange(regions)[chunk]
            yield chosen, np.repeat(chosen, width), np.tile(np.arange(width), len(chosen))

    def _reaches(self, support: list[Array]) -> list[Array]:
        """What each head adds along a channel, and against it, at most: `[region 2 channel]`."""
        reaches = []
        for probe, bound in zip(self.probes, support, strict=True):
            mixed = bound @ probe.mix.T
            reaches.append(mixed + probe.left + 16 * UNIT * (np.abs(bound) @ probe.mix.T))
        return reaches

    def _joint(
        self,
        regions: Regions,
        reader: Index,
        support: list[Array],
        weights: Sequence[tuple[Array, Array]],
    ) -> Array:
        """What all heads together add, `[region 2 channel]`: heads may cancel on every path."""
        ends = self._reaches(support)
        apart = sum(ends, np.zeros((len(regions), 2 * len(self.channels))))
        if len(self.probes) < 2:
            return apart
        q = np.concatenate([self.channels, -self.channels])
        against = np.roll(np.arange(len(q)), len(self.channels))
        reach = self._reach(q)
        for chunk, rows, direction in self._blocks(len(regions), len(q)):
            jobs = self.jobs(regions, rows, reader[rows], q[direction], 1)
            reached = [(end[rows, direction], -end[rows, against[direction]]) for end in ends]
            mixed = self._mixed(jobs, reached, q[direction], weights, rows, np.zeros(len(rows)))
            joint = mixed.at(np.zeros(len(rows))).highest().reshape(len(chunk), -1) + reach
            apart[chunk] = np.fmin(apart[chunk], joint)
        return apart

    def _ranges(self, support: list[Array], added: Array, reader: Index) -> Interval:
        """Ranges of every channel, `[region channel]`; `added` is what heads add both ways."""
        count = len(self.channels)
        middle = self.centre[reader] @ self.channels.T
        off = np.abs(self.channels) @ self.slop
        off = off + 4 * (len(self.largest) + 4) * UNIT * (np.abs(self.channels) @ self.largest)
        off = off + 8 * UNIT * (np.abs(self.channels) @ self.largest)
        return middle - off - added[:, count:], middle + off + added[:, :count]

    def _by_directions(
        self, forms: Forms, support: list[Array], ranges: Interval, reader: Index
    ) -> Interval:
        """Ranges of slope · x, `[region class]`; infinite where no cheap bound is known."""
        slope = forms.slope
        if all(probe.head.rank <= 2 for probe in self.probes):
            middle, off = self.middle(slope, reader)
            low, high = middle - off, middle + off
            for probe, bound in zip(self.probes, support, strict=True):
                q = slope @ probe.head.basis
                for sign in (1, -1):
                    mix = probe.mixed(sign * q)
                    reach = np.einsum("rjf,rf->rj", mix, bound)
                    reach = reach + 64 * UNIT * (np.abs(q) @ probe.head.size)
                    low, high = (low, high + reach) if sign > 0 else (low - reach, high)
            return low, high
        state = self.keys.maps.state
        if state is not None and not self.config.centred_norm and self.config.has_mlp:
            d = len(self.largest)
            count = self.channels.shape[0] - d * (1 + self.maps.needs_scale)
            x = ranges[0][:, None, count : count + d], ranges[1][:, None, count : count + d]
            up, down = np.maximum(slope, 0), np.minimum(slope, 0)
            off = 4 * (d + 4) * UNIT * (np.abs(slope) @ self.largest)
            low = (up * x[0] + down * x[1]).sum(2) - off
            return low, (up * x[1] + down * x[0]).sum(2) + off
        unbounded = np.full(slope.shape[:2], np.inf)
        return -unbounded, unbounded

    def middle(self, slope: Array, reader: Index) -> tuple[Array, Array]:
        """slope · x at the heads' centres, and how far slope · x is off what coordinates say."""
        size = np.abs(slope)
        at = self.centre[reader]
        value = np.einsum("r...d,rd->r...", slope, at)
        off = size @ self.slop + 8 * (len(self.largest) + 4) * UNIT * (size @ self.largest)
        return value, off

    # -- pairs of a region and a class ---------------------------------------------------------

    def scores(self, known: Bounded, rows: Index, which: Index, sign: int) -> Scores:
        """Where totals stay below 0, the margin of a region over a class has the sign -`sign`.

        One head's mean is below a level where its total there is. Means of several heads are added
        up first: with T_h the total of head h at any level λ_h, their sum is Σ λ_h + Σ T_h / W_h,
        and the weight W_h of a path is replaced by the middle W of its range, which costs at most
        |T_h / W_h| |W_h / W - 1|.
        """
        forms, reader = known.forms, known.reader[rows]
        assert forms is not None
        slope = forms.slope[rows, which]
        middle, off = self.middle(slope, reader)
        ends = forms.low[rows, which] + middle if sign < 0 else -forms.high[rows, which] - middle
        # What Σ_h sign · q_h · μ_h must stay below, so that the margin is on one side of zero.
        limit = ends - off - self._reach(slope) - 4 * UNIT * np.abs(middle)
        jobs = self.jobs(known.regions, rows, reader, slope, sign)
        if len(jobs) == 1:
            return jobs[0].at(limit)
        reached = []
        for job, (least, most) in zip(jobs, known.weights, strict=True):
            start = job.average()
            start = np.where(np.isfinite(start), start, 0.0)
            top = job.largest(start, least[rows], most[rows], _ROUGH)[0]
            bottom = job.negated().largest(-start, least[rows], most[rows], _ROUGH)[0]
            reached.append((top, -bottom))
        mixed = self._mixed(jobs, reached, sign * slope, known.weights, rows, limit)
        return mixed.at(np.zeros(len(limit)))

    def _reach(self, slope: Array) -> Array:
        """More than rounding moves Σ_h q_h · μ_h."""
        reaches = [self.sweeps.reach(i, slope @ h.basis) for i, h in enumerate(self.sweeps.heads)]
        return sum(reaches, np.zeros(len(slope)))

    def jobs(
        self, regions: Regions, rows: Index, reader: Index, slope: Array, sign: int
    ) -> list[Jobs]:
        """For each head jobs whose largest total bounds sign · slope · x from above."""
        return [
            Jobs(self.sweeps, regions, rows, reader, number, sign * (slope @ head.basis))
            for number, head in enumerate(self.sweeps.heads)
        ]

    def _mixed(
        self,
        jobs: list[Jobs],
        ends: Sequence[tuple[Array, Array]],
        slope: Array,
        weights: Sequence[tuple[Array, Array]],
        rows: Index,
        limit: Array,
    ) -> Jobs:
        """Totals are at least Σ_h q_h · μ_h - `limit`, from the ends of each head's q_h · μ_h."""
        total = 16 * UNIT * np.abs(limit) - limit
        parts: list[tuple[Array, Array]] = []
        for head, (top, bottom), (least, most) in zip(
            self.sweeps.heads, ends, weights, strict=True
        ):
            low, high = least[rows], most[rows]
            level = (top + bottom) / 2
            level = np.where(np.isfinite(level), level, 0.0)
            over = 2 / (low + high)
            size = np.abs(slope @ head.basis) @ head.size + np.abs(level)
            apart = np.maximum(top - level, level - bottom) * ((high - low) / (high + low))
            room = 4 * self.sweeps.units * size * high * over
            total = total + level + apart * (1 + 1e-12) + room + 8 * UNIT * np.abs(level)
            parts.append((level, over))
        return jobs[0].mixed(jobs, parts, total)

    # -- regions that hardly move -------------------------------------------------------------

    def is_still(self, levels: Array, share: float) -> bool:
        """Whether a region's means differ by at most this share of the values' size."""
        for probe, level in zip(self.probes, self._by_head(levels), strict=True):
            half = len(level) // 2
            # Directions come in opposite pairs: their largest means add up to the width.
            width = level[:half] + level[half:]
            narrow = width <= share * np.abs(probe.q[:half]) @ probe.head.size
            if not half or not narrow.all():
                return False
        return bool(self.probes)

    # -- single inputs -------------------------------------------------------------------------

    def points(self, letters: Index, reader: Index, label: Index, which: Index) -> Interval:
        """Margins of single inputs `[input place]` over classes `which [input column]`."""
        keys, places = self.keys, np.arange(self.trellis.length)
        x = keys.constant.values[reader]
        for head in range(len(self.probes)):
            w = keys.weights[reader[:, None], head, places, letters]
            v = keys.values.values[head][places, letters]
            own = keys.own_weights[reader, head]
            total = w.sum(1) + own
            # Weights that small may have underflowed: nothing is known then.
            total = np.where(total > LEAST_WEIGHT, total, np.nan)
            moment = np.einsum("np,npd->nd", w, v)
            moment = moment + own[:, None] * keys.own_values.values[head][reader]
            x = x + moment / total[:, None]
        off = 8 * (self.trellis.length + 24) * UNIT * self.largest + 1e-280
        low, high = self.relaxation.single(x, off, label)
        return np.take_along_axis(low, which, 1), np.take_along_axis(high, which, 1)
