"""Trees of cuts: the regions of a part, which they cover by construction.

A tree is a list of nodes in preorder, beginning with the whole region. A cut parts a region in two;
any other node is a leaf, which says something of all inputs of its region:

    ["cut", axis, where]    counts: up to `where` of a letter, then more; ratios: below, then above
    ["cut", stage, edges]   paths through these edges of the stage (packed bits), then the rest
    ["is", j]               class j is the answer
    ["wrong", j]            class j beats the label
    ["apart", i, j]         of two models: the first answers i, the second j
    ["each"]                at most `EACH` inputs, each to be evaluated by itself
    ["open"]                nothing

A leaf but the last two that ends in "float32" says the same of the float32 model, too. A region of
counts that holds no input short enough has no node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.errors import require
from tsc_interp.trusted.language import deflated, inflated, whole
from tsc_interp.trusted.sets import Mask
from tsc_interp.trusted.table import Trellis

EACH = 4096
MAX_NODES = 2_000_000
Node = list[Any]
Masks = list[Mask]


class Leaf(NamedTuple):
    """What a leaf says."""

    kind: str
    classes: tuple[int, ...] = ()
    float32: bool = False

    @classmethod
    def of(cls, node: Node, n_classes: int) -> Leaf:
        """A node of a document that is no cut."""
        words = node[:-1] if node[-1] == "float32" else node
        expected = {"is": 1, "wrong": 1, "apart": 2, "each": 0, "open": 0}
        known = bool(words) and expected.get(str(words[0])) == len(words) - 1
        require(known and (words is node or words[0] != "open"), f"unknown node {str(node)[:80]}")
        return cls(words[0], tuple(whole(x, n_classes) for x in words[1:]), words is not node)

    def node(self) -> Node:
        """As in a document."""
        return [self.kind, *self.classes, *(["float32"] if self.float32 else [])]


@dataclass(frozen=True)
class Box:
    """Counts or ratios between two corners, both included."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def cut(self, axis: int, where: float, counted: bool) -> tuple[Box, Box]:
        """Below and above."""
        inside = self.low[axis] <= where < self.high[axis] if counted else (
            self.low[axis] < where < self.high[axis]
        )  # fmt: skip
        require(inside, f"a cut at {where!r} outside its region")
        high = (*self.high[:axis], where, *self.high[axis + 1 :])
        low = (*self.low[:axis], where + counted, *self.low[axis + 1 :])
        return Box(self.low, high), Box(low, self.high)


def box_leaves(
    tree: Any, root: Box, longest: int | None, n_classes: int, budget: Budget
) -> Iterator[tuple[Leaf, Box]]:
    """The leaves of a tree over a box: of counts up to a length, or of ratios where it is None."""

    def cut(box: Box, node: Node) -> Sequence[Box]:
        axis = whole(node[1], len(box.low))
        where = whole(node[2]) if longest is not None else _ratio(node[2])
        return box.cut(axis, where, longest is not None)

    def holds_inputs(box: Box) -> bool:
        return longest is None or sum(box.low) <= longest

    return _leaves(tree, root, cut, holds_inputs, n_classes, budget, 400)


def path_leaves(
    tree: Any, table: Trellis, n_classes: int, budget: Budget
) -> Iterator[tuple[Leaf, Masks]]:
    """The leaves of a tree over the paths of a table, with their edges."""

    def cut(masks: Masks, node: Node) -> Sequence[Masks]:
        stage = whole(node[1], len(masks))
        chosen = mask_of(node[2], len(masks[stage]))
        inside, outside = list(masks), list(masks)
        inside[stage], outside[stage] = masks[stage] & chosen, masks[stage] & ~chosen
        return inside, outside

    root = [np.ones(len(stage), dtype=bool) for stage in table.stages]
    size = max(map(len, table.stages)) + 8 * len(table.stages) + 200
    return _leaves(tree, root, cut, lambda masks: True, n_classes, budget, size)


def _leaves(
    tree: Any, root: Any, cut: Callable[[Any, Node], Sequence[Any]],
    holds_inputs: Callable[[Any], bool], n_classes: int, budget: Budget, size: int,
) -> Iterator[tuple[Leaf, Any]]:  # fmt: skip
    require(isinstance(tree, list) and len(tree) <= MAX_NODES, "a tree is a list of nodes")
    waiting = [root] if holds_inputs(root) else []
    for node in tree:
        require(bool(waiting), "the tree goes on after its last leaf")
        require(isinstance(node, list) and bool(node), "a node is a list")
        region = waiting.pop()
        if node[0] == "cut":
            require(len(node) == 3, "a cut has three parts")
            waiting += reversed([part for part in cut(region, node) if holds_inputs(part)])
            budget(len(waiting) * size)
        else:
            yield Leaf.of(node, n_classes), region
    require(not waiting, "the tree ends before its last leaf")


def mask_text(mask: Mask) -> str:
    """The edges of a cut as a document has them."""
    return deflated(np.packbits(mask).tobytes())


def mask_of(text: Any, edges: int) -> Mask:
    """The edges of a cut, one bit for each of the stage."""
    packed = np.frombuffer(inflated(text, -(-edges // 8)), dtype=np.uint8)
    require(len(packed) == -(-edges // 8), "a cut has one bit per edge of its stage")
    bits = np.unpackbits(packed)
    require(not bits[edges:].any(), "a cut has one bit per edge of its stage")
    return bits[:edges].astype(bool)


def _ratio(value: Any) -> float:
    require(type(value) is float and 0 < value < 1, f"{value!r} is not a ratio")
    return float(value)
