"""Boxes of strings by lists of what is left in them, so that bounds cost no more than that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tsc_interp.verification.ordered_boxes import Boxes, Index, Mask


@dataclass(frozen=True)
class Compact:
    """Boxes by lists instead of masks, padded: letters `[box place letter]`, classes `[box class]`.

    Padded letters are not `inside`; padded classes repeat the first.
    """

    boxes: Boxes
    letters: Index
    inside: Mask
    classes: Index

    def __getitem__(self, chosen: Mask) -> Compact:
        return Compact(
            self.boxes[chosen], self.letters[chosen], self.inside[chosen], self.classes[chosen]
        )

    def scattered(self, place: Index, chosen: Mask) -> Mask:
        """Of letters at one place, by their number in the list, a mask over the alphabet."""
        rows = np.arange(len(self.boxes))
        found = np.zeros((len(rows), self.boxes.sets.shape[2] + 1), dtype=bool)
        listed = np.where(self.inside[rows, place], self.letters[rows, place], found.shape[1] - 1)
        found[rows[:, None], listed] = chosen
        return found[:, :-1]


def compact(boxes: Boxes, doubt: Mask, numbers_at_once: int) -> Iterator[Compact]:
    """Boxes with similar numbers of letters and of classes in doubt, so that little is padded.

    `doubt [box class]`: a class that cannot win anywhere in a box cannot in a part of it, so few
    are left to look at.
    """
    widest, classes = boxes.sets.sum(2).max(1, initial=1), doubt.sum(1)
    groups = 64 * np.ceil(np.log2(widest)) + np.ceil(np.log2(np.maximum(classes, 1)))
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        numbers = int(widest[rows].max() * classes[rows].max()) * boxes.sets.shape[1]
        at_once = max(1, numbers_at_once // numbers)
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            letters, inside = _listed(boxes.sets[some])
            yield Compact(boxes[some], letters, inside, _listed(doubt[some])[0])


def _listed(mask: Mask) -> tuple[Index, Mask]:
    """What a mask's last axis holds, as indices padded with the first, and which are not."""
    sizes = mask.sum(-1, keepdims=True)
    widest = int(sizes.max(initial=1))
    found = np.argsort(~mask, axis=-1, kind="stable")[..., :widest]
    inside = np.arange(widest) < sizes
    return np.where(inside, found, found[..., :1]), inside
