"""What a search over one trellis holds: batches of regions, the tree of cuts, what was found."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.stack import Stack
from tsc_interp.tasks.trellis import Index, Trellis

RIGHT, OPEN, SINGLY = -1, -2, -3
"""Outcomes of regions beside the class that beats the label on every input: the label wins on every
input, it is not decided, and the inputs are decided one by one."""


_ARRAYS = ("label", "node")


@dataclass
class Batch:
    """Regions with what the search knows of them, by region.

    label: of all inputs of a region
    node:  its place in the tree
    """

    regions: Regions
    label: Index
    node: Index

    def __len__(self) -> int:
        return len(self.node)

    def __getitem__(self, chosen: Index | slice | Mask) -> Batch:
        return self.part(chosen, self.regions[chosen])

    def part(self, chosen: Index | slice | Mask, regions: Regions) -> Batch:
        """What is known of some of them, of which these regions are left."""
        return Batch(regions, **{name: getattr(self, name)[chosen] for name in _ARRAYS})

    def joined(self, others: list[Batch]) -> Batch:
        parts = [part for part in (self, *others) if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else self
        regions = parts[0].regions.joined([part.regions for part in parts[1:]])
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
        return Batch(regions, **arrays)


Node = tuple[int, bytes, int] | int
Cut = tuple[int, Mask]
"""A stage, and the edges inside."""


@dataclass
class Found:
    """What became of the paths of one trellis: a tree of cuts, and inputs decided one by one.

    A cut is (stage, packed edges, child inside); the child outside comes directly after that one.
    A leaf is an outcome. Node 0 is the whole trellis.
    """

    trellis: Trellis
    nodes: list[Node] = field(default_factory=lambda: [OPEN])
    wrong_inputs: list[tuple[NDArray[np.int16], Index]] = field(default_factory=list)
    """Inputs found one by one `[input place]`, with the class that wins."""
    undecided_inputs: list[NDArray[np.int16]] = field(default_factory=list)
    examined: int = 0
    """Regions that were bounded."""
    known: dict[int, int] = field(default_factory=dict)
    """Nodes that are open because they are to be shown of float32, and their outcome."""
    sure: set[int] = field(default_factory=set)
    """Nodes whose outcome is that of the float32 model, too."""
    sure_inputs: Index = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    """Inputs decided one by one that are right, and wrong, in float32, too."""
    stack: tuple[Stack, int] | None = None
    """The tree is about this stack, of which the trellis is a part."""

    # -- the search writes -----------------------------------------------------------------------

    def cut(self, node: Index, stage: Index, part: Mask) -> Index:
        """The children of these nodes, numbered: `[2 region]`."""
        first = len(self.nodes) + 2 * np.arange(len(node))
        packed = map(bytes, np.packbits(part, axis=1))
        self.nodes += [OPEN] * (2 * len(node))
        cuts = zip(stage.tolist(), packed, first.tolist(), strict=True)
        for at, cut in zip(node.tolist(), cuts, strict=True):
            self.nodes[at] = cut
            if at in self.known:
                self.known[cut[2]] = self.known[cut[2] + 1] = self.known.pop(at)
        return np.stack([first, first + 1])

    def cut_apart(self, node: int, stage: int, parts: Mask) -> Index:
        """One cut after the other at a stage: the parts `[part edge]` and what is left."""
        first = len(self.nodes) + 2 * np.arange(len(parts))
        outside = np.array([node, *(first + 1)])
        self.cut(outside[:-1], np.full(len(parts), stage), parts)
        return np.array([*first, outside[-1]])

    def close(self, node: Index, outcome: Index) -> None:
        """Give these nodes an outcome each."""
        for at, leaf in zip(node.tolist(), outcome.tolist(), strict=True):
            self.nodes[at] = leaf

    def settle(self) -> None:
        """End the search: what is shown over the reals alone is said of the reals alone."""
        for at, outcome in self.known.items():
            if self.nodes[at] == OPEN:
                self.nodes[at] = outcome

    # -- and others read -------------------------------------------------------------------------

    def walk(
        self, root: int = 0, masks: Sequence[Mask] | None = None
    ) -> Iterator[tuple[int, Sequence[Mask], Cut | int]]:
        """A root and what is below it, in preorder: node, masks, and cut or outcome."""
        whole = [np.ones(len(stage), dtype=bool) for stage in self.trellis.stages]
        waiting: list[tuple[int, Sequence[Mask]]] = [(root, masks or whole)]
        while waiting:
            at, masks = waiting.pop()
            node = self.nodes[at]
            if isinstance(node, int):
                yield at, masks, node
                continue
            stage, edges, child = self._read(node)
            if stage is None:
                waiting.append((child, masks))
                continue
            yield at, masks, (stage, edges)
            for side, part in ((child + 1, ~edges), (child, edges)):
                waiting.append((side, [*masks[:stage], masks[stage] & part, *masks[stage + 1 :]]))

    def _read(self, node: tuple[int, bytes, int]) -> tuple[int | None, Mask, int]:
        """The stage, edges and first child of a cut; no stage where a stack is cut by label."""
        stage, packed, child = node
        edges = np.unpackbits(np.frombuffer(packed, dtype=np.uint8)).astype(bool)
        if self.stack is None:
            return stage, edges[: len(self.trellis.stages[stage])], child
        stack, number = self.stack
        if stage == 0:
            return None, edges, child + 1 - int(edges[number])
        return stage - 1, edges[stack.own[number][stage]], child

    def leaves(
        self, chosen: Callable[[int], bool], among: Container[int] | None = None
    ) -> tuple[Regions, Index]:
        """The regions whose outcome is chosen, among these nodes or all, and their nodes."""
        ends: list[tuple[int, Sequence[Mask]]] = []
        if any(isinstance(node, int) and chosen(node) for node in self.nodes):
            ends = [(at, masks) for at, masks, step in self.walk()
                    if isinstance(step, int) and chosen(step)
                    and (among is None or at in among)]  # fmt: skip
        whole, node = Regions.whole(self.trellis), np.array([at for at, _ in ends], dtype=np.int64)
        if not ends:
            return whole[:0], node
        masks = [np.stack(stage) for stage in zip(*(masks for _, masks in ends), strict=True)]
        # In a stack a region has the edges of one label only.
        own = whole[masks[0].argmax(1) if len(whole) > 1 else np.zeros_like(node)]
        pairs = zip(masks, own.masks, strict=True)
        return whole.with_masks([mask & edges for mask, edges in pairs]).pruned()[0], node

    @cached_property
    def wrong(self) -> tuple[Regions, Index]:
        """Of a search that is over: regions, and the class that wins on every input of each."""
        regions, node = self.leaves(lambda outcome: outcome >= 0)
        return regions, np.array([self.nodes[at] for at in node.tolist()], dtype=np.int64)

    @cached_property
    def undecided(self) -> Regions:
        """Of a search that is over."""
        return self.leaves(lambda outcome: outcome == OPEN)[0]

    def by_label(self) -> list[Found]:
        """The same for each part of a stack; the first has all single inputs."""
        stack = self.trellis
        if not isinstance(stack, Stack):
            return [self]
        parts = [
            Found(part, self.nodes, stack=(stack, number), sure=self.sure)
            for number, part in enumerate(stack.parts)
        ]
        first = parts[0]
        first.wrong_inputs, first.undecided_inputs = self.wrong_inputs, self.undecided_inputs
        first.examined, first.sure_inputs = self.examined, self.sure_inputs
        return parts
