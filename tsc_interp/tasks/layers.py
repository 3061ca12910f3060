"""Trellises of all strings of one length, made from a step function or from a table of labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import Any

import numpy as np

from tsc_interp.errors import UsageError
from tsc_interp.tasks.trellis import Index, Trellis, letter_stage, make_stage

MOST_STATES = 200_000
"""What needs more states than this is given up with a message."""


def layered(
    start: Hashable,
    step: Callable[[Any, int], Hashable],
    labels: Callable[[list[Any]], Any],
    n_letters: int,
    length: int,
) -> Trellis:
    """All strings of one length, layer by layer, so that states may count letters without bound."""
    states: list[Hashable] = [start]
    stages = []
    for place in range(length):
        number: dict[Hashable, int] = {}
        target = [
            [number.setdefault(step(state, letter), len(number)) for letter in range(n_letters)]
            for state in states
        ]
        if len(number) > MOST_STATES:
            raise UsageError(
                f"this task needs more than {MOST_STATES:,} states for strings of {length} letters"
            )
        stages.append(letter_stage(place, np.array(target)))
        states = list(number)
    of_state = np.array(labels(states), dtype=np.int64)
    trellis = Trellis(length, (), tuple(stages), length - 1, of_state[stages[-1].target])
    return labelled(trellis)


def labelled(trellis: Trellis) -> Trellis:
    """The inputs that have a label, which is no -1.

    Raises:
        UsageError: There are none.
    """
    if not (trellis.label < 0).any():
        return trellis
    if (trellis.label < 0).all():
        raise UsageError(f"no input of {trellis.length} letters has a label")
    kept = [np.ones(len(stage), dtype=bool) for stage in trellis.stages]
    kept[trellis.label_stage] = trellis.label >= 0
    return trellis.where(kept)


def tabulated(letters: Sequence[Sequence[int]], labels: Index) -> Trellis:
    """The smallest trellis of a table: labels of all strings over these letters, -1 for none.

    Two beginnings lead to one state if the labels of all that may follow are the same, so a state
    is one of the different rows of the table.

    Args:
        letters: Those that may stand at each place, ascending.
        labels: Of each string, in dictionary order.

    Raises:
        UsageError: No string has a label.

    Example:
        >>> tabulated([range(2), range(2)], np.array([0, 1, 1, 0])).sizes
        (1, 2, 2)
    """
    length = len(letters)
    if (labels < 0).all():
        raise UsageError(f"no input of {length} letters has a label")
    rows, stages = labels.reshape(1, -1), []
    for place, own in enumerate(letters):
        parts = rows.reshape(len(rows) * len(own), prod(map(len, letters[place + 1 :])))
        rows, target = np.unique(parts, axis=0, return_inverse=True)
        source = np.repeat(np.arange(len(parts) // len(own)), len(own))
        placed = np.tile(np.array(own), len(parts) // len(own))[:, None]
        alive = np.asarray((rows >= 0).any(1))  # the row of no labels at all is no state
        number, target = np.cumsum(alive) - 1, target.reshape(-1)
        kept = alive[target]
        rows = rows[alive]
        stages.append(make_stage((place,), source[kept], number[target[kept]], placed[kept]))
    return Trellis(length, (), tuple(stages), length - 1, rows[stages[-1].target, 0])
