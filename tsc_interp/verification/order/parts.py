"""The search over whole parts: every input of one length, or of one step of a task that writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks.regions import Regions, first_path
from tsc_interp.tasks.stack import stacked
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.verification.order.found import Found

_TOGETHER = 2500
"""All labels share one trellis where that has at most so many edges."""
_STACKED = 16
"""Labels in a stack: few of its edges belong to one of them only, and cores share the stacks."""


@dataclass
class Part:
    """What became of every input of one length or step."""

    length: int
    """Letters: of a frame, those at its places."""
    step: int | None
    inputs: int
    groups: list[Found]

    @property
    def examined(self) -> int:
        """Regions that were bounded."""
        return sum(group.examined for group in self.groups)

    @property
    def width(self) -> int:
        """Letters of a whole row."""
        return self.groups[0].trellis.length

    @cached_property
    def wrong(self) -> int:
        return sum(sum(region.counts()) for region in self.regions()) + len(self.wrong_inputs)

    @cached_property
    def undecided(self) -> int:
        regions = self.regions(undecided=True)
        return sum(sum(region.counts()) for region in regions) + len(self.undecided_inputs)

    def regions(self, undecided: bool = False) -> list[Regions]:
        """The wrong (or undecided) regions; none has an input of another."""
        return [group.undecided if undecided else group.wrong[0] for group in self.groups]

    @property
    def wrong_inputs(self) -> Index:
        """Wrong inputs that were found one by one, in no region: `[input place]`."""
        return self._rows([rows for group in self.groups for rows, _ in group.wrong_inputs])

    @property
    def undecided_inputs(self) -> Index:
        return self._rows([rows for group in self.groups for rows in group.undecided_inputs])

    def _rows(self, arrays: list[NDArray[np.int16]]) -> Index:
        return np.concatenate([np.zeros((0, self.width), dtype=np.int64), *arrays])

    def first(self, undecided: bool = False) -> tuple[int, ...] | None:
        """The first wrong (or undecided) input, place by place in the alphabet's order."""
        regions = [region for region in self.regions(undecided) if len(region)]
        candidates = [first_path(regions)] if regions else []
        inputs = self.undecided_inputs if undecided else self.wrong_inputs
        inputs = inputs[np.lexsort(inputs.T[::-1])[:1]]
        return min(candidates + [tuple(row) for row in inputs.tolist()], default=None)

    def is_wrong(self, letters: Index) -> bool:
        """Whether this input is known to be wrong."""
        if (self.wrong_inputs == letters).all(1).any():
            return True
        return any(bool(region.holds(letters).any()) for region in self.regions())

    def sample(self, count: int, seed: int = 0) -> Index:
        """Wrong inputs drawn uniformly, with replacement: `[input place]`."""
        draw = np.random.default_rng(seed)
        pieces: list[Any] = self.regions()
        sizes = [sum(piece.counts()) for piece in pieces]
        if len(self.wrong_inputs):
            pieces.append(self.wrong_inputs)
            sizes.append(len(self.wrong_inputs))
        if not pieces:
            return np.zeros((0, self.width), dtype=np.int64)
        total = sum(sizes)
        chosen = draw.choice(len(sizes), count, p=[size / total for size in sizes])
        rows = []
        for i, n_drawn in zip(*np.unique(chosen, return_counts=True), strict=True):
            piece = pieces[i]
            if isinstance(piece, Regions):
                rows.append(piece.sample(int(n_drawn), int(draw.integers(2**31))))
            else:
                rows.append(piece[draw.integers(len(piece), size=n_drawn)])
        return np.asarray(draw.permutation(np.concatenate(rows)))


def groups_of(trellis: Trellis) -> list[Trellis]:
    """All labels in one trellis where that is small, else stacks of labels."""
    labels = trellis.labels
    together = trellis.of_labels(labels)
    if together.n_edges <= _TOGETHER or len(labels) == 1:
        return [together]
    by_label = [trellis.of_label(label) for label in labels]
    return [stacked(by_label[i : i + _STACKED]) for i in range(0, len(by_label), _STACKED)]


def require_readable(config: ClassifierConfig, task: Any) -> None:
    if isinstance(task, Writing) and config.reads != "last_letter":
        raise UnsupportedError(
            "a task that writes is read at the last letter so far: reads must be 'last_letter', "
            f"and this model has {config.reads!r}"
        )
