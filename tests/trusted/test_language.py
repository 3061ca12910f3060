"""Rules on counts as data: the labels are the task's, of single inputs and of boxes."""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity
from tsc_interp.trusted import language
from tsc_interp.trusted.errors import NotProved, UsageError
from tsc_interp.trusted.language import MAX_LENGTH, Rule, packed, read_table, written_table
from tsc_interp.verification.documents import rule_of


class SumIsEven(tsc.tasks.OwnTask):
    """A rule of one's own, of which no support but single letters has one label."""

    kind: Literal["sum_is_even"] = "sum_is_even"
    words: ClassVar[str] = "an even number of letters"

    def labels(self, counts: Any) -> Any:
        return counts.sum(-1) % 2 == 0


TASKS = [
    ContainsAll(letters="b"), ContainsAll(letters="ac"), AtLeast(letter="b", k=3),
    Majority(letter="a"), Parity(letter="c"), Parity(letter="a", odd=False), Maximum(),
    MostFrequent(), SumIsEven(),
]  # fmt: skip
MOST = 4


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.describe())
def test_labels_of_boxes_are_those_of_all_their_inputs(task: Any) -> None:
    outputs = 3 if isinstance(task, Maximum | MostFrequent) else 1
    config = ClassifierConfig(task=task, n_outputs=outputs)
    vectors = [v for v in product(range(MOST + 1), repeat=3) if any(v)]
    rule = Rule(rule_of(config, vectors), 3)
    label = dict(zip(vectors, task.classes(np.array(vectors)).tolist(), strict=True))
    ranges = [(a, b) for a in range(1, MOST + 1) for b in range(a, MOST + 1)]
    told = 0
    for support in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
        inside = [v for v in vectors if tuple(i for i in range(3) if v[i]) == support]
        shared = rule.of_support(support)
        assert shared is None or {label[v] for v in inside} == {shared}
        for box in list(product(ranges, repeat=len(support)))[:: 1 + len(support) ** 2]:
            low, high = [a for a, _ in box], [b for _, b in box]
            labels = {label[v] for v in inside if all(
                a <= v[i] <= b for i, (a, b) in zip(support, box, strict=True))}  # fmt: skip
            said = rule.of_box(support, low, high)
            assert said is None or labels == {said}
            assert said is not None or len(labels) > 1 or isinstance(task, SumIsEven)
            told += said is not None
    assert told


@pytest.mark.parametrize(
    "data",
    [
        {"rule": "magic"}, {"rule": "maximum", "letter": 0}, {"rule": "parity", "letter": 0},
        {"rule": "parity", "letter": 0, "odd": 1}, {"rule": "contains_all", "letters": []},
        {"rule": "contains_all", "letters": [3]}, {"rule": "contains_all", "letters": [-1]},
        {"rule": "at_least", "letter": 0, "k": True}, {"rule": "at_least", "letter": 0, "k": 1.0},
        {"rule": "at_least", "letter": 0, "k": 2**64},
        {"rule": "listed", "supports": [[[0], 1], [[0], 0]], "inputs": []},
        {"rule": "listed", "supports": [[[1, 0], 1]], "inputs": []},
        {"rule": "listed", "supports": [[[0], 1]], "inputs": [[[2, 0, 0], 0]]},
        {"rule": "listed", "supports": [], "inputs": [[[0, 0, 0], 1]]},
        {"rule": "listed", "supports": [], "inputs": [[[1, 0, 0], 1], [[1, 0, 0], 1]]},
    ],
)  # fmt: skip
def test_rules_that_contradict_themselves_are_refused(data: dict[str, Any]) -> None:
    with pytest.raises(NotProved):
        Rule(data, 3)


# -- tables --------------------------------------------------------------------------------------

