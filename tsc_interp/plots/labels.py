"""Where labels go so that none cover each other. The same points, the same places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Rough text metrics at 13 px in the house font, on the generous side.
CHARACTER_WIDTH, LINE_HEIGHT = 7.6, 18.0
_MERGE_PIXELS = 4.0


@dataclass(frozen=True)
class Label:
    """A text for the point (x, y), to be drawn (dx, dy) pixels to its right and above it."""

    x: float
    y: float
    text: str
    dx: float
    dy: float


def spread_labels(
    positions: Sequence[float],
    widths: float | Sequence[float],
    *,
    low: float | None = None,
    high: float | None = None,
) -> list[float]:
    """Centres for labels on a line: as near to `positions` as can be with no two overlapping.

    Least total squared movement, kept within [low, high] where they fit, the order of positions
    kept (ties as given). Overlaps push whole blocks apart: pool adjacent violators.
    """
    count = len(positions)
    width = np.broadcast_to(np.asarray(widths, dtype=float), (count,))
    order = np.argsort(np.asarray(positions, dtype=float), kind="stable")
    sizes = width[order]
    # The distance from the first centre if all labels stood shoulder to shoulder.
    packed = np.concatenate([[0.0], np.cumsum((sizes[1:] + sizes[:-1]) / 2)]) if count else sizes
    level = _pool(np.asarray(positions, dtype=float)[order] - packed)
    if count and high is not None:
        level = np.minimum(level, high - sizes[-1] / 2 - packed[-1])
    if count and low is not None:
        level = np.maximum(level, low + sizes[0] / 2)
    placed = np.empty(count)
    placed[order] = level + packed
    return [float(place) for place in placed]


def _pool(targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """The non-decreasing sequence nearest to `targets` in least squares."""
    blocks: list[tuple[float, int]] = []
    for target in targets:
        mean, size = float(target), 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    return np.array([mean for mean, size in blocks for _ in range(size)])


def place_labels(
    points: ArrayLike,
    texts: Sequence[str],
    ranges: Sequence[Sequence[float]],
    *,
    plot_pixels: Sequence[float] = (240, 340, 520),
    origin: bool = False,
) -> list[Label]:
    """Labels for points in a plane of the given (x range, y range), free of overlaps at each size.

    Points closer than four pixels on the smallest plot share one label ("aac, baac"). Each label
    takes the first free place around its point, nearest first; a place must be free of labels and
    markers at every plot size in `plot_pixels`, because offsets stay the same while points move.
    With `origin`, points are the tips of arrows from (0, 0) and places beyond the tip come first.
    """
    xy = np.asarray(points, dtype=float).reshape(-1, 2)
    low = np.array([ranges[0][0], ranges[1][0]], dtype=float)
    span = np.array([ranges[0][1], ranges[1][1]], dtype=float) - low
    unit = (xy - low) / span
    groups = _merge(unit * min(plot_pixels), _MERGE_PIXELS)
    away = xy if origin else np.tile([0.0, 1.0], (len(xy), 1))
    labels: list[Label] = []
    placed = [np.empty((0, 4)) for _ in plot_pixels]
    markers = [unit * size for size in plot_pixels]
    for members in groups:
        text = _shared_text([texts[member] for member in members])
        centre = unit[members[0]]
        offset = _first_free(centre, text, away[members[0]], plot_pixels, placed, markers)
        for index, size in enumerate(plot_pixels):
            placed[index] = np.vstack([placed[index], _box(centre * size, offset, text)])
        at = xy[members[0]]
        labels.append(Label(float(at[0]), float(at[1]), text, float(offset[0]), float(offset[1])))
    return labels


def _merge(pixels: NDArray[np.float64], within: float) -> list[list[int]]:
    groups: list[list[int]] = []
    for index, pixel in enumerate(pixels):
        for group in groups:
            if float(np.hypot(*(pixels[group[0]] - pixel))) < within:
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


def _shared_text(texts: Sequence[str], most: int = 2) -> str:
    distinct = list(dict.fromkeys(texts))
    shown = ", ".join(distinct[:most])
    return shown if len(distinct) <= most else f"{shown} +{len(distinct) - most}"


def _first_free(
    centre: NDArray[np.float64],
    text: str,
    away: NDArray[np.float64],
    sizes: Sequence[float],
    placed: Sequence[NDArray[np.float64]],
    markers: Sequence[NDArray[np.float64]],
) -> NDArray[np.float64]:
    half_width = CHARACTER_WIDTH * len(text) / 2
    fallback, least = np.array([0.0, 16.0]), float("inf")
    straight = np.arctan2(away[1], away[0]) if away.any() else np.pi / 2
    turns = sorted(np.deg2rad(np.arange(-165, 195, 15)), key=lambda turn: (abs(turn), turn))
    for radius in (6, 18, 34, 52, 72, 96, 124):
        for angle in (straight + turn for turn in turns):
            offset = np.array(
                [np.cos(angle) * (radius + half_width), np.sin(angle) * (radius + LINE_HEIGHT / 2)]
            )
            cost = sum(
                _cost(_box(centre * size, offset, text), boxes, dots, size)
                for size, boxes, dots in zip(sizes, placed, markers, strict=True)
            )
            if not cost:
                return offset
            if cost < least:
                fallback, least = offset, cost
    return fallback


def _box(point: NDArray[np.float64], offset: NDArray[np.float64], text: str) -> NDArray[np.float64]:
    half = np.array([CHARACTER_WIDTH * len(text) / 2 + 2, LINE_HEIGHT / 2])
    return np.concatenate([point + offset - half, point + offset + half])


def _cost(
    box: NDArray[np.float64], boxes: NDArray[np.float64], dots: NDArray[np.float64], size: float
) -> float:
    """Overlaps with labels (weighing most) and markers, and how far the box leaves the plot."""
    low, high = box[:2], box[2:]
    labels = ((boxes[:, :2] < high) & (boxes[:, 2:] > low)).all(axis=1).sum()
    covered = ((dots > low - 4) & (dots < high + 4)).all(axis=1).sum()
    outside = np.maximum(0, -low).sum() + np.maximum(0, high - size).sum()
    return float(10 * labels + covered + outside / 20)
