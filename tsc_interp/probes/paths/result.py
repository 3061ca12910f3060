"""What the paths probe measures: the effect of every edge, exactly and by gradients."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.results.base import Pair, ProbeResult, Record, Table

MOST_ROWS = 40


class Node(Record):
    """A letter (or position), a head, a neuron, or the logit."""

    name: str
    short: str
    stage: int
    """Its column in the graph: letters 0, heads and neurons of layer 0 at 1 and 2, ..."""


class PathEdge(Record):
    source: Node
    target: Node
    through: str
    """What of the target receives it: `count`, `query`, `key`, `value`, or empty."""
    notation: str
    """The intervention that measures it."""
    effect: float
    """(patched - corrupted) / (clean - corrupted), the edge alone patched from the clean run."""
    estimate: float
    """The same by attribution patching: gradient times (clean - corrupted)."""

    @property
    def name(self) -> str:
        return f"{self.source.name} → {self.target.name}{self.through and f' ({self.through})'}"


class Paths(Record):
    """One pair, and what each edge carries from its clean into its corrupted run."""

    pair: Pair
    edges: tuple[PathEdge, ...]
    """Those measured, the largest effect first."""
    same: int
    """Edges whose source is the same in both runs, so that they carry nothing."""
    left_out: int = 0
    """Edges that were only estimated, because there are many."""
    left_out_estimate: float = 0.0
    """The largest estimate among them."""
    rank_correlation: float | None = None
    """Spearman's, of estimates and exact effects; None for fewer than three edges."""

    @property
    def effects(self) -> NDArray[np.float64]:
        return np.array([edge.effect for edge in self.edges])

    @property
    def estimates(self) -> NDArray[np.float64]:
        return np.array([edge.estimate for edge in self.edges])


class PathsResult(ProbeResult):
    probe: ClassVar[str] = "paths"

    by: str
    """`letter` (letters are counted) or `position` (letters stand somewhere)."""
    n_layers: int
    pairs: tuple[Paths, ...]

    def tables(self) -> tuple[Table, ...]:
        return tuple(_table(paths) for paths in self.pairs)


def _table(paths: Paths) -> Table:
    rows = tuple(
        (edge.name, edge.effect, edge.estimate, edge.estimate - edge.effect, edge.notation)
        for edge in paths.edges[:MOST_ROWS]
    )
    many = len(paths.edges) > MOST_ROWS
    most = f", the largest {MOST_ROWS} of {len(paths.edges):,}" if many else ""
    return Table.from_rows(
        f"Edges from {paths.pair.clean} into {paths.pair.corrupted}{most}",
        ("edge", "effect", "estimate by gradient", "error of the estimate", "intervention"),
        rows,
    )
