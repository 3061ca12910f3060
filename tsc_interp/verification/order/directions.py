"""Directions in which a head's support is found, and what is known of a batch of regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.bounds.intervals import UNIT, Array
from tsc_interp.verification.order.relax import Forms
from tsc_interp.verification.order.sweeps import Head

_DIRECTIONS = 8


class Probe:
    """The directions in which one head's support is found, and how channels follow from them."""

    def __init__(self, head: Head, channels: Array) -> None:
        q = channels @ head.basis
        self.head = head
        if head.rank == 1:
            self.q = np.array([[1.0], [-1.0]])
        elif head.rank == 2:
            angles = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
            self.q = np.stack([np.cos(angles), np.sin(angles)], 1)
        else:
            length = np.linalg.norm(q, axis=1, keepdims=True)
            unit = q / np.where(length > 0, length, 1.0)
            self.q = np.concatenate([unit, -unit])
        signed = np.concatenate([q, -q])
        self.mix = self.mixed(signed) if head.rank <= 2 else np.diag(np.tile(length[:, 0], 2))
        # In exact arithmetic `signed` is mix @ q; what the mixture leaves is bounded by sizes.
        residue = np.abs(signed - self.mix @ self.q) + 8 * UNIT * (self.mix @ np.abs(self.q))
        self.left = (residue + 8 * UNIT * np.abs(signed)) @ head.size

    def mixed(self, q: Array) -> Array:
        """Weights ≥ 0 of the directions whose sum is q: `[... direction]`, ranks 1 and 2."""
        mix = np.zeros((*q.shape[:-1], len(self.q)))
        if self.head.rank == 1:
            mix[..., 0], mix[..., 1] = np.maximum(q[..., 0], 0), np.maximum(-q[..., 0], 0)
            return mix
        step = 2 * np.pi / _DIRECTIONS
        angle = np.arctan2(q[..., 1], q[..., 0]) % (2 * np.pi)
        size = np.hypot(q[..., 0], q[..., 1])
        first = np.minimum((angle / step).astype(np.int64), _DIRECTIONS - 1)
        inside = angle - first * step
        a = np.maximum(size * np.sin(step - inside), 0) / np.sin(step)
        b = np.maximum(size * np.sin(inside), 0) / np.sin(step)
        np.put_along_axis(mix, first[..., None], a[..., None], -1)
        np.put_along_axis(mix, ((first + 1) % _DIRECTIONS)[..., None], b[..., None], -1)
        return mix


@dataclass(frozen=True)
class Bounded:
    """What is known of a batch of regions.

    regions, reader and label [region]: which
    levels [region direction]: those reached, of all heads, to begin with next time
    low and high [region class]: ends of the margins, times something positive
    forms: margins as linear functions; weights [region] per head: the least and the most of a path
    """

    regions: Regions
    reader: Index
    label: Index
    levels: Array
    low: Array
    high: Array
    forms: Forms | None = None
    weights: Sequence[tuple[Array, Array]] = ()
