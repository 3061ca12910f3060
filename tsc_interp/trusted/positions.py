"""Positions that are not learned: fixed tables of float32 numbers, as exact as any weight.

They are computed in float64 and rounded once. TransformerLens computes its rotary table in float32,
so at position p its angles differ from these by about p · 10^-7.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=16)
def sinusoidal(n_positions: int, d_model: int) -> NDArray[np.float32]:
    """`[position d_model]`: sin and cos in turn, wavelengths from 2π to 10,000 · 2π."""
    place = np.arange(n_positions, dtype=np.float64)[:, None]
    pair = np.arange(0, d_model, 2, dtype=np.float64) / d_model
    angle = place / 10_000.0**pair
    table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(n_positions, -1)
    return _fixed(table[:, :d_model])


@lru_cache(maxsize=16)
def rotary(n_positions: int, width: int, base: float) -> NDArray[np.float32]:
    """`[position 2 pair]`: the cosine and the sine of the angle by which each pair turns."""
    place = np.arange(n_positions, dtype=np.float64)[:, None]
    angle = place / base ** (np.arange(0, width, 2, dtype=np.float64) / width)
    return _fixed(np.stack([np.cos(angle), np.sin(angle)], axis=1))


def turned_pairs(width: int, adjacent: bool) -> tuple[list[int], list[int]]:
    """The first and the second component of each pair that turns together.

    Example:
        >>> turned_pairs(4, adjacent=True), turned_pairs(4, adjacent=False)
        (([0, 2], [1, 3]), ([0, 1], [2, 3]))
    """
    half = width // 2
    if adjacent:
        return list(range(0, width, 2)), list(range(1, width, 2))
    return list(range(half)), list(range(half, width))


@lru_cache(maxsize=16)
def alibi_slopes(n_heads: int) -> NDArray[np.float32]:
    """`[head]`: what a head's score falls by with each token between key and query.

    Example:
        >>> alibi_slopes(4).tolist()
        [0.25, 0.0625, 0.015625, 0.00390625]
    """
    return _fixed(2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads))


def _fixed(table: NDArray[np.float64]) -> NDArray[np.float32]:
    """Rounded once, and not to be written to: every caller gets the same array."""
    rounded = np.ascontiguousarray(table, dtype=np.float32)
    rounded.setflags(write=False)
    return rounded
