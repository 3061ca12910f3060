"""Checks that a set of boxes leaves nothing out.

A box is half open, `low ≤ x < high`. Its ends are whole numbers below 2^53 or floats, never NaN
(the checker reads them); they are compared and never computed with, so float64 is exact. The region
is cut along sides of boxes until every piece lies in one box; a piece that no side cuts and no box
holds is a gap. Pieces wait in a list, not on Python's stack, and each is paid for, in time and in
bytes: overlapping boxes make many pieces, each with a list of the boxes near it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Box = tuple[Sequence[float], Sequence[float]]

_PIECE = 500
"""Bytes of a piece besides its list of boxes."""


def covered(
    whole: Box, boxes: Sequence[Box], longest: int | None, pay: Callable[[int], None]
) -> bool:
    """Whether the boxes cover `whole`, except where the counts add up to more than `longest`.

    `pay` is called for each piece with the bytes that all pieces hold, and stops a check that takes
    too much of either.
    """
    size = len(whole[0])
    ends = np.array(boxes, dtype=np.float64).reshape(len(boxes), 2, size)
    everywhere = np.arange(len(boxes), dtype=np.int32)
    pieces, held = [(tuple(whole[0]), tuple(whole[1]), everywhere)], everywhere.nbytes + _PIECE
    while pieces:
        pay(held + ends.nbytes)
        low, high, near = pieces.pop()
        held -= near.nbytes + _PIECE
        if longest is not None and sum(low) > longest:
            continue
        bottom, top = ends[near, 0], ends[near, 1]
        touching = ((bottom < high) & (low < top)).all(axis=1)
        near, bottom, top = near[touching], bottom[touching], top[touching]
        if ((bottom <= low) & (high <= top)).all(axis=1).any():
            continue
        plane = _best_plane(low, high, bottom, top)
        if plane is None:
            return False
        axis, edge = plane
        pieces.append((low, (*high[:axis], edge, *high[axis + 1 :]), near))
        pieces.append(((*low[:axis], edge, *low[axis + 1 :]), high, near))
        held += 2 * (near.nbytes + _PIECE)
    return True


def _best_plane(
    low: Sequence[float], high: Sequence[float], bottom: Array, top: Array
) -> tuple[int, float] | None:
    """A side of a box, inside the piece, that few boxes cross and that halves the rest."""
    best: tuple[int, int, int, float] | None = None
    for axis in range(len(low)):
        starts, ends = np.sort(bottom[:, axis]), np.sort(top[:, axis])
        edges = np.concatenate([starts, ends])
        edges = edges[(low[axis] < edges) & (edges < high[axis])]
        if not len(edges):
            continue
        below = np.searchsorted(ends, edges, side="right")
        above = len(starts) - np.searchsorted(starts, edges, side="left")
        crossing, uneven = len(starts) - below - above, np.abs(below - above)
        i = int(np.lexsort((edges, uneven, crossing))[0])
        candidate = int(crossing[i]), int(uneven[i]), axis, float(edges[i])
        best = candidate if best is None else min(best, candidate)
    return None if best is None else best[2:]
