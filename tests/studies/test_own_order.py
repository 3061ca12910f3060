"""Models of our own on order, and the benchmark of order: small runs of both."""

from __future__ import annotations

from benchmarks import order
from studies.own_order import page, run
from tsc_interp.tasks import Before


def test_every_string_is_counted_as_the_model_answers_it() -> None:
    row = run.row(Before(), length=4, epochs=1)
    assert row["strings"] == 3 + 9 + 27 + 81
    assert row["by_length"] == row["forced"]
    assert row["undecided"] == 0


def test_stored_rows_agree_with_the_forward_pass() -> None:
    assert {row["task"] for row in page.rows} == set(run.TASKS)
    for row in page.rows:
        assert sum(row["by_length"]) == row["wrong"]


def test_a_line_of_the_benchmark() -> None:
    words = order.row("own adder, 3 digits", 60, 0).split()
    assert words[4:7] == ["1.00e+06", "0", "0"]
    assert words[-1] == "MB"
