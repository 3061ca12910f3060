"""Lines around regions of the failure map, as the text of SVG paths.

The same lines as in the page's `assets/contour.mjs`. Paths are written in whole tenths of a unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import floor, hypot
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsc_interp.playground.geometry import (
    BAND,
    CORNERS,
    LATTICE,
    LINE,
    Array,
    lattice,
    outwards,
)


class Point(NamedTuple):
    x: float
    y: float
    border: bool


def trace(values: Array) -> list[list[Point]]:
    """Closed lines around where the values at the lattice's points are positive.

    In every small triangle with both kinds of corners the line joins two sides: a walk round the
    triangle leaves the region at one and enters it at the other. The neighbour continues it.
    """
    side = LATTICE + 3  # with a ring of points outside
    grid = np.full((side, side), np.nan)
    grid[tuple((lattice() + 1).T)] = values
    inside = np.nan_to_num(grid, nan=-1.0) > 0
    onwards: dict[tuple[int, int], tuple[int, int]] = {}
    for triangle in _mixed_triangles(inside):
        leaving = entering = (0, 0)
        for corner, following in zip(triangle, (*triangle[1:], triangle[0]), strict=True):
            if inside.flat[corner] and not inside.flat[following]:
                leaving = corner, following
            elif inside.flat[following] and not inside.flat[corner]:
                entering = following, corner
        onwards[leaving] = entering
    loops = []
    while onwards:
        start = side_of_line = next(iter(onwards))
        loop = []
        while side_of_line in onwards:
            loop.append(side_of_line)
            side_of_line = onwards.pop(side_of_line)
        assert side_of_line == start
        loops.append(_crossings(grid, loop))
    return loops


def _mixed_triangles(inside: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Small triangles with corners of both kinds: places in the flat grid, walked one way."""
    side = len(inside)
    place = np.arange(side * side).reshape(side, side)
    here, right, up, across = place[:-1, :-1], place[:-1, 1:], place[1:, :-1], place[1:, 1:]
    i, j = np.divmod(here, side)
    halves = [
        np.stack([here, up, right], axis=-1)[i + j <= LATTICE + 2],
        np.stack([up, across, right], axis=-1)[i + j <= LATTICE + 1],
    ]
    triangles = np.concatenate(halves)
    kinds = inside.ravel()[triangles]
    mixed = kinds.any(axis=1) & ~kinds.all(axis=1)
    return [(int(a), int(b), int(c)) for a, b, c in triangles[mixed]]


def _crossings(grid: Array, sides: Sequence[tuple[int, int]]) -> list[Point]:
    """Where the value is zero between two points; at the triangle's own edge, the inner point."""
    places = np.array(sides).T
    here, there = grid.ravel()[places]
    border = np.isnan(there)
    share = np.where(border, 0.0, here / (here - there))
    left, right = (step - 1 for step in np.divmod(places, len(grid)))
    shares = np.stack([left, right, LATTICE - left - right], axis=-1) / LATTICE
    inner, outer = shares @ CORNERS
    points = inner + share[:, None] * (outer - inner)
    return list(map(Point, *points.T.tolist(), border.tolist()))


def stretches(values: Array) -> list[tuple[float, float]]:
    """Where along an edge the values at its points are positive: from and to, between 0 and 1."""
    ranges: list[tuple[float, float]] = []
    for i, value in enumerate(values):
        if value <= 0:
            continue
        last = len(values) - 1
        start = end = i / last
        if i > 0 and values[i - 1] <= 0:
            start = (i - value / (value - values[i - 1])) / last
        if i < last and values[i + 1] <= 0:
            end = (i + value / (value - values[i + 1])) / last
        if ranges and i > 0 and values[i - 1] > 0:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    return ranges


# -- text of paths: whole tenths of a unit, each relative to the one before ----------------------


def region_path(loops: Iterable[Sequence[Point]]) -> str:
    return "".join(f"{_walk(loop)}z" for loop in map(_thinned, loops) if len(loop) > 2)


def line_path(loops: Iterable[Sequence[Point]]) -> str:
    """The lines without the parts that run along the triangle's edge."""
    text = ""
    for loop in map(_thinned, loops):
        piece: list[Point] = []
        for point in [*loop, loop[0]]:
            if piece and piece[-1].border and point.border:
                text += _walk(piece) if len(piece) > 1 else ""
                piece = []
            piece.append(point)
        text += _walk(piece) if len(piece) > 1 else ""
    return text


def polygon_path(corners: Sequence[Sequence[float]] | Array) -> str:
    return f"{_walk([Point(x, y, False) for x, y in corners])}z"


def band_path(edge: tuple[int, int], start: float, end: float) -> str:
    """The part of a band between two fractions of its edge."""
    i, j = edge
    ends = [CORNERS[i] + (CORNERS[j] - CORNERS[i]) * along for along in (start, end)]
    inner, outer = (outwards(i, j) * distance for distance in BAND)
    corners = [ends[0] + inner, ends[1] + inner, ends[1] + outer, ends[0] + outer]
    return polygon_path(np.array(corners))


def bar_path(start: float, end: float) -> str:
    """The part of the two letters' line between two fractions of it."""
    left, top, right, bottom = LINE
    xs = [left + (right - left) * along for along in (start, end)]
    return polygon_path([(xs[0], top), (xs[1], top), (xs[1], bottom), (xs[0], bottom)])


def _thinned(loop: Sequence[Point], tolerance: float = 0.12) -> list[Point]:
    """Without points that lie on the line between the last one kept and the next one."""
    kept = [loop[0]]
    for point, after in pairwise(loop[1:]):
        ax, ay = after.x - kept[-1].x, after.y - kept[-1].y
        px, py = point.x - kept[-1].x, point.y - kept[-1].y
        length = hypot(ax, ay)
        turns = point.border != kept[-1].border or point.border != after.border
        if turns or length == 0 or abs(ax * py - ay * px) > tolerance * length:
            kept.append(point)
    return kept + list(loop[-1:]) if len(loop) > 1 else kept


def _walk(points: Sequence[Point]) -> str:
    rounded = [(_tenths(point.x), _tenths(point.y)) for point in points]
    moves = [f"{x - px} {y - py}" for (px, py), (x, y) in pairwise(rounded) if (x, y) != (px, py)]
    return f"M{rounded[0][0]} {rounded[0][1]}l{' '.join(moves)}".replace(" -", "-")


def _tenths(x: float) -> int:
    return floor(10 * x + 0.5)
