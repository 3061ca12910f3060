"""Positions that are not learned: sines and cosines of the place, in float32 like any weight."""

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
    made = np.ascontiguousarray(table[:, :d_model], dtype=np.float32)
    made.setflags(write=False)
    return made
