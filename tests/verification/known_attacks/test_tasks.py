"""Tasks whose letters, values or numbers do not exist: their claims were about other inputs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.verification.known_attacks.models import zeros
from tsc_interp.errors import ConfigError, UsageError
from tsc_interp.tasks import Copy, SumSign, Transducer, trellis_of
from tsc_interp.tasks.base import read_task


def test_every_letter_of_a_sum_has_a_value() -> None:
    """The third letter counted zero for the labels, and did not exist for the trellis."""
    with pytest.raises(ConfigError, match="is about the letters ab and no others"):
        tsc.ClassifierConfig(
            n_letters=3, task={"kind": "sum_sign", "values": [1, -1]}, n_positions=4, n_outputs=3
        )
    with pytest.raises(UsageError, match="2 letters have values, so letter 2 has none"):
        SumSign(values=[1, -1]).labels(np.array([[0, 2]]))


def test_every_letter_of_a_framed_sum_has_a_value() -> None:
    with pytest.raises(ConfigError, match="is about the letters a and no others"):
        read_task(
            {"kind": "framed", "frame": "x{2}; x=0..1", "task": {"kind": "sum_sign", "values": [1]}}
        )


def test_a_task_given_to_verify_fits_the_alphabet() -> None:
    checkpoint = zeros(n_letters=3, n_outputs=3, task="maximum")
    with pytest.raises(UsageError, match="is about the letters ab and no others"):
        tsc.verify(checkpoint, 2, task=SumSign(values=[1, -1]))
    with pytest.raises(UsageError, match="is about the letters ab and no others"):
        tsc.falsify(checkpoint, SumSign(values=[1, -1]), seconds=2)


def test_a_task_in_a_frame_has_the_letters_of_its_places() -> None:
    with pytest.raises(ConfigError, match="needs the letters c"):
        tsc.tasks.Framed(frame="x{2}; x=0..1", task={"kind": "contains_all", "letters": "abc"})


@pytest.mark.parametrize("value", [2**62, 2**63 - 1, 2**64, 10**9 + 1])
def test_sums_do_not_overflow(value: int) -> None:
    """2^62 twice was a negative number."""
    with pytest.raises(ConfigError, match=r"values\.0"):
        SumSign(values=[value, -1])


def test_the_largest_values_are_summed_exactly() -> None:
    rows = np.array(list(product((0, 1, 2), repeat=5)))
    values = [10**9, -(10**9), 1]
    signs = [(s > 0) - (s < 0) + 1 for s in (sum(values[x] for x in row) for row in rows.tolist())]
    task = SumSign(values=values)
    assert task.labels(rows).tolist() == signs
    trellis = trellis_of(task, 3, 5)
    assert [trellis.label_of(row) for row in rows] == signs


@pytest.mark.parametrize("separator", [-1, -2, 11_248, 10**6])
def test_a_separator_is_a_letter(separator: int) -> None:
    with pytest.raises(ConfigError, match="separator"):
        Copy(length=1, letters=2, separator=(separator,))


@pytest.mark.parametrize("letter", [-1, 11_249, 10**10])
def test_letters_of_a_transducer_exist(letter: int) -> None:
    edges = [[0, 0, 0, 0], [0, 1, 1, 0], [0, letter, 0, 0]]
    with pytest.raises(ConfigError, match=r"letters are indices from 0 to|at most"):
        Transducer(length=2, write=1, stages=[{"places": [0, 1], "edges": edges}])
    with pytest.raises(ConfigError, match="fixed"):
        Transducer(length=3, write=1, fixed=[[2, letter]],
                   stages=[{"places": [0, 1], "edges": edges[:2]}])  # fmt: skip


@pytest.mark.parametrize("edge", [[0], [0, 0], [0, 0, 0], [0, 0, 0, 0, 0]])
def test_edges_have_a_letter_for_each_place(edge: list[int]) -> None:
    with pytest.raises(ConfigError, match="has 4 numbers"):
        Transducer(length=2, write=1, stages=[{"places": [0, 1], "edges": [edge]}])


_AUTOMATON: dict[str, Any] = {
    "kind": "automaton", "states": ["x", "y"], "letters": "ab", "start": 0,
    "step": [[0, 1], [1, 1]], "label": [0, 1],
}  # fmt: skip


@pytest.mark.parametrize(
    "task",
    [
        {"kind": "at_least", "letter": "a", "k": 2**63},
        {"kind": "at_least", "letter": "a", "k": True},
        {"kind": "sum_sign", "values": [True, False]},
        {"kind": "sum_sign", "values": [1e400]},
        {"kind": "addition", "digits": 1, "base": 3, "plus": [-1]},
        {"kind": "addition", "digits": True},
        {"kind": "copy", "length": True},
        {**_AUTOMATON, "label": [0, 10**25]},
        {**_AUTOMATON, "start": True},
        {**_AUTOMATON, "step": [[0, True], [1, 1]]},
        {**_AUTOMATON, "step": [[0, 2], [1, 1]]},
        {**_AUTOMATON, "step": [[0, -1], [1, 1]]},
    ],
    ids=str,
)
def test_numbers_of_a_task_are_whole_and_bounded(task: dict[str, Any]) -> None:
    with pytest.raises(
        (ConfigError, ValueError), match=r"whole number|at most|numbers below|at least"
    ):
        read_task(task)


def test_an_automaton_has_the_letters_of_the_model() -> None:
    with pytest.raises(ConfigError, match="is about the letters ab and no others"):
        tsc.ClassifierConfig(n_letters=3, task=_AUTOMATON, n_positions=4)


def test_a_depth_of_ten_thousand_is_labelled_right() -> None:
    task = tsc.tasks.Brackets(depth=10_000)
    assert task.labels(np.array([[0, 1], [1, 0], [0, 0]])).tolist() == [1, 0, 0]
