"""Where ratios of letters stand on the failure map.

The same places as in the page's `assets/triangle.mjs`; a test holds the two drawings equal. The
inside of a triangle holds strings with all three letters, the bands along its edges those with two,
the discs at its corners those with one. Two letters have a line with a disc at each end. The lens
magnifies corners: a point with shares u stands for the ratios u^lens, normalised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WIDTH, HEIGHT = 440, 400
CORNERS = np.array([(62, 344), (378, 344), (220, 70.3)])
"""An equilateral triangle: left, right, top."""
EDGES = ((0, 1), (1, 2), (2, 0))
BAND = (7.0, 21.0)
"""The bands' inner and outer distance from the edge."""
DISC_DISTANCE, DISC_RADIUS = 24.0, 11.0
LINE = (40.0, 150.0, 400.0, 230.0)
"""Two letters: left, top, right, bottom."""
LINE_ENDS = ((LINE[0] - 18, 190.0), (LINE[2] + 18, 190.0))
LATTICE = 96
"""Steps along an edge between the points at which the model is asked."""
LEAST = 1e-3
"""The share of a letter that is there, at the very edge of where it is."""


def lattice() -> NDArray[np.int64]:
    """Steps towards the left and the right corner, `[point 2]`, for every point of the triangle."""
    steps = np.arange(LATTICE + 1)
    left, right = np.meshgrid(steps, steps, indexing="ij")
    inside = left + right <= LATTICE
    return np.stack([left[inside], right[inside]], axis=1)


def triangle_shares() -> Array:
    """The shares `[point 3]` at the lattice's points, none of them zero."""
    steps = lattice() / LATTICE
    return np.asarray(np.maximum(np.column_stack([steps, 1 - steps.sum(axis=1)]), LEAST))


def edge_shares() -> Array:
    """The shares `[point 2]` along an edge."""
    along = np.clip(np.arange(LATTICE + 1) / LATTICE, LEAST, 1 - LEAST)
    return np.column_stack([1 - along, along])


def through_lens(shares: Array, lens: float) -> Array:
    raised = shares**lens
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def outwards(i: int, j: int) -> Array:
    """The unit vector that leads out of the triangle across an edge."""
    along = CORNERS[j] - CORNERS[i]
    normal = np.array([along[1], -along[0]]) / np.hypot(*along)
    inward = normal @ (CORNERS[3 - i - j] - CORNERS[i]) > 0
    return np.asarray(-normal if inward else normal)


def disc_centre(corner: int) -> Array:
    away = CORNERS[corner] - CORNERS.mean(axis=0)
    return np.asarray(CORNERS[corner] + away / np.hypot(*away) * DISC_DISTANCE)


def mark_place(shares: Array) -> Array:
    """Where a string's mark stands: on a band or disc when letters are missing."""
    present = [int(i) for i in np.flatnonzero(shares > 0)]
    if len(shares) == 2:
        along = LINE[0] + (LINE[2] - LINE[0]) * shares[1]
        return np.array(LINE_ENDS[present[0]] if len(present) == 1 else (along, 190.0))
    if len(present) == 1:
        return disc_centre(present[0])
    place = shares @ CORNERS
    if len(present) == 2:
        place = place + outwards(present[0], present[1]) * sum(BAND) / 2
    return np.asarray(place)
