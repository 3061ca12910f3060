"""Plain functions as tasks: what they say is kept by value, and None is no opinion."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.falsification.models import palindrome_model
from tests.model.outside_models import tl_model
from tsc_interp.errors import ConfigError, UsageError
from tsc_interp.tasks import Automaton, Maximum, Palindrome, Regex, Regions
from tsc_interp.tasks.audit import inputs_of
from tsc_interp.tasks.base import read_task
from tsc_interp.tasks.framed import framed
from tsc_interp.tasks.function import Labels, Listed, as_task

FRAME = "[START] x{4}; x=0..2; START=3; read=0"
MIRRORED = tsc.Frame.parse(FRAME).rows(np.array(list(product(range(3), repeat=4))))


def one(tokens):
    return tokens[1:] == tokens[:0:-1]


def ends_alike(tokens):
    return one(tokens) if tokens[1] == tokens[-1] else None


def many(rows):
    return (rows[:, 1:] == rows[:, 1:].flip(-1)).all(-1)


@pytest.mark.parametrize("function", [
    one,
    many,
    lambda rows: (np.asarray(rows)[:, 1:] == np.asarray(rows)[:, :0:-1]).all(-1),
    lambda row: (np.array(row)[1:] == np.array(row)[:0:-1]).all(),
    lambda tokens: int(list(tokens[1:]) == list(reversed(tokens[1:]))),
])  # fmt: skip
def test_every_form_of_a_function_is_understood(function: Any) -> None:
    wanted = [one(row) for row in MIRRORED.tolist()]
    assert Labels(function, MIRRORED)(MIRRORED)[:, 0].tolist() == wanted


def test_what_a_function_says_of_a_row_does_not_depend_on_others() -> None:
    """As a function of rows it would compare every row with the first."""
    rows = np.array(list(product(range(3), repeat=3)))
    labels = Labels(lambda tokens: [token == tokens[0] for token in tokens], rows, reads=3)
    assert (labels(rows) == (rows == rows[:, :1])).all()


@pytest.mark.parametrize("function", [
    lambda tokens: "yes", lambda tokens: 0.5, lambda tokens: -1, lambda tokens: [1, 2],
    lambda rows: rows[:, 0].float(), lambda tokens: {}[0],
])  # fmt: skip
def test_what_is_no_label_is_refused(function: Any) -> None:
    with pytest.raises(UsageError, match="a label is a function of one input's tokens"):
        Labels(function, MIRRORED)


def test_a_function_decides_like_the_task_it_says() -> None:
    model = palindrome_model(2, 3, missing=1)
    by_name = tsc.from_transformer_lens(model, task="palindrome", frame=FRAME)
    read_off = tsc.from_transformer_lens(model, task=one, frame=FRAME)
    assert isinstance(read_off.config.task.task, Listed)
    wanted = tsc.verify(by_name)
    for verdict in (tsc.verify(read_off), tsc.verify(by_name, task=one),
                    tsc.verify(model, frame=FRAME, task=many)):  # fmt: skip
        assert (verdict.wrong, verdict.first_wrong) == (wanted.wrong, wanted.first_wrong)
    assert tsc.check(tsc.certify(read_off), read_off)
    some = tsc.verify(by_name, task=ends_alike)
    assert (some.inputs, some.wrong, some.undecided) == (3**3, 18, 0)
    asked = tsc.from_transformer_lens(model, task=ends_alike, frame=FRAME)
    assert tsc.evaluate(asked, ["0110"])[0].label == 1
    with pytest.raises(UsageError, match="no opinion on the letters"):
        tsc.evaluate(asked, ["0112"])


def test_a_table_is_kept_by_value() -> None:
    """A function of the same name, defined later, changes nothing of what was kept."""
    model = palindrome_model(2, 3, missing=1)
    kept = tsc.from_transformer_lens(model, task=one, frame=FRAME)

    def other(tokens):
        return tokens[1] == 0

    other.__name__ = "one"
    changed = tsc.from_transformer_lens(model, task=other, frame=FRAME)
    assert changed.config.task.describe() == kept.config.task.describe()
    again = tsc.ClassifierConfig.from_json(kept.config.to_json())
    assert (again.task, again.key()) == (kept.config.task, kept.config.key())
    assert again.key() != changed.config.key()
    assert (again.task.labels(MIRRORED[:, 1:]) == kept.config.task.labels(MIRRORED[:, 1:])).all()


def test_functions_of_many_inputs_are_known_by_their_labels() -> None:
    """They are asked, not listed: two of one name with other labels are two tasks."""
    tasks = [
        as_task(function, lambda letters: letters, 3, n_classes=2, ordered=True, longest=30)
        for function in (lambda tokens: tokens[0] == 1, lambda tokens: tokens[0] == 2)
    ]
    assert tasks[0].describe() == tasks[1].describe() == "your function"
    assert tasks[0].kind != tasks[1].kind
    assert read_task({"kind": tasks[0].kind}) == tasks[0]
    with pytest.raises(UsageError, match=r"3\^30.*Automaton"):
        inputs_of(tasks[0], 3, 30)
    assert Regions.whole(inputs_of(tasks[0], 3, 6)).counts() == [3**6]


def test_a_model_of_counts_takes_a_total_function() -> None:
    with pytest.raises(UsageError, match="every string"):
        as_task(lambda tokens: None, lambda letters: letters, 3, n_classes=2, ordered=False)


@pytest.mark.parametrize("changed", [
    {"table": "x"}, {"table": Listed.packed([1, 0, 0])}, {"table": Listed.packed([1, 0, 0, -2])},
    {"letters": ((1, 0), (0, 1))}, {"letters": (tuple(range(500)),) * 2}, {"shortest": 3},
])  # fmt: skip
def test_a_table_that_is_none_is_refused(changed: dict[str, Any]) -> None:
    options = {"letters": ((0, 1), (0, 1)), "shortest": 2, "table": Listed.packed([1, 0, 0, -1])}
    assert Listed(**options).labels(np.array([[0, 0], [1, 1], [0, 2]])).tolist() == [1, -1, -1]
    with pytest.raises(ConfigError):
        Listed(**{**options, **changed})


EQUAL = tsc.Frame.parse("x{5} [4]; x=0..3; equal=4..5:1..2; distinct")
ABCAB = [(a, b, c, a, b) for a, b, c in permutations(range(4), 3)]


def test_places_that_repeat_others_are_no_choice() -> None:
    """ABCAB, counted, listed, sampled, and on a trellis of tasks that pair other places."""
    assert str(EQUAL) == "x{5} [4]; x=0..3; equal=4:1,5:2; distinct"
    assert tsc.Frame.parse(str(EQUAL)) == EQUAL == EQUAL.replace(equal={4: 1, 5: 2})
    listed = [tuple(word) for batch in EQUAL.every() for word in batch.tolist()]
    assert listed == ABCAB
    assert EQUAL.count() == len(ABCAB)
    drawn = EQUAL.sample(500, np.random.default_rng(0), 5)
    assert {tuple(word) for word in drawn.tolist()} == set(ABCAB)
    assert [0, 1, 2, 0, 2, 4] not in EQUAL
    assert "places 2 and 5 hold different letters" in EQUAL.fault([0, 1, 2, 0, 2])
    for inside in (Palindrome(), Maximum(), Regex("(a|b)*c.*")):
        rows = Regions.whole(inputs_of(framed(inside, EQUAL), 5, 5)).strings()[1]
        assert sorted(map(tuple, rows[:, :5])) == ABCAB


@pytest.mark.parametrize("equal", [{1: 2}, {6: 1}, {4: 1, 5: 4}, {3: 3}, {0: 1}])
def test_impossible_repetitions_are_refused(equal: dict[int, int]) -> None:
    with pytest.raises(ConfigError, match="cannot repeat"):
        EQUAL.replace(equal=equal)


def test_prefixes_of_balanced_brackets_are_an_automaton_with_none() -> None:
    def step(depth, letter):
        after = depth + (1 if letter == "a" else -1)
        return -1 if depth < 0 or not 0 <= after <= 8 else after

    task = Automaton(
        start=0, letters="ab", step=step, label=lambda depth: None if depth < 0 else depth == 0
    )
    assert task.partial
    rows = np.array(list(product(range(2), repeat=8)))
    heights = np.cumsum(1 - 2 * rows, axis=1)
    prefix = (heights >= 0).all(1)
    assert (task.classes(rows) == np.where(prefix, heights[:, -1] == 0, -1)).all()
    assert Regions.whole(inputs_of(task, 2, 8)).counts() == [int(prefix.sum())]


def test_more_than_76_tokens_have_names_of_their_own() -> None:
    model = tl_model(d_vocab=114, d_vocab_out=113, n_ctx=4, positions=True)
    frame = "x{2} [=]; x=0..112; ==113"

    def label(tokens):
        return (tokens[0] + tokens[1]) % 113

    mine = tsc.from_transformer_lens(model, task=label, frame=frame)
    assert mine.config.n_letters == 114
    rows = torch.tensor([[100, 50, 113], [3, 112, 113]])
    with torch.no_grad():
        said = model(rows)[:, -1].argmax(-1).tolist()
    found = tsc.evaluate(mine, ["100 50 =", "3 112"])
    assert [one.label for one in found] == [37, 2]
    assert [one.prediction for one in found] == said
    every = tsc.falsify(model, label, frame=frame, exhaustive=True, seconds=60)
    assert every.enumerated.inputs == 113**2
    assert every.text.endswith("=")
