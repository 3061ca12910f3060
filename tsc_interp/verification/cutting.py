"""How boxes are cut in two: at the geometric middle of the relatively longest side.

Attention sees ratios, so a side from 1 to 100 is as long as one from 100 to 10,000.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Vector = tuple[int, ...]
Box = tuple[Vector, Vector]
Corner = tuple[float, ...]

_SMALL = 1e-30
_SMALLEST = 2.0**-600
"""Ratios are not cut below this: no string is that long, and weights would underflow."""


def halves(low: Vector, high: Vector) -> tuple[Box, Box]:
    """One box of counts, both ends included, that has a side longer than one count."""
    ratios = [top / bottom for bottom, top in zip(low, high, strict=True)]
    axis = max(range(len(low)), key=ratios.__getitem__)
    bottom, top = low[axis], high[axis]
    middle = math.isqrt(bottom * top)  # at least bottom, and below top: bottom < top
    first = (*high[:axis], middle, *high[axis + 1 :])
    second = (*low[:axis], middle + 1, *low[axis + 1 :])
    return (low, first), (second, high)


def halve_counts(low: Integers, high: Integers) -> tuple[Integers, Integers]:
    """`halves` of many boxes `[box letter]` at once: all lower halves, then all upper ones."""
    rows = np.arange(len(low))
    axis = (high / low).argmax(axis=1)
    bottom, top = low[rows, axis], high[rows, axis]
    middle = np.sqrt(bottom * top.astype(float)).astype(np.int64).clip(bottom, top - 1)
    first_high, second_low = high.copy(), low.copy()
    first_high[rows, axis], second_low[rows, axis] = middle, middle + 1
    return np.concatenate([low, second_low]), np.concatenate([first_high, high])


def halve_ratios(low: Corner, high: Corner) -> list[tuple[Corner, Corner]]:
    """A box of relative weights in [0, 1]: two that share a face, or none if it is too small.

    Middles are rounded to few bits, which keeps certificates short; 0 counts as tiny.
    """
    ratios = [top / max(bottom, _SMALL) for bottom, top in zip(low, high, strict=True)]
    for axis in sorted(range(len(low)), key=ratios.__getitem__, reverse=True):
        middle = _middle(low[axis], high[axis])
        if middle is not None:
            return [
                (low, (*high[:axis], middle, *high[axis + 1 :])),
                ((*low[:axis], middle, *low[axis + 1 :]), high),
            ]
    return []


def _middle(bottom: float, top: float) -> float | None:
    if top <= _SMALLEST:
        return None
    middle = top / 64 if bottom == 0 else math.sqrt(bottom) * math.sqrt(top)
    middle = float(np.float16(middle)) if middle > 1e-3 else 2.0 ** round(math.log2(middle))
    if not bottom < middle < top:
        middle = 0.5 * (bottom + top)
    return middle if bottom < middle < top else None
