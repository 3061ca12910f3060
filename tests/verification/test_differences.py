"""Strings on which two models answer differently: against brute force over every string."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import tsc_interp as tsc
from tests.cases import POSITIONED
from tests.verification import precise
from tests.verification.models import hand_built, planted, random_checkpoint
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.verification import Difference, difference


def brute_force(a: Checkpoint, b: Checkpoint, longest: int) -> dict[str, Any]:
    """Every string written out, its logit at 40 and 70 digits, one by one."""
    letters = a.config.alphabet.letters
    only: tuple[list[str], list[str]] = ([], [])
    for length in range(1, longest + 1):
        for string in map("".join, product(letters, repeat=length)):
            counts = [string.count(letter) for letter in letters]
            first, second = (precise.sign(model, counts) == 1 for model in (a, b))
            if first != second:
                only[int(second)].append("".join(sorted(string)))
    shortest = [min(strings, key=lambda s: (len(s), s), default=None) for strings in only]
    return {"counts": [len(strings) for strings in only], "shortest": shortest}


@pytest.mark.parametrize(
    ("config", "longest"),
    [
        (ClassifierConfig(), 5),
        (ClassifierConfig(attend_cls=True), 4),
        (ClassifierConfig(n_letters=2, n_layers=2), 5),
        (ClassifierConfig(n_letters=2, norm="rms", score_scale="sqrt_d_head_log_n"), 5),
    ],
)
def test_against_every_string(config: ClassifierConfig, longest: int) -> None:
    a, b = random_checkpoint(config, 1), random_checkpoint(config, 4)
    found, expected = difference(a, b, longest), brute_force(a, b, longest)
    assert [found.first_only, found.second_only] == expected["counts"]
    written = [found.shortest_first_only, found.shortest_second_only]
    plain = [None if s is None else config.alphabet.expand(s) for s in written]
    assert plain == expected["shortest"]
    assert found.undecided == 0
    assert found.strings == sum(config.n_letters**n for n in range(1, longest + 1))


def test_a_model_agrees_with_itself_and_the_order_does_not_matter() -> None:
    a, b = planted(4, c_score=-1.0), planted(6, c_score=-1.0)
    same = difference(a, a, 30)
    assert same.differing == 0
    assert "alike" in same.sentence("x", "y")
    there, back = difference(a, b, 12), difference(b, a, 12)
    assert (there.first_only, there.second_only) == (back.second_only, back.first_only)
    # Right up to 3 b's per a against 5: only the second still says yes to one a among 4 b's.
    assert (there.first_only, there.shortest_second_only) == (0, "ab{4}")
    assert "`ab{4}`" in there.sentence("x", "y")


def test_models_with_other_tasks_are_compared_by_their_answers() -> None:
    """The same weights, another task: labels differ, answers do not."""
    a = planted(4, c_score=-1.0)
    config = ClassifierConfig(**{**a.config.to_dict(), "task": {"kind": "majority", "letter": "b"}})
    assert difference(a, Checkpoint(config, a.weights), 20).differing == 0


def test_what_cannot_be_told_from_zero_is_undecided() -> None:
    zero = hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0)
    found = difference(zero, planted(4), 3)
    # Strings of one letter cancel in exact numbers, and zero counts as no: a, aa and aaa differ.
    assert found.undecided == 39 - 9
    assert (found.first_only, found.second_only, found.shortest_second_only) == (0, 3, "a")


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="2 and 3 letters"):
        difference(planted(4), random_checkpoint(ClassifierConfig(n_letters=2), 0))
    with pytest.raises(UnsupportedError, match="positions"):
        difference(random_checkpoint(POSITIONED, 0), random_checkpoint(POSITIONED, 1))
    with pytest.raises(UnsupportedError, match="too many"):
        difference(planted(4), planted(5), 10_000)
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(UsageError, match="whole number"):
            difference(planted(4), planted(5), wrong)  # type: ignore[arg-type]


def test_round_trip() -> None:
    found = difference(planted(4), planted(6), 60)
    assert found.strings > 2**53
    assert Difference.from_dict(found.to_dict()) == found


def test_a_comparison_says_what_differs() -> None:
    report = tsc.analyze("walkthrough", ["ab"], probes=["margin"], compare="attend-cls")
    found = difference("walkthrough", "attend-cls")
    assert report.difference == found
    # Neither errs up to 200 letters (their horizons are 2,166 and 1,426), so they agree there.
    assert found.max_length == 200
    assert found.differing == 0
    assert tsc.Report.from_json(report.to_json()).difference == found
    assert "answer every one alike" in report.to_markdown()
    assert "answer every one alike" in report.to_html(plotlyjs="cdn")
    assert f"{found.strings:.2e}" == "3.98e+95"
