"""The inputs of several labels in one trellis, each label by its own edges.

Merged for one label, the trellis of a running maximum has two states (seen or not), whatever the
label, and its edges are much the same as another label's. A stack has the edges of all of them
once, and before them a stage that places no letter and tells the label. Its regions have the edges
of one label each, so that regions of different labels are bounded together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsc_interp.tasks.trellis import Index, Stage, Trellis, row_numbers


@dataclass(frozen=True, eq=False)
class Stack(Trellis):
    """Made by `stacked`. Its paths are inputs only within the regions of one label.

    parts         the trellis of each label
    own[i][stage] the edges of part i among those of the stack, `[edge of the part]`
    """

    parts: tuple[Trellis, ...]
    own: tuple[tuple[Index, ...], ...]

    def __post_init__(self) -> None:
        """The parts are valid; a stack has edges of one state with the same letters."""

    @property
    def every(self) -> tuple[NDArray[np.bool_], ...]:
        """The edges of each part, `[part edge]` per stage."""
        masks = [np.zeros((len(self.parts), len(stage)), dtype=bool) for stage in self.stages]
        for part, own in enumerate(self.own):
            for mask, edges in zip(masks, own, strict=True):
                mask[part, edges] = True
        return tuple(masks)

    def labels_of(self, rows: Index) -> Index:
        """The label of each input `[input place]`; -1 where it is no path."""
        return np.asarray(np.max([part.labels_of(rows) for part in self.parts], axis=0))

    def label_of(self, letters: Index) -> int | None:
        """The label of one input, or None where it is no path."""
        labels = (part.label_of(letters) for part in self.parts)
        return next((label for label in labels if label is not None), None)


def stacked(parts: Sequence[Trellis]) -> Stack:
    """One trellis for the inputs of all parts, which have one label each.

    Example:
        >>> from tsc_interp.tasks import Maximum, trellis_of
        >>> trellis = trellis_of(Maximum(), n_letters=4, length=3)
        >>> stack = stacked([trellis.of_label(label) for label in (1, 2, 3)])
        >>> [len(stage) for stage in trellis.stages], [len(stage) for stage in stack.stages]
        ([4, 16, 16], [3, 6, 10, 7])
    """
    count, first = len(parts), parts[0]
    none = np.zeros(count, dtype=np.int64)
    stages = [Stage((), none, none, np.zeros((count, 0), dtype=np.int64))]
    own = [[np.array([number])] for number in range(count)]
    for number, like in enumerate(first.stages):
        mine = [part.stages[number] for part in parts]
        letters = np.concatenate([stage.letters for stage in mine])
        # States are numbered from the last: every label has the one that has seen all.
        source, target = (
            np.concatenate([part.sizes[number + after] - 1 - getattr(part.stages[number], name)
                            for part in parts])
            for after, name in enumerate(("source", "target"))
        )  # fmt: skip
        rows = row_numbers((source, target, *letters.T))
        _, at, edge = np.unique(rows, return_index=True, return_inverse=True)
        stages.append(Stage(like.places, source[at], target[at], letters[at]))
        ends = np.cumsum([len(stage) for stage in mine])[:-1]
        for part_edges, edges in zip(own, np.split(edge, ends), strict=True):
            part_edges.append(edges)
    labels = np.array([part.labels[0] for part in parts])
    edges_of = tuple(map(tuple, own))
    return Stack(first.length, first.fixed, tuple(stages), 0, labels, tuple(parts), edges_of)
