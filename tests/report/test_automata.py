"""Automata as pictures: which letters lead where, states in layers, tables above twelve states."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations
from math import hypot
from typing import Any

import pytest

import tsc_interp as tsc
from tsc_interp.report.automata import automaton_picture, drawn, places
from tsc_interp.tasks import (
    AtLeast,
    Before,
    Brackets,
    ContainsAll,
    EndsWith,
    Maximum,
    Parity,
    Regex,
    SumSign,
)

KNOWN = [
    (Regex("(a|b)*c"), 3), (Before(), 3), (ContainsAll(letters="abc"), 4), (Brackets(depth=4), 2),
    (Parity(), 3), (AtLeast(k=9), 3), (Maximum(), 5), (EndsWith(suffix="abab"), 3),
]  # fmt: skip


def test_arrows_by_hand() -> None:
    """Letters that lead to one state share an arrow, neighbours of the alphabet as a range."""
    found = drawn(Before(first="a", second="b"), 5)
    assert found is not None
    assert found.names == ("start", "a", "b")
    assert found.label == (0, 1, 0)
    assert found.arrows() == {
        (0, 1): "a", (0, 2): "b", (0, 0): "c–e", (1, 1): "a–e", (2, 2): "a–e",
    }  # fmt: skip


def test_states_of_ones_own_keep_their_names() -> None:
    task = tsc.tasks.Automaton(
        states=["even", "odd"], start="even", letters="ab", label=[0, 1],
        step={"even": {"a": "odd", "b": "even"}, "odd": {"a": "even", "b": "odd"}},
    )  # fmt: skip
    found = drawn(task, 2, names=("x", "y"))
    assert found is not None
    assert found.names == ("even", "odd")
    assert found.arrows() == {(0, 1): "x", (0, 0): "y", (1, 0): "x", (1, 1): "y"}


@pytest.mark.parametrize(("task", "letters"), KNOWN, ids=lambda x: getattr(x, "kind", ""))
def test_a_drawing_says_what_the_task_says(task: Any, letters: int) -> None:
    """Every state's shortest string has the state's class, and no two states lie on each other."""
    import numpy as np

    found = drawn(task, letters)
    assert found is not None
    for name, label in list(zip(found.names, found.label, strict=True))[1:]:
        row = np.array([["abcdefgh".index(x) for x in name]])
        given = row if task.ordered else (row[:, :, None] == np.arange(letters)).sum(1)
        assert task.classes(given)[0] == label
    assert min(hypot(a[0] - b[0], a[1] - b[1]) for a, b in combinations(places(found), 2)) > 60
    picture = automaton_picture(task, letters)
    assert picture is not None
    svg = ET.fromstring(picture[picture.index("<svg") : picture.index("</svg>") + 6])
    left, top, width, height = map(float, svg.attrib["viewBox"].split())
    for text in svg.iter("text"):
        assert left < float(text.attrib["x"]) < left + width
        assert top < float(text.attrib["y"]) < top + height


def test_large_automata_are_tables_and_larger_ones_nothing() -> None:
    assert "<svg viewBox" in str(automaton_picture(Brackets(depth=10), 2))
    table = str(automaton_picture(Brackets(depth=11), 2))
    assert "<svg viewBox" not in table
    assert table.count("<tr>") == 1 + 13  # depths 0 to 11 and what is lost
    assert automaton_picture(Brackets(depth=100), 2) is None


def test_what_grows_with_the_length_is_no_picture() -> None:
    assert automaton_picture(SumSign(values=[1, -1]), 2) is None
    assert automaton_picture(tsc.tasks.Addition(digits=2), 12) is None


def test_names_are_escaped() -> None:
    picture = automaton_picture(Parity(), 2, names=("<", "&"), classes=("<b>", "yes"))
    assert picture is not None
    assert "<b>" not in picture
    assert ">&lt;</text>" in picture
