"""Screen one: positions computed by hand, parts that add up, causes in the probes' own words."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tsc_interp as tsc
from tsc_interp.report import Report
from tsc_interp.report.dissection import Head, Share, colours_of, dissect
from tsc_interp.report.front import front, length_axis, place, seen_by
from tsc_interp.report.reach import Reach


@pytest.fixture
def report(errors: Report) -> Report:
    return errors


@pytest.mark.parametrize(
    ("length", "percent"),
    [(0, 0), (1, 0), (10, 16.67), (100, 33.33), (1000, 50), (10**6, 100), (10**9, 100)],
)
def test_lengths_stand_on_a_logarithmic_axis(length: int, percent: float) -> None:
    """log10 of the length, of six decades."""
    assert place(length) == percent


def test_the_axis_shows_what_is_proved_and_the_first_errors() -> None:
    axis = length_axis(Reach(99, True, "b{999}c", "ab{99}"), {"trained": 10, "tested": 200})
    assert axis.proved == pytest.approx(33.26, abs=0.01)
    assert [(mark.at, mark.text) for mark in axis.errors] == [
        (33.33, "`ab{99}` (false negative, 100 letters)"),
        (50.0, "`b{999}c` (false positive, 1,000 letters)"),
    ]
    assert [mark.at for mark in axis.seen] == [16.67, 38.35]  # 10 and 200 letters
    nothing = length_axis(Reach(0, True, "b", None), {})
    assert nothing.proved == 0
    assert [mark.at for mark in nothing.errors] == [0]


def test_shares_of_test_strings_and_of_all_strings_are_reconciled(report: Report) -> None:
    """697 of 9,984 test strings, and exact counts over 3 + 9 + ... + 3^200 strings."""
    words = front(report.models[0]).rarity
    known = report.models[0].confirmation
    assert words is not None
    assert known is not None
    wrong = known.false_positives[0] + known.false_negatives[0]
    share = wrong / ((3**201 - 3) // 2)
    mantissa = f"{share:.2e}".removesuffix("e-34")
    assert f"7.0% of the test strings, but only {mantissa}·10⁻³⁴ of all strings up to 200" in words


def test_about_is_a_table(report: Report) -> None:
    facts = dict(report.models[0].card.facts())
    assert facts["d model"] == "2"
    assert facts["attend cls"] == "no"
    assert not any("{" in value for value in facts.values())


def test_a_wrong_string_is_taken_apart(report: Report) -> None:
    one = dissect(report.models[0])
    assert one is not None
    # The first error of all: no shorter string is wrong.
    assert (one.string, one.letters, one.expected, one.answer, one.right) == (
        "ab{66}", "1 a, 66 b", "yes", "no", False
    )  # fmt: skip
    assert one.logit == pytest.approx(-0.0531, abs=1e-4)
    assert sum(part.adds for part in one.parts) == pytest.approx(one.logit, abs=1e-4)
    assert one.cause is not None
    assert one.cause.startswith("`ab{66}`")
    assert one.cause in [finding.text for finding in report.findings]
    assert sum(share.percent for share in one.heads[0].shares) == pytest.approx(100, abs=0.1)
    shares = {share.letter: share.percent for share in one.heads[0].shares}
    assert shares == {"a": pytest.approx(38.89, abs=0.01), "b": pytest.approx(61.11, abs=0.01)}


def test_bars_share_one_zero(report: Report) -> None:
    one = dissect(report.models[0])
    assert one is not None
    for part in one.parts:
        start, end = part.left, part.left + part.width
        assert (start if part.adds > 0 else end) == pytest.approx(one.zero, abs=0.02)
        assert -0.01 <= start <= end <= 100.02


def test_a_model_without_errors_shows_its_closest_call() -> None:
    model = tsc.analyze("walkthrough", ["aac", "baac"], probes=["trace", "attribution"]).models[0]
    one = dissect(model)
    assert one is not None
    assert (one.string, one.right, one.cause) == ("aac", True, None)


def test_what_is_not_there_is_left_out(report: Report) -> None:
    without = tsc.analyze("walkthrough", ["ab"], probes=["margin"]).models[0]
    assert dissect(without) is None
    bare = replace(report.models[0], checkpoint=None)
    assert front(bare).map is None
    assert "weights" in front(bare).no_map
    assert "tsc-map" in str(front(report.models[0]).map)


def test_many_heads_are_not_all_drawn() -> None:
    one = dissect(tsc.analyze("many-heads", ["ab"], probes=["trace", "attribution"]).models[0])
    assert one is not None
    assert (len(one.heads), one.left_out) == (4, 12)


def test_a_model_right_on_every_test_string_shows_its_first_error() -> None:
    one = dissect(tsc.analyze("walkthrough", probes=["trace", "attribution"]).models[0])
    assert one is not None
    assert (one.string, one.right) == ("abc{2165}", False)


def test_what_the_model_saw_is_what_its_file_says(report: Report) -> None:
    card = report.models[0].card
    assert seen_by(card) == {"trained": 10, "validated": 50, "tested": 200}
    longer = {"training": {"train": {"max_length": 30}}}
    assert seen_by(replace(card, provenance=longer)) == {"trained": 30, "tested": 200}
    elsewhere = replace(card, provenance={"imported_from": "HookedTransformer"})
    assert seen_by(elsewhere) == {"tested": 200}
    assert seen_by(replace(elsewhere, test=None)) == {}
    assert "697 of the 9,984 test strings" in card.verdict().text
    assert "697 of tsc-interp's own 9,984 test strings" in elsewhere.verdict().text


def test_one_cause_has_one_line(report: Report) -> None:
    model = report.models[0]
    told = [finding.text for _, finding in model.highlights()]
    assert sum(text.startswith("`ab{66}`") for text in told) == 1
    assert sum("up to 66 letters" in text for text in told) == 1
    assert len(told) <= 5


def test_a_letter_that_no_head_reads_is_the_cause_where_it_is_missing() -> None:
    """Both heads of lower-magnitude read b: without an a, `b` is answered like `ab`."""
    probes = ["trace", "specialization", "attribution"]
    (model,) = tsc.analyze("lower-magnitude", ["b", "ab"], probes=probes).models
    shown = dissect(model)
    assert shown is not None
    assert shown.cause is not None
    assert shown.string == "b"
    assert shown.cause.startswith("No head reads `a` (both heads read `b`)")
    assert model.card.lesson() == "lower-magnitude is wrong on `b` (one b)."


def test_colours_that_no_bar_names_are_named_below() -> None:
    shares = (Share("a", 70.0, "green"), Share("b", 11.0, "gold"), Share("c", 0.4, "violet"))
    assert [share.text for share in shares] == ["a 70%", "", ""]
    assert colours_of([Head("head 0", shares, 1.0)]) == {"b": "gold"}
