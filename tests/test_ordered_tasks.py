"""Classes of boxes against every string in them."""

from __future__ import annotations

from itertools import product
from typing import ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tsc_interp as tsc
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.task import AtLeast, ContainsAll, Majority, Parity
from tsc_interp.verification.ordered_tasks import (
    Before,
    CountTask,
    LabelledBy,
    MaxOf,
    MostFrequentOf,
    boxes_of,
    partition,
    task_from_dict,
    task_of,
)


class EndsAlike(tsc.OwnTask):
    kind: Literal["test_ends_alike"] = "test_ends_alike"
    ordered: ClassVar[bool] = True

    def labels(self, letters):
        return letters[:, 0] == letters[:, -1]


class Lengthy(tsc.OwnTask):
    """Several classes on counts: the length, up to three, and more."""

    kind: Literal["test_lengthy"] = "test_lengthy"

    def n_classes(self, n_letters):
        return 4

    def labels(self, counts):
        return np.minimum(counts.sum(-1), 4) - 1


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
    MostFrequentOf(),
    boxes_of(EndsAlike()),
    boxes_of(Lengthy()),
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
    rule = getattr(task, "rule", None)
    if isinstance(rule, tsc.Before):
        for letter in text:
            if letter in (rule.first, rule.second):
                return int(letter == rule.first)
        return 0
    if isinstance(task, LabelledBy) or isinstance(rule, EndsAlike):
        return int(text[0] == text[-1])
    if isinstance(rule, Lengthy):
        return min(len(text), 4) - 1
    if isinstance(task, MostFrequentOf):
        return min(range(LETTERS), key=lambda letter: (-string.count(letter), letter))
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
    with pytest.raises(UsageError, match="no task of kind 'nobody'"):
        task_of(one, "nobody")
    with pytest.raises(UsageError, match=r"one of tsc-interp's or a tsc\.OwnTask, got 7"):
        task_of(one, 7)
    assert task_of(one, "before") == Before("a", "b") == task_of(one, tsc.Before())
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
    no_such = [{"kind": kind} for kind in ("max_of", "test_ends_alike", [])]
    for wrong in (
        {},
        None,
        {"kind": "maximum", "k": 4},
        {"kind": "before", "first": "a"},
        *no_such,
    ):
        with pytest.raises(UsageError):
            task_from_dict(wrong, config)
