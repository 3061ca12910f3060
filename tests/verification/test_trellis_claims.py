"""Leaves of certificates about order, how they add up, and what tells two of them apart."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tsc_interp.tasks.trellis import Stage, Trellis
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.trellis_claims import (
    Claim,
    PartProved,
    Tally,
    TrellisProved,
    mask_of,
    names_of,
)


def test_leaves_are_read_as_they_are_written() -> None:
    written = {
        Claim("right"): ["right"],
        Claim("each"): ["each"],
        Claim("open"): ["open"],
        Claim("wrong", 2): ["wrong", 2],
        Claim("right", float32=True): ["right", "float32"],
        Claim("each", float32=True): ["each", "float32"],
        Claim("wrong", 0, True): ["wrong", 0, "float32"],
    }
    for claim, node in written.items():
        assert claim.node() == node
        assert Claim.of(node) == claim
    for node in (
        ["maybe"], ["right", 1], ["wrong"], ["wrong", 1, 2], ["each", 1], ["open", 1],
        ["open", "float32"], ["float32"], ["float32", "float32"], ["maybe", "float32"],
        ["right", 1, "float32"], [["right"]], [["right"], 1], [1], [{}, "float32"],
    ):  # fmt: skip
        with pytest.raises(CertificateError, match="unknown leaf"):
            Claim.of(node)
    for by in (-1, True, 1.0, "1", None, [1], 10**13):
        with pytest.raises(CertificateError, match="whole number"):
            Claim.of(["wrong", by])


def test_leaves_add_up() -> None:
    tally = Tally()
    assert vars(tally) == {"right": 0, "wrong": 0, "first_wrong": None, "float32": None}
    tally.add("right", 5, False)
    tally.add("wrong", 3, False)
    assert (tally.right, tally.wrong, tally.float32) == (5, 3, None)
    tally.add("wrong", 2, True)
    assert tally.float32 == {"right": 0, "wrong": 2}
    tally.add("right", 7, True)
    tally.add("wrong", 1, True)
    tally.add("right", 1, False)
    assert (tally.right, tally.wrong) == (13, 6)
    assert tally.float32 == {"right": 7, "wrong": 3}
    other = Tally()
    other.add("right", 4, True)
    assert other.float32 == {"right": 4, "wrong": 0}
    for string in ((1, 0), (0, 2), (1, 1), (0, 2)):
        tally.error(string)
    assert tally.first_wrong == (0, 2)


def test_parts_say_what_was_derived() -> None:
    part = PartProved("length", 4, 1000, 700, 200, (0, 1), {"right": 5, "wrong": 6}, "ab")
    assert part.undecided == 100
    assert part.conclusion() == {
        "length": 4, "table": "ab", "inputs": "1000", "right": "700", "wrong": "200",
        "undecided": "100", "first_wrong": [0, 1], "float32": {"right": "5", "wrong": "6"},
    }  # fmt: skip
    step = PartProved("step", 2, 9, 9, 0, None)
    assert step.conclusion() == {
        "step": 2, "table": "", "inputs": "9", "right": "9", "wrong": "0", "undecided": "0",
        "first_wrong": None,
    }  # fmt: skip
    proved = TrellisProved("sums", (part, step))
    assert list(proved) == [
        "of 1,000 inputs of length 4, 700 are right and 200 wrong, 100 not decided (task: sums)",
        "of 9 inputs at step 2, 9 are right and 0 wrong (task: sums)",
    ]
    assert len(proved) == 2
    assert proved.conclusion() == {"parts": [part.conclusion(), step.conclusion()]}


def text(*numbers: int) -> str:
    return base64.b64encode(bytes(numbers)).decode()


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
        with pytest.raises(CertificateError, match=r"one bit per edge|base64"):
            mask_of(given, edges)


def pairs(places: tuple[int, int] = (0, 1)) -> Trellis:
    """Two letters; the second edge of the first stage leads to a state of its own."""
    first = Stage((places[0],), *map(np.array, ([0, 0], [0, 1], [[0], [1]])))
    second = Stage((places[1],), *map(np.array, ([0, 0, 1], [0, 1, 1], [[0], [1], [0]])))
    return Trellis(2, (), (first, second), 1, np.array([0, 1, 1]))


def test_whatever_differs_in_a_leaf_gives_it_another_name() -> None:
    """A name must stand for one set of inputs and one claim: what has it is shown only once."""
    trellis = pairs()
    first, second = trellis.stages

    def with_second(**changes: Any) -> Trellis:
        return replace(trellis, stages=(first, replace(second, **changes)))

    flat = replace(second, places=(1, 2), letters=np.array([[0, 0], [1, 0], [0, 0]]))
    others = [
        pairs((1, 0)),
        replace(trellis, label=np.array([0, 1, 0])),
        replace(trellis, label=np.array([0, 1]), label_stage=0),
        replace(trellis, length=3, fixed=((2, 0),)),
        replace(trellis, length=3, fixed=((2, 1),)),
        replace(trellis, length=3, stages=(first, flat)),
        with_second(target=np.array([0, 1, 0])),
        with_second(letters=np.array([[0], [1], [1]])),
        with_second(source=np.array([0, 1, 1]), letters=np.array([[0], [1], [0]])),
    ]
    names: list[bytes] = []
    for one in (trellis, *others):
        names += names_of(Sets.whole(one), [Claim("right")])
    masks = [np.array([[True, True]] * 3), np.array([[True] * 3] * 2 + [[True, False, True]])]
    masks[0][1, 1] = False
    sets = Sets(trellis, masks)
    names += names_of(sets, [Claim("wrong", 1)] * 3)
    names += names_of(sets, [Claim("wrong", 1, True)] * 3)
    names += names_of(sets, [Claim("wrong", 0)] * 3)
    assert len(set(names)) == len(names) == 19
    assert names_of(Sets.whole(pairs()), [Claim("right")]) == names[:1]
