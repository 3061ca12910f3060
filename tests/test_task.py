"""Labels from counts, against the definition applied to the string itself."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import ConfigError, UsageError
from tsc_interp.strings import Alphabet
from tsc_interp.tasks.base import Task
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity
from tsc_interp.tasks.order import Before

RULES: list[tuple[Task, object]] = [
    (ContainsAll(), lambda s: "a" in s and "b" in s),
    (ContainsAll(letters="c"), lambda s: "c" in s),
    (ContainsAll(letters="dba"), lambda s: {"a", "b", "d"} <= set(s)),
    (AtLeast(letter="b", k=2), lambda s: s.count("b") >= 2),
    (Majority(letter="c"), lambda s: s.count("c") > len(s) / 2),
    (Parity(letter="a"), lambda s: s.count("a") % 2 == 1),
    (Parity(letter="d", odd=False), lambda s: s.count("d") % 2 == 0),
]


@pytest.mark.parametrize(("rule", "truth"), RULES)
def test_labels_follow_the_definition_on_all_short_strings(rule: Task, truth) -> None:  # type: ignore[no-untyped-def]
    alphabet = Alphabet(4)
    strings = ["".join(s) for n in range(1, 6) for s in product(alphabet.letters, repeat=n)]
    labels = rule.labels(alphabet.count_matrix(strings))
    assert labels.tolist() == [truth(s) for s in strings]


@pytest.mark.parametrize(("rule", "truth"), RULES)
def test_label_of_support_is_what_all_strings_over_it_share(rule: Task, truth) -> None:  # type: ignore[no-untyped-def]
    letters = Alphabet(4).letters
    strings = ["".join(s) for n in range(1, 7) for s in product(letters, repeat=n)]
    for mask in range(1, 16):
        support = frozenset(letter for i, letter in enumerate(letters) if mask >> i & 1)
        seen = {truth(s) for s in strings if set(s) == support}
        expected = seen.pop() if len(seen) == 1 else None
        # Parity over one letter alone still alternates; "at least k" needs longer strings to show.
        assert rule.label_of_support(support) in (expected, None)
        if isinstance(rule, ContainsAll):
            assert rule.label_of_support(support) is expected


def test_labels_work_on_any_leading_axes() -> None:
    counts = np.random.default_rng(0).integers(0, 3, (5, 7, 3))
    flat = ContainsAll().labels(counts.reshape(-1, 3)).reshape(5, 7)
    assert (ContainsAll().labels(counts) == flat).all()


@given(st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_the_positive_set_has_no_order(letters: set[str]) -> None:
    forwards, backwards = sorted(letters), sorted(letters, reverse=True)
    assert ContainsAll(letters="".join(forwards)) == ContainsAll(letters="".join(backwards * 2))


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "contains_all", "letters": ""},
        {"kind": "contains_all", "letters": "a1"},
        {"kind": "at_least", "k": 0},
        {"kind": "majority", "letter": "ab"},
        {"kind": "parity", "even": True},
        {"kind": "longest"},
    ],
)
def test_refuses_impossible_tasks(data: dict[str, object]) -> None:
    with pytest.raises((ConfigError, ValidationError)):
        TypeAdapter(Task).validate_python(data)


SEVERAL: list[tuple[Task, object]] = [
    (MostFrequent(), lambda s: min("abcd", key=lambda x: (-s.count(x), x))),
    (Maximum(), max),
]


@pytest.mark.parametrize(("rule", "truth"), SEVERAL, ids=lambda one: getattr(one, "kind", ""))
def test_several_classes_follow_the_definition(rule: Task, truth) -> None:  # type: ignore[no-untyped-def]
    alphabet = Alphabet(4)
    strings = ["".join(s) for n in range(1, 6) for s in product(alphabet.letters, repeat=n)]
    classes = rule.classes(alphabet.count_matrix(strings))
    assert classes.dtype == np.int64
    assert [alphabet.letters[i] for i in classes] == [truth(s) for s in strings]
    assert rule.n_classes(4) == 4
    for support in map(frozenset, strings):
        seen = {truth(s) for s in strings if set(s) == support}
        shared = rule.label_of_support(support)
        assert (len(seen) > 1) if shared is None else seen == {alphabet.letters[shared]}


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("c", "a")])
def test_before_looks_at_the_first_of_the_two(first: str, second: str) -> None:
    rule = Before(first=first, second=second)
    strings = ["".join(s) for n in range(1, 5) for s in product("abcd", repeat=n)]
    rows = np.full((len(strings), 5), -1)
    for row, string in zip(rows, strings, strict=True):
        row[: len(string)] = ["abcd".index(x) for x in string]
    truth = [f"{s}{second}{first}".find(first) < f"{s}{second}".find(second) for s in strings]
    assert rule.classes(rows).tolist() == truth
    for support in map(frozenset, strings):
        seen = {t for s, t in zip(strings, truth, strict=True) if set(s) == support}
        shared = rule.label_of_support(support)
        assert (len(seen) > 1) if shared is None else seen == {shared}


def test_two_classes_are_numbers_too() -> None:
    counts = np.random.default_rng(0).integers(0, 3, (5, 7, 3))
    for rule, _ in RULES[:2]:
        assert rule.n_classes(3) == 2
        assert (rule.classes(counts) == rule.labels(counts)).all()


@pytest.mark.parametrize("answer", [[0.5], [0, 1], [3], [-1]])
def test_labels_that_are_none_are_refused(answer: list[float]) -> None:
    class Wrong(MostFrequent):
        def labels(self, counts):  # type: ignore[no-untyped-def]
            return np.array(answer)

    with pytest.raises(UsageError, match=r"most_frequent.* must"):
        Wrong().classes(np.array([[1, 2, 3]]))


def test_a_configuration_must_be_able_to_answer() -> None:
    with pytest.raises(ConfigError, match=r"3 classes: n_outputs must be 3 or more, not 1"):
        ClassifierConfig(task="most_frequent")
    with pytest.raises(ConfigError, match="order of letters, which this classifier cannot see"):
        ClassifierConfig(task="before")
    with pytest.raises(ConfigError, match="two different letters"):
        ClassifierConfig(task={"kind": "before", "second": "a"}, n_positions=9)
    with pytest.raises(ConfigError, match="needs the letters d"):
        ClassifierConfig(task={"kind": "before", "second": "d"}, n_positions=9)
    for fine in (
        ClassifierConfig(task="most-frequent", n_outputs=3),
        ClassifierConfig(task={"kind": "maximum"}, n_outputs=4),
        ClassifierConfig(task="before", n_positions=9),
        ClassifierConfig(task="before", reads="last_letter", attend_cls=True),
    ):
        assert ClassifierConfig.from_json(fine.to_json()) == fine
