"""Trees of cuts: their leaves are all of a region, each input once."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsc_interp.trusted import trees
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.trees import Box, box_leaves

LEAF = ["is", 0]


def leaves(tree: Any, root: Box, longest: int | None) -> list[Box]:
    budget = Budget()
    budget.restart()
    return [box for _, box in box_leaves(tree, root, longest, 2, budget)]


def grown(draw: Any, low: tuple[int, ...], high: tuple[int, ...], longest: int) -> list[Any]:
    """A random tree over the counts of a box, in preorder."""
    if sum(low) > longest:
        return []
    axes = [i for i in range(len(low)) if low[i] < high[i]]
    if not axes or draw(st.booleans()):
        return [LEAF]
    axis = draw(st.sampled_from(axes))
    where = draw(st.integers(low[axis], high[axis] - 1))
    below = (*high[:axis], where, *high[axis + 1 :])
    above = (*low[:axis], where + 1, *low[axis + 1 :])
    parts = grown(draw, low, below, longest) + grown(draw, above, high, longest)
    return [["cut", axis, where], *parts]


@given(st.data())
def test_leaves_hold_every_input_once(data: st.DataObject) -> None:
    size, longest = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 7))
    low, high = (1,) * size, (max(1, longest - size + 1),) * size
    boxes = leaves(grown(data.draw, low, high, longest), Box(low, high), longest)
    for counts in product(range(1, longest + 1), repeat=size):
        holding = [box for box in boxes if all(
            a <= n <= b for a, n, b in zip(box.low, counts, box.high, strict=True))]  # fmt: skip
        assert len(holding) == 1 or sum(counts) > longest


def test_ratios_share_their_ends() -> None:
    parts = leaves([["cut", 0, 0.25], LEAF, LEAF], Box((0.0,), (1.0,)), None)
    assert parts == [Box((0.0,), (0.25,)), Box((0.25,), (1.0,))]


@pytest.mark.parametrize(
    "tree",
    [
        [], "is", [LEAF, LEAF], [["cut", 0, 2], LEAF], [["cut", 0, 2], LEAF, LEAF, LEAF],
        [["cut", 0, 0], LEAF, LEAF], [["cut", 0, 4], LEAF, LEAF], [["cut", 2, 2], LEAF, LEAF],
        [["cut", 0, 4], LEAF],
        [["cut", 0, 2.0], LEAF, LEAF], [["cut", 0, True], LEAF, LEAF], [["cut", 0], LEAF, LEAF],
        [["is", 2]], [["is", -1]], [["is"]], [["is", 0, 1]], [["is", 0.0]], [["open", "float32"]],
        [["magic"]], [[]], [None], [["apart", 0]], [["float32"]],
    ],
)  # fmt: skip
def test_other_trees_are_refused(tree: Any) -> None:
    with pytest.raises((NotProved, TypeError, IndexError)):
        leaves(tree, Box((1, 1), (4, 4)), 5)


@pytest.mark.parametrize(
    "tree",
    [
        [["cut", 0, 0.0], LEAF, LEAF], [["cut", 0, 1.0], LEAF, LEAF], [["cut", 0, 1], LEAF, LEAF],
        [["cut", 0, "0.5"], LEAF, LEAF], [["cut", 0, 0.5], LEAF, ["cut", 0, 0.5], LEAF, LEAF],
        [["cut", 0, 0.5], ["cut", 0, 0.5], LEAF, LEAF, LEAF],
    ],
)  # fmt: skip
def test_ratios_are_cut_inside(tree: Any) -> None:
    with pytest.raises((NotProved, TypeError)):
        leaves(tree, Box((0.0,), (1.0,)), None)
    with pytest.raises(NotProved, match="not a ratio"):
        leaves([["cut", 0, 1], LEAF, LEAF], Box((0.0,), (2.0,)), None)


def test_trees_and_what_waits_in_them_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cut leaves a region to wait, of about 400 bytes; half of the memory is for them."""
    root = Box((1,), (9,))
    tree = [*(["cut", 0, at] for at in (5, 4, 3, 2)), *[LEAF] * 5]
    for memory, enough in ((4000, True), (3999, False)):
        budget = Budget(memory=memory)
        budget.restart()
        if enough:
            assert len(list(box_leaves(tree, root, 9, 2, budget))) == 5
        else:
            with pytest.raises(NotProved, match="bytes of memory"):
                list(box_leaves(tree, root, 9, 2, budget))
    monkeypatch.setattr(trees, "MAX_NODES", 9)
    assert len(leaves(tree, root, 9)) == 5
    monkeypatch.setattr(trees, "MAX_NODES", 8)
    with pytest.raises(NotProved, match="list of nodes"):
        leaves(tree, root, 9)
