"""A head whose values lie in a plane: its mean along many directions, from a few of them.

With c a point near all values v and P some directions, any q is Σ m P + r with m ≥ 0, and so

    q · mean ≤ q · c + Σ m (highest P · mean - P · c) + the largest r · (v - c) of all keys,

a mean being one of keys. Whatever c, P and m are, the last term counts what they leave of q.
"""

from __future__ import annotations

import numpy as np

from tsc_interp.trusted.spans import Floats, Span, up

_DIRECTIONS, _NEGLIGIBLE = 8, 1e-6


class Probes:
    """Of one head: `directions [probe d]`, and how those that are asked about follow."""

    def __init__(self, values: Span, plane: Floats, asked: Floats) -> None:
        """`values [key d]`, two rows `plane [2 d]`, and what is asked about, `[row d]`."""
        angle = 2 * np.pi / _DIRECTIONS
        turns = angle * np.arange(_DIRECTIONS)
        self.directions = np.stack([np.cos(turns), np.sin(turns)], 1) @ plane
        x, y = plane @ asked.T
        size, at = np.hypot(x, y), np.arctan2(y, x) % (2 * np.pi)
        first = np.minimum((at / angle).astype(np.int64), _DIRECTIONS - 1)
        mix, rows = np.zeros((len(asked), _DIRECTIONS)), np.arange(len(asked))
        inside = at - first * angle
        mix[rows, first] = np.maximum(size * np.sin(angle - inside) / np.sin(angle), 0.0)
        mix[rows, (first + 1) % _DIRECTIONS] = np.maximum(size * np.sin(inside) / np.sin(angle), 0)
        centre = values.middle.mean(0)
        wanted, self._mix = Span.exact(asked), Span.exact(mix)
        left = wanted - self._mix @ Span.exact(self.directions)
        apart = values - Span.exact(centre)
        rest = (apart @ Span(left.low.T, left.high.T)).high.max(0)
        middle = (wanted * Span.exact(centre)).total()
        self._rest = Span(middle.low, up(middle.high + rest))
        self._centre = (Span.exact(self.directions) * Span.exact(centre)).total()

    def above(self, highest: Floats) -> Floats:
        """At least the mean along each row, from those along the directions: `[region row]`."""
        over = Span.exact(highest) - self._centre
        return (over @ Span(self._mix.low.T, self._mix.high.T) + self._rest).high


def plane_of(values: Span) -> Floats | None:
    """Two rows that span the values about their centre, or none where that takes more."""
    apart = values.middle - values.middle.mean(0)
    if not np.isfinite(apart).all():
        return None
    _, sizes, rows = np.linalg.svd(apart, full_matrices=False)
    if (sizes[2:] > _NEGLIGIBLE * sizes[0]).any():
        return None
    plane = np.zeros((2, apart.shape[1]))
    plane[: len(rows[:2])] = rows[:2]
    return plane
