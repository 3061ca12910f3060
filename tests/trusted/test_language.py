"""Rules on counts as data: the labels are the task's, of single inputs and of boxes."""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.language import Rule
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
