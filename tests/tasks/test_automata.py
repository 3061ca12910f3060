"""Automata as data, regular expressions, and what is refused."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tsc_interp as tsc
from tsc_interp.errors import ConfigError, TscError, UsageError
from tsc_interp.tasks import Addition, Automaton, Brackets, Copy, EndsWith, Regex, SumSign
from tsc_interp.tasks.base import read_task
from tsc_interp.tasks.transducer import Transducer

STEP = {"even": {"a": "odd", "b": "even"}, "odd": {"a": "even", "b": "odd"}}
FORMS: dict[str, dict[str, Any]] = {
    "mappings": {"states": ["even", "odd"], "start": "even", "step": STEP,
                 "label": {"even": 0, "odd": 1}},
    "pairs": {"states": ["even", "odd"], "start": "even", "label": [0, 1],
              "step": {(s, x): to for s, row in STEP.items() for x, to in row.items()}},
    "functions": {"states": ["even", "odd"], "start": "even", "letters": "ab",
                  "step": lambda s, x: STEP[s][x], "label": lambda s: s == "odd"},
    "explored": {"start": "even", "letters": "ab", "step": lambda s, x: STEP[s][x],
                 "label": {"even": 0, "odd": 1}},
    "names in rows": {"states": ["even", "odd"], "start": "even", "label": [0, 1],
                      "step": [["odd", "even"], ["even", "odd"]]},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_table(form: str) -> None:
    task = Automaton(**FORMS[form])
    assert task.step == ((1, 0), (0, 1))
    assert task.label == (0, 1)
    assert task.reachable == 2
    assert read_task(task.model_dump(mode="json")) == task


@pytest.mark.parametrize(("changed", "said"), [
    ({"step": {"even": {"a": "odd"}, "odd": {"a": "even", "b": "odd"}}}, "total"),
    ({"step": {"even": {"a": "odd", "b": "up"}, "odd": STEP["odd"]}}, "not one of the states"),
    ({"step": [[1], [0, 1]]}, "next state for each"),
    ({"step": [[1, 5], [0, 1]]}, "numbers below 2"),
    ({"label": [0]}, "labels"),
    ({"label": [0, -2]}, "0 or more"),
    ({"start": "up"}, "start"),
    ({"letters": "ba", "step": [[1, 0], [0, 1]]}, "in order"),
    ({"step": lambda s, x: "up", "letters": "ab"}, "not one of the states"),
])  # fmt: skip
def test_what_is_no_automaton_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Automaton(**{**FORMS["mappings"], **changed})


def test_a_step_function_without_end_is_given_up() -> None:
    with pytest.raises(TscError, match="states"):
        Automaton(start=0, letters="a", step=lambda s, x: s + 1, label=lambda s: 0)


pieces = st.recursive(
    st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda p: f"({p[0]}|{p[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{1,}"])).map(
            lambda p: f"({p[0]}){p[1]}"
        ),
    ),
    max_leaves=5,
)


@settings(max_examples=80, deadline=None)
@given(pieces)
def test_regular_expressions_match_what_pythons_do(pattern: str) -> None:
    rows = np.array(list(product(range(3), repeat=4)))
    texts = ["".join("abc"[x] for x in row) for row in rows]
    wanted = [int(re.fullmatch(pattern, text) is not None) for text in texts]
    assert Regex(pattern).machine(3, 4).classes(rows).tolist() == wanted


def test_the_machine_of_an_expression_is_small() -> None:
    assert len(Regex("(a|b)*c").machine(3, 9)) == 3
    assert len(Regex(".*a.{3}").machine(2, 9)) == 16


@pytest.mark.parametrize(
    "pattern", ["(a", "a)", "*a", "[", "[]", "a{", "a{3,2}", "a{x}", "a b", "é"]
)
def test_expressions_that_cannot_be_read(pattern: str) -> None:
    with pytest.raises(ConfigError, match="expression"):
        Regex(pattern)


@pytest.mark.parametrize("task", [
    SumSign(values=[1, -1, 0]), Brackets(depth=2), EndsWith(suffix="ab"), Regex("a*b"),
    Addition(digits=3, base=4), Copy(), Automaton(**FORMS["functions"]),
    Transducer(length=2, write=1, stages=[{"places": [0, 1], "edges": [[0, 0, 0, 0]]}]),
], ids=lambda task: task.kind)  # fmt: skip
def test_tasks_are_data_in_a_configuration(task: Any) -> None:
    letters = max(3, len(task.needs)) if task.kind != "automaton" else 2
    config = tsc.ClassifierConfig(
        n_letters=letters, task=task, reads="last_letter", attend_cls=True, n_outputs=letters,
        n_positions=32,
    )  # fmt: skip
    assert tsc.ClassifierConfig.from_json(config.to_json()).task == task
    assert tsc.tasks.SumSign is SumSign


@pytest.mark.parametrize(("options", "problem"), [
    ({"stages": ({"places": (0, 1), "edges": ((0, 0, 0, 10**9),)},)}, "never reached"),
    ({"write": 5}, "of 2 letters, 5 cannot be written"),
    ({"length": 10**30}, "at most 10000"),
])  # fmt: skip
def test_impossible_transducers_are_refused_in_words(options: Any, problem: str) -> None:
    stages = ({"places": (0, 1), "edges": ((0, 0, 0, 0),)},)
    with pytest.raises(UsageError, match=problem):
        Transducer(**{"length": 2, "write": 1, "stages": stages, **options})
