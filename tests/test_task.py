"""Labels from counts, against the definition applied to the string itself."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tsc_interp.errors import ConfigError
from tsc_interp.strings import Alphabet
from tsc_interp.task import AtLeast, ContainsAll, Majority, Parity, Rule, Task

RULES: list[tuple[Rule, object]] = [
    (ContainsAll(), lambda s: "a" in s and "b" in s),
    (ContainsAll(letters="c"), lambda s: "c" in s),
    (ContainsAll(letters="dba"), lambda s: {"a", "b", "d"} <= set(s)),
    (AtLeast(letter="b", k=2), lambda s: s.count("b") >= 2),
    (Majority(letter="c"), lambda s: s.count("c") > len(s) / 2),
    (Parity(letter="a"), lambda s: s.count("a") % 2 == 1),
    (Parity(letter="d", odd=False), lambda s: s.count("d") % 2 == 0),
]


@pytest.mark.parametrize(("rule", "truth"), RULES)
def test_labels_follow_the_definition_on_all_short_strings(rule: Rule, truth) -> None:  # type: ignore[no-untyped-def]
    alphabet = Alphabet(4)
    strings = ["".join(s) for n in range(1, 6) for s in product(alphabet.letters, repeat=n)]
    labels = rule.labels(alphabet.count_matrix(strings))
    assert labels.tolist() == [truth(s) for s in strings]


@pytest.mark.parametrize(("rule", "truth"), RULES)
def test_label_of_support_is_what_all_strings_over_it_share(rule: Rule, truth) -> None:  # type: ignore[no-untyped-def]
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
