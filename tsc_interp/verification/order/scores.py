"""Scores of edges, many jobs at once: the largest total of a path, and of one through each edge.

A `Layout` has the edges of a stage in a rectangle, so that a sweep over many jobs is a few
operations on whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tsc_interp.tasks.trellis import Index, Stage
from tsc_interp.verification.bounds.intervals import Array


class Layout:
    """One stage with its edges in a rectangle: a row per (source, target), padded.

    edge    `[group width]` the edge, or the number of edges where there is none
    source  `[group]`; incoming `[target most]` groups by target, padded with the number of groups
    """

    def __init__(self, stage: Stage) -> None:
        grouped, self.edges = stage.grouped, len(stage)
        self.group_of, self.source, self.target = grouped.group_of, grouped.source, grouped.target
        self.column = np.arange(self.edges) - grouped.edge_starts[self.group_of]
        self.shape = len(self.source), int(self.column.max()) + 1

    @cached_property
    def edge(self) -> Index:
        edge = np.full(self.shape, self.edges, dtype=np.int64)
        edge[self.group_of, self.column] = np.arange(self.edges)
        return edge

    @cached_property
    def flat(self) -> Index:
        return self.edge.reshape(-1)

    @cached_property
    def place(self) -> Index:
        """Where each edge stands in the flat rectangle."""
        return np.asarray(self.group_of * self.shape[1] + self.column)

    @cached_property
    def incoming(self) -> Index:
        return _by(self.target)

    @cached_property
    def outgoing(self) -> Index:
        return _by(self.source)


def _by(state: Index) -> Index:
    """The members of each state as padded rows."""
    order = np.argsort(state, kind="stable")
    sizes = np.bincount(state)
    rows = np.full((len(sizes), int(sizes.max())), len(state), dtype=np.int64)
    column = np.arange(len(state)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows[state[order], column] = order
    return rows


@dataclass(frozen=True)
class Scores:
    """Of edges in the rectangles of their layouts, `[flat job]` per stage, -inf outside a region.

    base [job]: what every path has
    """

    layouts: Sequence[Layout]
    edges: Sequence[Array]
    base: Array

    def highest(self) -> Array:
        """The largest total of a path, `[job]`."""
        value = np.zeros((1, len(self.base)))
        for group, layout in zip(self._groups(), self.layouts, strict=True):
            value = _spread(group + value[layout.source], layout.incoming)
        return np.asarray(value.max(0) + self.base)

    def _groups(self) -> list[Array]:
        """The best edge between two states, `[group job]` per stage."""
        return [score.reshape(*layout.edge.shape, -1).max(1)
                for score, layout in zip(self.edges, self.layouts, strict=True)]  # fmt: skip

    def marginals(self) -> list[Array]:
        """Per stage the largest total of a path through each edge: `[job edge]`."""
        grouped, before = self._groups(), [np.zeros((1, len(self.base)))]
        for group, layout in zip(grouped, self.layouts, strict=True):
            before.append(_spread(group + before[-1][layout.source], layout.incoming))
        after = np.zeros((len(self.layouts[-1].incoming), len(self.base)))
        marginals: list[Array] = []
        for i in reversed(range(len(grouped))):
            layout = self.layouts[i]
            around = before[i][layout.source] + after[layout.target] + self.base
            through = self.edges[i][layout.place] + around[layout.group_of]
            marginals.insert(0, through.T)
            after = _spread(grouped[i] + after[layout.target], layout.outgoing)
        return marginals


def _spread(groups: Array, rows: Index) -> Array:
    """The largest of each state's groups, `[state job]`."""
    if rows.shape[1] == 1:
        return groups[rows[:, 0]]
    padded = np.concatenate([groups, np.full((1, groups.shape[1]), -np.inf)])
    return np.asarray(padded[rows].max(1))


def chunks(total: int, size: int) -> Sequence[slice]:
    return [slice(start, start + size) for start in range(0, total, size)]
