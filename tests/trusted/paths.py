"""Every path of a set, by itself, for tests of the trusted base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tsc_interp.trusted.sets import Sets


def strings(sets: Sets, which: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Every path of one set as its letters, and its label."""
    _, letters, labels = sets[[which]].paths()
    for row, label in zip(letters.tolist(), labels.tolist(), strict=True):
        yield tuple(row), label


def singles(sets: Sets, which: Sequence[int]) -> Sets:
    """Every path of these sets as a set of its own, in the order of `strings`."""
    _, letters, _ = sets[list(which)].paths()
    state, masks = np.zeros(len(letters), dtype=np.int64), []
    for stage in sets.trellis.stages:
        placed = letters[:, list(stage.places)]
        mask = (stage.source == state[:, None]) & (stage.letters == placed[:, None]).all(2)
        state = stage.target[mask.argmax(1)]
        masks.append(mask)
    return Sets(sets.trellis, masks)
