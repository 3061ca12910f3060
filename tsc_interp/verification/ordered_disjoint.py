"""Whether boxes of strings share none: part of the ordered checker.

Boxes are parted by the letter at one place: two boxes with a string in common are both among those
of that string's letter there. A group small enough is compared pair by pair. Groups wait in a list,
not on Python's stack, and each is paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

_PAIRWISE = 200


def disjoint(
    boxes: Sequence[Sequence[Sequence[int]]], n_letters: int, pay: Callable[[], None]
) -> bool:
    """Whether no string is in two of these boxes, each a set of letters for every place."""
    if not boxes:
        return True
    masks = np.zeros((len(boxes), len(boxes[0]), n_letters), dtype=bool)
    for i, sets in enumerate(boxes):
        for place, letters in enumerate(sets):
            masks[i, place, list(letters)] = True
    waiting = [(np.arange(len(boxes)), tuple(range(len(boxes[0]))))]
    while waiting:
        pay()
        group, places = waiting.pop()
        if len(group) <= _PAIRWISE:
            if not _pairwise(masks[group]):
                return False
        elif not places:
            return False  # every place holds one letter, the same for all of them
        else:
            # The place whose sets are smallest puts the fewest boxes into several groups.
            place = min(places, key=lambda p: int(masks[group, p].sum()))
            left = tuple(p for p in places if p != place)
            for letter in range(n_letters):
                within = group[masks[group, place, letter]]
                if len(within) > 1:
                    waiting.append((within, left))
    return True


def _pairwise(masks: np.ndarray) -> bool:
    """Two boxes share strings if their sets meet at every place."""
    meet = np.ones((len(masks), len(masks)), dtype=bool)
    for place in range(masks.shape[1]):
        sets = masks[:, place].astype(np.float32)
        meet &= sets @ sets.T > 0
    np.fill_diagonal(meet, False)
    return not meet.any()
