"""How many different inputs are wrong at any step of a task that writes.

The wrong inputs of one step are regions of that step's trellis. Brought onto the trellis of the
whole task (`lifted`), regions of different steps can be compared: what was counted at an earlier
step is taken out of a later one's regions, piece by piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import numpy as np

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Index, Trellis

_BITS_AT_ONCE = 1 << 24


def union_count(
    whole: Trellis, families: Sequence[Sequence[Regions]], prompts: Index, deadline: float
) -> int | None:
    """Inputs in any of the regions (of `whole`), or among `prompts [input place]`, each once.

    Regions of one family do not overlap. None where the time (`monotonic`) does not suffice.
    """
    counted: list[Regions] = []
    total = 0
    for family in families:
        earlier = list(counted)
        for regions in family:
            left: Regions | None = regions
            for other in earlier:
                left = _without(left, other, deadline) if left is not None else None
            if left is None:
                return None
            if len(left):
                total += sum(left.counts())
                counted.append(left)
    uncounted = np.unique(prompts, axis=0)
    for other in counted:
        step = max(1, _BITS_AT_ONCE // max(1, len(uncounted)))
        for start in range(0, len(other), step):
            if monotonic() > deadline:
                return None
            uncounted = uncounted[~inside_any(other[start : start + step], uncounted)]
    return total + len(uncounted)


def _without(regions: Regions, removed: Regions, deadline: float) -> Regions | None:
    """The paths of `regions` that are in none of `removed`, as regions that do not overlap."""
    left = regions
    for i in range(len(removed)):
        if monotonic() > deadline:
            return None
        removed_masks = [mask[i] for mask in removed.masks]
        meets = np.ones(len(left), dtype=bool)
        for mask, other in zip(left.masks, removed_masks, strict=True):
            meets &= (mask & other).any(1)
        if not meets.any():
            continue
        pieces, hit = [left[~meets]], left[meets]
        for stage in range(len(removed_masks)):
            masks = [
                mask & other if number < stage else mask & ~other if number == stage else mask
                for number, (mask, other) in enumerate(zip(hit.masks, removed_masks, strict=True))
            ]
            pieces.append(hit.with_masks(masks).pruned()[0])
        left = pieces[0].joined(pieces[1:])
    return left


def lifted(regions: Regions, whole: Trellis) -> Regions:
    """Regions of a merged trellis of some places as regions of the trellis of all places."""
    state = np.zeros(1, dtype=np.int64)
    masks: list[Mask] = []
    for stage, own, mask, size in zip(
        whole.stages, regions.trellis.stages, regions.masks, whole.sizes[1:], strict=True
    ):
        columns = [stage.places.index(place) for place in own.places]
        edges = own.located(range(len(own.places)), state[stage.source], stage.letters[:, columns])
        matched = edges >= 0
        masks.append(mask[:, np.maximum(edges, 0)] & matched)
        state = np.full(size, -1, dtype=np.int64)
        state[stage.target[matched]] = own.target[edges[matched]]
    return Regions.whole(whole).with_masks(masks).pruned()[0]


def inside_any(regions: Regions, prompts: Index) -> Mask:
    """Which prompts `[input place]` a region holds: what is written follows from the prompt."""
    state = np.zeros(len(prompts), dtype=np.int64)
    inside = np.ones((len(prompts), len(regions)), dtype=bool)
    for stage, mask in zip(regions.trellis.stages, regions.masks, strict=True):
        columns = [i for i, place in enumerate(stage.places) if place < prompts.shape[1]]
        letters = prompts[:, [stage.places[i] for i in columns]]
        edges = stage.located(columns, state, letters)
        inside &= mask[:, edges].T
        state = stage.target[edges]
    return np.asarray(inside.any(1))
