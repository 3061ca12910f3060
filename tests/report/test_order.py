"""Reports of order-sensitive models: an exact verdict, and one input letter by letter."""

from __future__ import annotations

import pytest

import tsc_interp as tsc
from studies.constructed import carry_adder, running_sum
from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.errors import UsageError
from tsc_interp.report.order import OrderSummary, order_summary
from tsc_interp.report.report import Report


@pytest.fixture(scope="module")
def adder() -> OrderSummary:
    """Wrong on the 16 pairs whose sum is 15."""
    found = order_summary(tsc.load(carry_adder(2, 4, shift=1.5)))
    assert found is not None
    return found


def test_a_model_that_writes(adder: OrderSummary) -> None:
    assert [part.wrong for part in adder.parts] == [0, 0, 16]
    assert adder.sentence() == "Of all 256 inputs, 16 are wrong; the first is `00+33=33`."
    assert (adder.unit, adder.severity) == ("step", "failure")


def test_letters_push_as_worked_out_by_hand(adder: OrderSummary) -> None:
    """Output k is 2kz - k², and a digit at place i adds its value times 4^(i-2) to z."""
    apart = adder.apart
    assert (apart.string, apart.expected, apart.answer, apart.right) == (
        "00+33=33",
        "0",
        "1",
        False,
    )
    pushes = {(i, one.letter): one.push for i, one in enumerate(apart.letters)}
    # The gap of 0 over 1 is 1 - 2z; other digits at a's first place are 2 more in the mean.
    assert pushes[0, "0"] == pytest.approx(2 * 2 / 4, abs=1e-4)
    assert pushes[3, "3"] == pytest.approx(-2 * 2 / 4, abs=1e-4)
    assert pushes[4, "3"] == pytest.approx(-2 * 2 / 16, abs=1e-4)
    assert pushes[2, "+"] == 0.0
    # Attention: 4^(i-2) of a sum of weights of 8/3.
    assert apart.letters[0].attention[0] == pytest.approx(100 / 4 / (8 / 3), abs=0.02)
    assert apart.letters[7].attention[0] == pytest.approx(0, abs=1e-6)


def test_an_analysis_opens_with_the_verdict() -> None:
    report = tsc.analyze(running_sum((0, 1, -1), 3, n_positions=5))
    card = report.models[0].card
    assert card.order is not None
    assert [part.wrong for part in card.order.parts] == [0, 0, 0, 32, 90]  # trinomials
    assert "the first is `aaab`" in report.findings[0].text
    assert report.findings[0].severity == "failure"
    assert "aaab" in report.models[0].strings  # the probes look at it, too
    page = report.to_html(plotlyjs="cdn")
    assert "letter by letter" in page
    assert "Where it fails" not in page
    assert "| 4 | 81 | 32 | 0 |" in report.to_markdown()
    again = Report.from_json(report.to_json())
    assert again.models[0].card == card
    assert again.to_markdown() == report.to_markdown()


def test_a_model_without_errors_is_good_and_shows_its_closest_call() -> None:
    found = order_summary(tsc.load(carry_adder(2, 3)))
    assert found is not None
    assert found.sentence() == "All 81 inputs are decided, and all are right."
    assert found.severity == "good"
    assert found.apart.right


def test_what_time_leaves_open_is_no_praise() -> None:
    report = tsc.analyze(running_sum((0, 1, -1), 30), probes="attribution", seconds=1e-9)
    found = report.models[0].card.order
    assert found is not None
    assert found.severity == "note"
    assert "undecided" in report.findings[0].text
    assert OrderSummary(**found.model_dump(mode="json")) == found
    with pytest.raises(UsageError, match="order-sensitive models only"):
        tsc.analyze("walkthrough", probes="margin", seconds=3.0)


def test_two_layers_are_not_decided() -> None:
    config = tsc.ClassifierConfig(n_layers=2, n_positions=4)
    assert order_summary(tsc.load(ordered_checkpoint(config, 1))) is None


def test_a_model_that_writes_is_analysed_on_an_input_of_its_task() -> None:
    """Other strings have no right answer, and probes that ask for it would fail."""
    report = tsc.analyze(carry_adder(2, 4, shift=1.5))
    assert report.models[0].strings == ("a{2}ed{2}fd{2}",)  # 00+33=33
    assert "the first is `00+33=33`" in report.findings[0].text
