"""How boxes are cut in two: at the geometric middle of the relatively longest side.

Attention sees ratios, so a side from 1 to 100 is as long as one from 100 to 10,000. A side along
which the logit hardly changes counts for less (`longest_sides`): cutting along a letter that no
head attends to would only multiply boxes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Logits = Callable[[Array], Array]
Vector = tuple[int, ...]
Box = tuple[Vector, Vector]
Corner = tuple[float, ...]

_SMALL = 1e-30
_SMALLEST = 2.0**-600
"""Ratios are not cut below this: no string is that long, and weights would underflow."""


_HARDLY = 2.0**-10
"""A side along which the logit changes by a smaller part of itself hardly matters."""
_SHORTENED = 64.0
"""Such a side's ratio counts as this root of itself."""


def longest_sides(boxes: Sequence[Box], logits: Logits | None) -> list[int]:
    """The side along which to cut each of these boxes, none of which is a single vector.

    With `logits` of count vectors, a side along which they hardly change at two corners counts as
    shorter than it is. That decides how fast a search is, and nothing else.
    """
    low, high = (np.array([box[end] for box in boxes], dtype=np.float64) for end in (0, 1))
    ratio = high / low
    if logits is not None:
        size = low.shape[1]
        other = np.eye(size, dtype=bool)[:, None]
        corners = [low[None], high[None], np.where(other, high, low), np.where(other, low, high)]
        signed = logits(np.concatenate(corners).reshape(-1, size)).reshape(-1, len(low))
        at_low, at_high, up, down = signed[0], signed[1], signed[2 : 2 + size], signed[2 + size :]
        change = np.maximum(np.abs(up - at_low), np.abs(down - at_high))
        least = np.minimum(np.abs(at_low), np.abs(at_high))
        hardly = (change < _HARDLY * least).T
        ratio[hardly] **= 1 / _SHORTENED
    return ratio.argmax(axis=1).tolist()  # type: ignore[no-any-return]


def halves(low: Vector, high: Vector, side: int | None = None) -> tuple[Box, Box]:
    """One box of counts, both ends included, cut along this side or the relatively longest.

    The side must be longer than one count.
    """
    axis = longest_sides([(low, high)], None)[0] if side is None else side
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
    """A box of relative weights in [0, 1]: two that share a support, or none if it is too small.

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
