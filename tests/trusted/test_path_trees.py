"""Leaves and cuts of trees, as documents have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tsc_interp.tasks.trellis import Stage, Trellis
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.language import deflated
from tsc_interp.trusted.trees import Leaf, mask_of, mask_text, path_leaves


def test_leaves_are_read_as_they_are_written() -> None:
    written = {
        Leaf("is", (2,)): ["is", 2],
        Leaf("each"): ["each"],
        Leaf("open"): ["open"],
        Leaf("wrong", (2,)): ["wrong", 2],
        Leaf("apart", (2, 0)): ["apart", 2, 0],
        Leaf("is", (0,), True): ["is", 0, "float32"],
        Leaf("each", (), True): ["each", "float32"],
        Leaf("wrong", (0,), True): ["wrong", 0, "float32"],
    }
    for leaf, node in written.items():
        assert leaf.node() == node
        assert Leaf.of(node, 3) == leaf
    for node in (
        ["maybe"], ["is"], ["wrong"], ["wrong", 1, 2], ["apart", 1], ["each", 1], ["open", 1],
        ["open", "float32"], ["float32"], ["float32", "float32"], ["maybe", "float32"],
        ["is", 1, 1, "float32"], [["is"], 1], [["is"]], [1], [{}, "float32"],
    ):  # fmt: skip
        with pytest.raises(NotProved, match="unknown node"):
            Leaf.of(node, 3)
    for by in (-1, True, 1.0, "1", None, [1], 10**13, 3):
        with pytest.raises(NotProved, match="whole number"):
            Leaf.of(["wrong", by], 3)


def text(*numbers: int) -> str:
    return deflated(bytes(numbers))


def test_a_cut_has_one_bit_per_edge() -> None:
    assert mask_of(text(0b10100000), 3).tolist() == [True, False, True]
    assert mask_of(text(0b11111110), 7).all()
    assert mask_of(text(0, 0b10000000), 9).tolist() == [False] * 8 + [True]
    assert mask_of(text(1), 8).tolist() == [False] * 7 + [True]
    wrong: list[tuple[Any, int]] = [
        (text(0b10110000), 3), (text(0b00010001), 3), (text(0b11111111), 3), (text(1), 7),
        (text(0, 0), 8), (text(0), 9), ("", 1), (text(0, 0), 1), (text(0) + "!", 3), ("!", 3),
        (None, 3), (3, 3), (b"gA==", 3), ([1], 3),
    ]  # fmt: skip
    for given, edges in wrong:
        with pytest.raises(NotProved, match=r"one bit per edge|packed numbers"):
            mask_of(given, edges)

    noise = np.random.default_rng(1)
    for edges in (1, 7, 8, 9, 300):
        mask = noise.random(edges) < 0.5
        np.testing.assert_array_equal(mask_of(mask_text(mask), edges), mask)


def test_a_tree_is_whole_and_parts_its_paths() -> None:
    first = Stage((0,), *map(np.array, ([0, 0], [0, 1], [[0], [1]])))
    second = Stage((1,), *map(np.array, ([0, 0, 1], [0, 1, 1], [[0], [1], [0]])))
    table = Trellis(2, (), (first, second), 1, np.array([0, 1, 1]))
    budget = Budget()
    budget.restart()

    def leaves(*tree: Any) -> Any:
        return list(path_leaves(list(tree), table, 2, budget))

    ((leaf, masks),) = leaves(["open"])
    assert (leaf, [mask.tolist() for mask in masks]) == (Leaf("open"), [[True] * 2, [True] * 3])
    cut = ["cut", 1, mask_text(np.array([True, False, True]))]
    below = ["cut", 0, mask_text(np.array([False, True]))]
    found = leaves(cut, below, ["is", 0], ["is", 1], ["open"])
    assert [leaf for leaf, _ in found] == [Leaf("is", (0,)), Leaf("is", (1,)), Leaf("open")]
    assert [[mask.tolist() for mask in masks] for _, masks in found] == [
        [[False, True], [True, False, True]],
        [[True, False], [True, False, True]],
        [[True, True], [False, True, False]],
    ]
    for problem, tree in {
        "ends before": [cut, ["open"]],
        "goes on": [["open"], ["open"]],
        "three parts": [[*cut, 1], ["open"], ["open"]],
        "is not a whole number": [["cut", 2, cut[2]], ["open"], ["open"]],
        "a node is a list": [[]],
    }.items():
        with pytest.raises(NotProved, match=problem):
            leaves(*tree)
    with pytest.raises(NotProved, match="list of nodes"):
        list(path_leaves("open", table, 2, budget))
