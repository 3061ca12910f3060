"""Classes of boxes against every string in them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.task import AtLeast, ContainsAll, Majority, Parity
from tsc_interp.verification.ordered_tasks import (
    Before,
    CountTask,
    LabelledBy,
    MaxOf,
    partition,
    task_from_dict,
    task_of,
)

TASKS = [
    CountTask(ContainsAll(letters="ab")),
    CountTask(ContainsAll(letters="c")),
    CountTask(AtLeast(letter="b", k=2)),
    CountTask(Majority(letter="a")),
    CountTask(Parity(letter="c")),
    CountTask(Parity(letter="a", odd=False)),
    MaxOf(),
    Before("a", "b"),
    Before("c", "a"),
    LabelledBy(lambda rows: (rows[:, 0] == rows[:, -1]).astype(int), 2, "ends alike"),
]
LETTERS = 3

boxes = st.lists(
    st.frozensets(st.integers(0, LETTERS - 1), min_size=1), min_size=1, max_size=5
).map(tuple)


def by_hand(task, string):
    """The class of one string, written once more in the plainest way."""
    text = "".join("abc"[i] for i in string)
    if isinstance(task, MaxOf):
        return max(string)
    if isinstance(task, Before):
        for letter in text:
            if letter in (task.first, task.second):
                return int(letter == task.first)
        return 0
    if isinstance(task, LabelledBy):
        return int(text[0] == text[-1])
    rule = task.rule
    if isinstance(rule, ContainsAll):
        return int(all(letter in text for letter in rule.letters))
    count = text.count(rule.letter)
    if isinstance(rule, AtLeast):
        return int(count >= rule.k)
    if isinstance(rule, Majority):
        return int(2 * count > len(text))
    return int((count % 2 == 1) == rule.odd)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.describe())
def test_labels_are_those_written_by_hand(task):
    for length in range(1, 5):
        rows = np.array(list(product(range(LETTERS), repeat=length)))
        assert task.labels(rows, LETTERS).tolist() == [by_hand(task, row) for row in rows.tolist()]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.describe())
@settings(max_examples=150, deadline=None)
@given(sets=boxes)
def test_a_box_has_a_class_only_if_all_its_strings_do(task, sets):
    shared = {by_hand(task, string) for string in product(*sets)}
    label = task.box_label(sets, LETTERS)
    if label is not None:
        assert shared == {label}
    if all(len(one) == 1 for one in sets):
        assert label is not None
    if label is None:
        place, part = task.cut(sets, LETTERS)
        assert part
        assert part < sets[place]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.describe())
@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_partition_holds_every_string_once_with_its_class(task, length):
    seen = {}
    for label, sets in partition(task, length, LETTERS):
        for string in product(*sets):
            assert string not in seen
            seen[string] = label
    every = product(range(LETTERS), repeat=length)
    assert seen == {string: by_hand(task, string) for string in every}


def test_what_absent_letters_mean_to_before():
    rows = {"c": 0, "ac": 1, "cb": 0, "cab": 1, "cba": 0, "bac": 0}
    for text, label in rows.items():
        row = np.array([["abc".index(letter) for letter in text]])
        assert Before("a", "b").labels(row, 3).tolist() == [label]


def test_a_task_must_fit_the_model():
    one = ClassifierConfig(n_positions=5)
    with pytest.raises(UsageError, match=r"has 3 classes, but the model tells 2 apart"):
        task_of(one, MaxOf())
    with pytest.raises(UsageError, match="not in the model's alphabet"):
        task_of(one, Before("a", "z"))
    with pytest.raises(UsageError, match="two different letters"):
        Before("a", "a")
    with pytest.raises(UsageError, match="a class from 0 to 1"):
        LabelledBy(lambda rows: rows[:, 0], 2, "first").labels(np.array([[2]]), 3)


@pytest.mark.parametrize("task", TASKS[6:9], ids=lambda task: task.describe())
def test_a_certificate_can_name_it(task):
    config = ClassifierConfig(n_outputs=3)
    assert task_from_dict(task.to_dict(), config) == task
    own = CountTask(config.task)
    assert task_from_dict(own.to_dict(), config) == own
    for wrong in ({}, None, {"kind": "max_of", "k": 4}, {"kind": "before", "first": "a"}, "max_of"):
        with pytest.raises(UsageError):
            task_from_dict(wrong, config)
