"""A region whose inputs hardly differ, decided around one of them beyond the reach of float64.

The margins of one path are computed in balls. Any other path of the region moves the residual
stream by a sum over stages, each term of which float64 knows relative to its own small size, and
the margins by that times a slope (the mean value theorem, slopes enclosed over the whole region).
So each margin is a constant plus a sum over stages with tiny errors: ranges over all paths are one
sweep, and single paths are told apart far below what float64 tells of the margin itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import ctx

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.bounds.intervals import UNIT, Array, Interval
from tsc_interp.verification.order.bounds import Bounds
from tsc_interp.verification.order.exact import OrderedExact


@dataclass(frozen=True)
class Tangent:
    """Margins of one region: `margin` ± `off` [class], and per stage what each edge adds.

    edges [stage][kept], score and room [stage][kept class]
    """

    region: Regions
    margin: Array
    off: Array
    edges: list[Index]
    score: list[Array]
    room: list[Array]

    def ranges(self) -> Interval:
        """Of every margin over all paths, `[class]`."""
        ends = []
        for sign in (-1, 1):
            value = np.zeros((1, len(self.margin)))
            stages = self.region.trellis.stages
            sizes = self.region.trellis.sizes[1:]
            for number, (stage, kept, size) in enumerate(
                zip(stages, self.edges, sizes, strict=True)
            ):
                best = value[stage.source[kept]] + sign * self.score[number] + self.room[number]
                value = np.full((size, len(self.margin)), -np.inf)
                np.maximum.at(value, stage.target[kept], best)
            ends.append(sign * self.margin + self.off + value.max(0))
        return -ends[0], ends[1]

    def paths(self, classes: Index) -> tuple[Index, Array, Array]:
        """Every path: letters `[path place]`, and the ends of some margins `[path class]`."""
        trellis = self.region.trellis
        state = np.zeros(1, dtype=np.int64)
        letters = np.zeros((1, trellis.length), dtype=np.int64)
        for place, letter in trellis.fixed:
            letters[:, place] = letter
        value, room = self.margin[None, classes], self.off[None, classes]
        for number, (stage, kept) in enumerate(zip(trellis.stages, self.edges, strict=True)):
            row, at = np.nonzero(stage.source[kept] == state[:, None])
            edge = kept[at]
            state, letters = stage.target[edge], letters[row]
            letters[:, list(stage.places)] = stage.letters[edge]
            value = value[row] + self.score[number][at][:, classes]
            room = room[row] + self.room[number][at][:, classes]
        return letters, value - room, value + room

    def halves(self, which: int) -> tuple[int, Mask]:
        """The stage that moves a margin most, and the edges that lower it more than half."""
        spread = [np.ptp(score[:, which]) if len(score) > 1 else -1.0 for score in self.score]
        stage = int(np.argmax(spread))
        score, kept = self.score[stage][:, which], self.edges[stage]
        low = score < (score.min() + score.max()) / 2
        if not low.any() or low.all():
            low = np.arange(len(kept)) < len(kept) / 2
        part = np.zeros(len(self.region.trellis.stages[stage]), dtype=bool)
        part[kept[low]] = True
        return stage, part


def tangent_of(
    bounds: Bounds, exact: OrderedExact, region: Regions, reader: int, label: int
) -> Tangent | None:
    """For one region; None where nothing finite is known."""
    string = region.any_path(0)
    with np.errstate(all="ignore"):
        moves = bounds.moves(region, reader, string)
        around = reach(moves)
    if not np.isfinite(around).all():
        return None
    with ctx.workprec(128):
        balls, slopes = exact.tangent(string, label, around.tolist())
        margin, off = _floats([balls])
        slope, radius = _floats(slopes)
    units = 8 * (len(moves) + len(around) + 8) * UNIT
    margin, off = margin[0], off[0] + units * np.abs(margin[0])
    if not (np.isfinite(off).all() and np.isfinite(radius).all()):
        return None
    classes = np.arange(len(margin))
    same = bounds.keys.maps.same[label]
    margin = np.where(same, np.where(classes >= label, np.inf, -np.inf), margin)
    slope, radius = np.where(same, 0.0, slope), np.where(same, 0.0, radius)
    scores, rooms = [], []
    for shift, room in moves:
        size = np.abs(shift) + room
        scores.append(shift @ slope)
        rooms.append(room @ np.abs(slope) + size @ (radius + units * np.abs(slope)))
    edges = [np.flatnonzero(mask[0]) for mask in region.masks]
    return Tangent(region, margin, np.where(same, 0.0, off), edges, scores, rooms)


def reach(moves: list[tuple[Array, Array]]) -> Array:
    """The farthest that any path of a region lies from its own, `[d]`."""
    total = sum((np.abs(shift) + room).max(0) for shift, room in moves)
    return np.asarray(total * (1 + 1e-9) + 1e-290)


def _floats(rows: list[list[object]]) -> tuple[Array, Array]:
    """Balls as middles and radii."""
    middle = np.array([[float(x.mid()) for x in row] for row in rows])  # type: ignore[attr-defined]
    radius = np.array([[float(x.rad()) for x in row] for row in rows])  # type: ignore[attr-defined]
    return middle, radius * (1 + 1e-9) + 2 * UNIT * np.abs(middle) + 1e-300
