"""A region whose inputs hardly differ, decided around one of them beyond the reach of float64.

The margins of one path are computed in balls. Any other path of the region moves the residual
stream by a sum over stages, each term of which float64 knows relative to its own small size, and
the margins by that times a slope (the mean value theorem, slopes enclosed over the whole region).
So each margin is a constant plus a sum over stages with tiny errors: ranges over all paths are one
sweep, and single paths are told apart far below what float64 tells of the margin itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.bounds.intervals import LEAST_WEIGHT, UNIT, Array, Interval
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
        moves = moves_of(bounds, region, reader, string)
        around = reach(moves)
    if not np.isfinite(around).all():
        return None
    with ctx.workprec(128):
        balls, slopes = tangent(exact, string, label, around.tolist())
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


def moves_of(
    bounds: Bounds, region: Regions, reader: int, string: Sequence[int]
) -> list[tuple[Array, Array]]:
    """How the edges of one region move the residual stream away from one of its paths.

    A head's mean is m + Σ w (v - m) / Σ w for any m. With m the mean of the path, another path
    differs by the sum of what its letters have more than the path's own, over its weight. Where
    attention hardly sees the letters that vary, this is far below what float64 tells of x.

    Returns:
        Per stage shifts and rooms `[kept edge d]`: a path is moved by the sum of the shifts of
        its edges, up to the sum of their rooms.
    """
    keys, letters = bounds.keys, np.asarray(string)
    places, d = np.arange(bounds.trellis.length), len(bounds.largest)
    kept = [stage.letters[mask[0]] for stage, mask in zip(
        bounds.trellis.stages, region.masks, strict=True)]  # fmt: skip
    moves = [(np.zeros((len(rows), d)), np.zeros((len(rows), d))) for rows in kept]
    for head in range(len(bounds.probes)):
        weights, values = keys.weights[reader, head], keys.values.values[head]
        least, most = bounds.sweeps.weights_of(region, np.array([reader]), head)
        w, v, own = weights[places, letters], values[places, letters], keys.own_weights
        moment = w @ v + own[reader, head] * keys.own_values.values[head][reader]
        mean = moment / (w.sum() + own[reader, head])
        if not least[0] > LEAST_WEIGHT:
            mean = mean * np.nan
        size = np.abs(values).max((0, 1)) + np.abs(mean)
        over = 2 / (least[0] + most[0])
        share = (most[0] - least[0]) / (2 * least[0]) * (1 + 16 * UNIT) + 16 * UNIT
        for (shift, room), stage, rows in zip(moves, bounds.trellis.stages, kept, strict=True):
            at = list(stage.places)
            differs = (rows != letters[at]).astype(float)  # the rest is the path's own, exactly
            weight, offset = weights[at, rows], values[at, rows] - mean
            moved = np.einsum("ep,epd->ed", differs * weight, offset)
            moved = (moved - (differs * w[at]) @ (v[at] - mean)) * over
            # What the mean rounds is divided by the path's own weight, the least at worst.
            changed = (differs * (weight + w[at])).sum(1) / least[0]
            shift += moved
            room += share * np.abs(moved)
            room += 64 * (len(places) + 9) * UNIT * changed[:, None] * size + 1e-290 * (
                changed[:, None] > 0
            )
    return moves


def reach(moves: list[tuple[Array, Array]]) -> Array:
    """The farthest that any path of a region lies from its own, `[d]`."""
    total = sum((np.abs(shift) + room).max(0) for shift, room in moves)
    return np.asarray(total * (1 + 1e-9) + 1e-290)


def _floats(rows: list[list[object]]) -> tuple[Array, Array]:
    """Balls as middles and radii."""
    middle = np.array([[float(x.mid()) for x in row] for row in rows])  # type: ignore[attr-defined]
    radius = np.array([[float(x.rad()) for x in row] for row in rows])  # type: ignore[attr-defined]
    return middle, radius * (1 + 1e-9) + 2 * UNIT * np.abs(middle) + 1e-300


# -- slopes of the margins by the residual stream before the MLP, in balls ----------------------


def tangent(
    exact: OrderedExact, string: Sequence[int], label: int, around: Sequence[float]
) -> tuple[list[Any], list[list[Any]]]:
    """`differences` times the final norm's scale, and their slopes within a reach.

    Returns:
        Margins of the string `[class]`, and enclosures `[d class]` of their derivatives by the
        residual stream before the MLP, wherever it is moved by at most `around [d]`.
    """
    x = exact.stream(string)
    box = x + arb_mat([[arb(0, radius) for radius in around]])
    return exact.scaled_gaps(x, label)[0].tolist()[0], exact.scaled_gaps(box, label)[1].tolist()
