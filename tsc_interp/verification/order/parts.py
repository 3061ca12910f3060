"""The search over whole parts: every input of one length, or of one step of a task that writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.tasks.unrolling import trellis_of
from tsc_interp.verification.order.bounds import Bounds
from tsc_interp.verification.order.exact import OrderedExact
from tsc_interp.verification.order.keys import keys_of
from tsc_interp.verification.order.partition import Found, Partition

_TOGETHER = 2500
"""Labels share one trellis where that has at most so many edges; else each has its own."""
Progress = Callable[[float], None]


@dataclass
class Part:
    """What became of every input of one length or step."""

    length: int
    step: int | None
    inputs: int
    groups: list[Found]
    seconds: float

    @property
    def examined(self) -> int:
        """Regions that were bounded."""
        return sum(group.examined for group in self.groups)

    @property
    def wrong(self) -> int:
        return sum(sum(map(sum, map(Regions.counts, regions))) for regions in self._wrong()) + len(
            self.wrong_paths
        )

    def _wrong(self) -> list[list[Regions]]:
        return [[regions for regions, _ in group.wrong] for group in self.groups]

    @property
    def undecided(self) -> int:
        regions = [one for group in self.groups for one in group.undecided]
        return sum(map(sum, map(Regions.counts, regions))) + len(self.undecided_paths)

    @property
    def wrong_paths(self) -> list[tuple[Index, int]]:
        return [path for group in self.groups for path in group.wrong_paths]

    @property
    def undecided_paths(self) -> list[Index]:
        return [path for group in self.groups for path in group.undecided_paths]

    def first(self, undecided: bool = False) -> tuple[int, ...] | None:
        """The first wrong (or undecided) input, place by place in the alphabet's order."""
        found: list[tuple[int, ...]] = []
        for group in self.groups:
            regions = group.undecided if undecided else [one for one, _ in group.wrong]
            found += [one.first() for one in regions if len(one)]
        paths = self.undecided_paths if undecided else [path for path, _ in self.wrong_paths]
        found += [tuple(path.tolist()) for path in paths]
        return min(found, default=None)

    def sample(self, count: int, seed: int = 0) -> Index:
        """Wrong inputs drawn uniformly, with replacement: `[input place]`."""
        draw = np.random.default_rng(seed)
        pieces: list[Any] = [one for group in self.groups for one, _ in group.wrong]
        sizes = [sum(one.counts()) for one in pieces]
        paths = [path for path, _ in self.wrong_paths]
        if paths:
            pieces.append(np.stack(paths))
            sizes.append(len(paths))
        if not pieces:
            return np.zeros((0, self.length), dtype=np.int64)
        total = sum(sizes)
        chosen = draw.choice(len(sizes), count, p=[size / total for size in sizes])
        rows = []
        for i, many in zip(*np.unique(chosen, return_counts=True), strict=True):
            piece = pieces[i]
            if isinstance(piece, Regions):
                rows.append(piece.sample(int(many), int(draw.integers(2**31))))
            else:
                rows.append(piece[draw.integers(len(piece), size=many)])
        return np.asarray(draw.permutation(np.concatenate(rows)))


def search_part(
    exact: OrderedExact,
    task: Any,
    length: int,
    step: int | None,
    deadline: float,
    progress: Progress | None = None,
) -> Part:
    """Every input of one length, or of one step, as far as the time goes (`monotonic`)."""
    begun = monotonic()
    if isinstance(task, Writing):
        assert step is not None
        trellis = task.step_trellis(step)
    else:
        trellis = trellis_of(task, exact.config.n_letters, length)
    keys = keys_of(exact, trellis)
    found = []
    groups = groups_of(trellis)
    for number, group in enumerate(groups):
        bounds = Bounds(exact.config, group, keys)
        left = deadline - monotonic()
        until = monotonic() + left / (len(groups) - number)
        found.append(Partition(exact, bounds, until).run())
        if progress is not None:
            progress((number + 1) / len(groups))
    inputs = sum(Regions.whole(group).counts()[0] for group in groups)
    return Part(trellis.length, step, inputs, found, monotonic() - begun)


def groups_of(trellis: Trellis) -> list[Trellis]:
    """All labels in one trellis where that is small, else one trellis for each."""
    together = trellis.of_labels(trellis.labels)
    if together.n_edges <= _TOGETHER or len(trellis.labels) == 1:
        return [together]
    return [trellis.of_label(label) for label in trellis.labels]


def require_readable(exact: OrderedExact, task: Any) -> None:
    if isinstance(task, Writing) and exact.config.reads != "last_letter":
        raise UnsupportedError(
            "a task that writes is read at the last letter so far: reads must be 'last_letter', "
            f"and this model has {exact.config.reads!r}"
        )
