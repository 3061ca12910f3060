"""Automata as tables: which letters lead where, and the class of every state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.report.automata import automaton_table
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


def test_rows_by_hand() -> None:
    table = automaton_table(Before(first="a", second="b"), 3, ("x", "y", "z"), ("no", "yes"))
    assert table is not None
    assert table.columns == ("state", "x", "y", "z", "answer")
    assert table.rows == (
        ("start", "x", "y", "start", "no"), ("x", "x", "x", "x", "yes"),
        ("y", "y", "y", "y", "no"),
    )  # fmt: skip


def test_states_of_ones_own_keep_their_names() -> None:
    task = tsc.tasks.Automaton(
        states=["even", "odd"], start="even", letters="ab", label=[0, 1],
        step={"even": {"a": "odd", "b": "even"}, "odd": {"a": "even", "b": "odd"}},
    )  # fmt: skip
    table = automaton_table(task, 2)
    assert table is not None
    assert table.rows == (
        ("even", "odd", "even", "class 0"), ("odd", "even", "odd", "class 1"),
    )  # fmt: skip


@pytest.mark.parametrize(("task", "letters"), KNOWN, ids=lambda x: getattr(x, "kind", ""))
def test_a_table_says_what_the_task_says(task: Any, letters: int) -> None:
    """Every state's shortest string has the state's class, by the task itself."""
    table = automaton_table(task, letters)
    assert table is not None
    for name, *_, label in table.rows[1:]:
        row = np.array([["abcdefgh".index(x) for x in str(name)]])
        given = row if task.ordered else (row[:, :, None] == np.arange(letters)).sum(1)
        assert f"class {task.classes(given)[0]}" == label


def test_what_is_large_or_grows_with_the_length_has_none() -> None:
    assert automaton_table(Brackets(depth=100), 2) is None
    assert automaton_table(SumSign(values=(1, -1)), 2) is None
    assert automaton_table(tsc.tasks.Addition(digits=2), 12) is None
