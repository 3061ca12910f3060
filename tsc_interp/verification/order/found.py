"""What a search over one trellis holds: batches of regions, the tree of cuts, what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.stack import Stack
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.verification.bounds.intervals import Array
from tsc_interp.verification.order.decide import UNDECIDED

_ARRAYS = ("reader", "label", "node", "doubt")


@dataclass
class Batch:
    """Regions with what the search knows of them: `node [region]` is their place in the tree."""

    regions: Regions
    reader: Index
    label: Index
    node: Index
    levels: list[Array]
    """`[region direction]` per head: where to begin; NaN where nothing is known."""
    doubt: Mask
    """`[region class]`: classes that may beat the label somewhere in the region."""

    def __len__(self) -> int:
        return len(self.node)

    def __getitem__(self, chosen: Index | slice | Mask) -> Batch:
        return self.part(chosen, self.regions[chosen])

    def part(self, chosen: Index | slice | Mask, regions: Regions) -> Batch:
        """What is known of some of them, of which these regions are left."""
        arrays: dict[str, Any] = {name: getattr(self, name)[chosen] for name in _ARRAYS}
        return Batch(regions, levels=[level[chosen] for level in self.levels], **arrays)

    def joined(self, others: list[Batch]) -> Batch:
        parts = [part for part in (self, *others) if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else self
        levels = zip(*(part.levels for part in parts), strict=True)
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS
        }
        regions = parts[0].regions.joined([part.regions for part in parts[1:]])
        return Batch(regions, levels=[np.concatenate(level) for level in levels], **arrays)


Side = tuple[Batch, Index]
"""Part of a batch that was cut, and the rows it came from."""


@dataclass
class Tree:
    """Cuts and leaves in the order they were made; node 0 is the whole trellis.

    A cut is (stage, packed edges, child inside); the child outside comes directly after it.
    A leaf is `RIGHT`, `UNDECIDED`, `OPEN` for "each path on its own", or the class that wins.
    """

    nodes: list[tuple[int, bytes, int] | int | None] = field(default_factory=lambda: [None])

    def cut(self, node: Index, stage: Index, part: Mask) -> Index:
        """The children of these nodes, numbered: `[2 region]`."""
        first = len(self.nodes) + 2 * np.arange(len(node))
        packed = map(bytes, np.packbits(part, axis=1))
        self.nodes += [None] * (2 * len(node))
        cuts = zip(stage.tolist(), packed, first.tolist(), strict=True)
        for at, cut in zip(node.tolist(), cuts, strict=True):
            self.nodes[at] = cut
        return np.stack([first, first + 1])

    def parts(self, node: int, stage: int, parts: Mask) -> Index:
        """One cut after the other at a stage: the parts `[part edge]` and what is left."""
        first = len(self.nodes) + 2 * np.arange(len(parts))
        outside = np.array([node, *(first + 1)])
        self.cut(outside[:-1], np.full(len(parts), stage), parts)
        return np.array([*first, outside[-1]])

    def leaves(self, node: Index, outcome: Index) -> None:
        for at, one in zip(node.tolist(), outcome.tolist(), strict=True):
            self.nodes[at] = one


@dataclass
class Found:
    """What became of the paths of one trellis."""

    trellis: Trellis
    wrong: list[tuple[Regions, Index]] = field(default_factory=list)
    """Regions with the class that beats their label."""
    undecided: list[Regions] = field(default_factory=list)
    wrong_inputs: list[tuple[NDArray[np.int16], Index]] = field(default_factory=list)
    """Inputs found one by one `[input place]`, with the class that wins."""
    undecided_inputs: list[NDArray[np.int16]] = field(default_factory=list)
    examined: int = 0
    tree: Tree = field(default_factory=Tree)
    stack: tuple[Stack, int] | None = None
    """The tree is about this part of a stack."""

    def by_label(self) -> list[Found]:
        """The same for each part of a stack; the first has all single inputs."""
        stack = self.trellis
        if not isinstance(stack, Stack):
            return [self]
        parts = [
            Found(part, tree=self.tree, stack=(stack, number))
            for number, part in enumerate(stack.parts)
        ]
        for regions, instead in self.wrong:
            for number, rows, mine in _apart(stack, regions):
                parts[number].wrong.append((mine, instead[rows]))
        for regions in self.undecided:
            for number, _, mine in _apart(stack, regions):
                parts[number].undecided.append(mine)
        first = parts[0]
        first.wrong_inputs, first.undecided_inputs = self.wrong_inputs, self.undecided_inputs
        first.examined = self.examined
        return parts

    def cut(self, node: tuple[int, bytes, int]) -> tuple[int | None, Mask, int]:
        """The stage, edges and first child of a cut; no stage where a stack is cut by label."""
        stage, packed, child = node
        edges = np.unpackbits(np.frombuffer(packed, dtype=np.uint8)).astype(bool)
        if self.stack is None:
            return stage, edges[: len(self.trellis.stages[stage])], child
        stack, number = self.stack
        if stage == 0:
            return None, edges, child + 1 - int(edges[number])
        return stage - 1, edges[stack.own[number][stage]], child

    def give_up(self, regions: Regions, node: Index) -> None:
        """Call regions undecided that stand at these nodes of the tree."""
        if len(regions):
            self.tree.leaves(node, np.full(len(node), UNDECIDED))
            self.undecided.append(regions)


def unsearched(trellis: Trellis) -> Found:
    """Nothing decided."""
    found = Found(trellis)
    found.give_up(Regions.whole(trellis), np.zeros(1, dtype=np.int64))
    return found


def _apart(stack: Stack, regions: Regions) -> Iterator[tuple[int, Index, Regions]]:
    """Regions of a stack as those of its parts: the part, which of them, and their own masks."""
    part = regions.masks[0].argmax(1)
    for number in sorted(set(part.tolist())):
        rows = np.flatnonzero(part == number)
        pairs = zip(regions.masks[1:], stack.own[number][1:], strict=True)
        masks = tuple(mask[np.ix_(rows, edges)] for mask, edges in pairs)
        yield number, rows, Regions(stack.parts[number], masks)


def side(batch: Batch, regions: Regions, has: Mask, node: Index) -> Side:
    """Part of a batch: those regions that have a path, at these nodes."""
    return replace(batch.part(has, regions), node=node[has]), np.flatnonzero(has)