EDGES = [[0, 0, 0, 2], [0, 1, 1, 0], [1, 0, 2, 1]]
"""From, to, and two letters: of the stage of places 1 and 3."""
TABLE: dict[str, Any] = {
    "name": {"length": 4},
    "length": 4,
    "fixed": [[2, 1]],
    "stages": [
        {"places": [0], "edges": packed(np.array([[0, 0, 0], [0, 1, 2]]))},
        {"places": [1, 3], "edges": packed(np.array(EDGES))},
    ],
    "label_stage": 1,
    "labels": packed(np.array([[0], [2], [1]])),
}


def with_stage(*rows: Any, **fields: Any) -> dict[str, Any]:
    other = {"places": [1, 3], "edges": packed(np.array(rows or EDGES)), **fields}
    return {**TABLE, "stages": [TABLE["stages"][0], other]}


def test_a_table_is_read_as_it_was_written() -> None:
    table = read_table(TABLE, 3, 3)
    assert (table.length, table.fixed, table.label_stage) == (4, ((2, 1),), 1)
    assert table.label.tolist() == [0, 2, 1]
    assert [stage.places for stage in table.stages] == [(0,), (1, 3)]
    stage = table.stages[1]
    rows = np.column_stack([stage.source, stage.target, stage.letters])
    assert rows.tolist() == EDGES
    assert written_table(table, {"length": 4}) == TABLE


@pytest.mark.parametrize(
    "bad",
    [
        {**TABLE, "more": 1},
        {key: value for key, value in TABLE.items() if key != "labels"},
        with_stage(more=1),
        with_stage(*EDGES[:2], [1, 0, 3, 1]),
        with_stage(*EDGES[:2], [1, 0, 2, 3]),
        with_stage(*EDGES[:2], [1, 0, -1, 1]),
        with_stage(*EDGES, [1, 1, 2, 1]),
        with_stage(edges=packed(np.array([[0, 0, 0, 2, 0]]))),
        with_stage(places=[1, 4]),
        {**TABLE, "labels": packed(np.array([[0], [3], [1]]))},
        {**TABLE, "labels": packed(np.array([[0], [-1], [1]]))},
        {**TABLE, "labels": packed(np.zeros((0, 1)))},
        {**TABLE, "labels": packed(np.array([[0], [2], [1], [1]]))},
        {**TABLE, "labels": packed(np.array([[0], [2]]))},
        {**TABLE, "labels": TABLE["labels"][:-4]},
        {**TABLE, "label_stage": 2},
        {**TABLE, "fixed": [[4, 1]]},
        {**TABLE, "fixed": [[2, 3]]},
        {**TABLE, "length": MAX_LENGTH + 1},
    ],
)
def test_what_is_no_table_is_refused(bad: Any) -> None:
    with pytest.raises((NotProved, UsageError)):
        read_table(bad, 3, 3)


def test_one_input_is_a_table() -> None:
    edge, label = packed(np.array([[0, 0, 1]])), packed(np.array([[1]]))
    stages = [{"places": [0], "edges": edge}]
    only = {**TABLE, "length": 1, "fixed": [], "stages": stages, "label_stage": 0, "labels": label}
    assert read_table(only, 2, 2).labels == (1,)


def test_a_class_needs_an_output() -> None:
    with pytest.raises(NotProved, match="no output"):
        read_table(TABLE, 3, 2)


def test_edges_are_limited_over_all_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "MAX_EDGES", 5)
    assert read_table(TABLE, 3, 3)
    monkeypatch.setattr(language, "MAX_EDGES", 4)
    with pytest.raises(NotProved, match="longer than they may be"):
        read_table(TABLE, 3, 3)


def test_a_listed_rule_names_each_support_once() -> None:
    twice = [[[0], 1], [[1], 0], [[0], 1]]
    rule = Rule({"rule": "listed", "supports": twice[:2], "inputs": []}, 2)
    assert (rule.of_support((0,)), rule.of_support((1,))) == (1, 0)
    with pytest.raises(NotProved, match="listed twice"):
        Rule({"rule": "listed", "supports": twice, "inputs": []}, 2)
