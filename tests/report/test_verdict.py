"""The first sentence of a report: how bad it is, and why."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch

import tsc_interp as tsc
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.report.card import ModelCard, short_name
from tsc_interp.report.model_report import ModelReport, section_of
from tsc_interp.report.reach import Reach, reach
from tsc_interp.report.scoring import TestScore
from tsc_interp.results.base import SEVERITIES, Finding

CARD = ModelCard("some-model", "some-model", "contains a and b", 36, "0" * 64, {})
PERFECT = TestScore(9984, 0, 0, ("ac{115}", "abc{190}"))
FAILING = TestScore(9984, 6, 691, ("bc{162}", "ab{197}c"))


@pytest.mark.parametrize(
    ("test", "reach", "severity", "words"),
    [
        (None, None, "note", "with 36 parameters. There is no test set for its task."),
        (PERFECT, None, "good", "It makes no error on tsc-interp's own 9,984 test strings "
         "(up to 200 letters); its closest calls are `ac{115}` and `abc{190}`."),
        (FAILING, None, "failure", "It is wrong on 697 of tsc-interp's own 9,984 test strings "
         "(up to 200 "
         "letters): 6 false positives and 691 false negatives. The worst are `bc{162}` and "
         "`ab{197}c`."),
        # Without a test set: what is proved counts, and an error at a length that is tested.
        (None, Reach(0, True, "a", None), "failure",
         "It already fails at length 1. The shortest wrong string is `a` (a false positive)."),
        (None, Reach(1, True, None, "ab"), "failure",
         "Every string of up to 1 letter is proved right. The shortest wrong string is `ab` (a "
         "false negative)."),
        (None, Reach(199, True, "bc{199}", None), "failure", "up to 199 letters is proved right"),
        (None, Reach(200, True, "bc{200}", None), "good", "up to 200 letters is proved right"),
        (None, Reach(10**6, False, None, None), "good",
         "Every string of up to 1,000,000 letters is proved right."),
        (None, Reach(0, False, None, None), "note", "Nothing is proved."),
        (None, Reach(150, False, None, None), "note", "up to 150 letters is proved right."),
        (None, Reach(3, False, None, "ab{5}"), "failure",
         "The shortest wrong string found is `ab{5}` (a false negative)"),
        (PERFECT, Reach(66, True, "bc{70}", "ab{66}"), "failure",
         "The shortest wrong strings are `ab{66}` (a false negative) and `bc{70}` (a false "
         "positive)."),
        # The shorter of the two decides, whichever it is.
        (None, Reach(66, True, "bc{500}", "ab{66}"), "failure", "`ab{66}` (a false negative)"),
        (None, Reach(66, True, "bc{66}", "ab{500}"), "failure", "`bc{66}` (a false positive)"),
        (None, Reach(300, True, "bc{500}", "ab{300}"), "good", "up to 300 letters"),
        (PERFECT, Reach(2166, True, None, "abc{2165}"), "good", "up to 2,166 letters"),
        (FAILING, Reach(2166, True, None, "abc{2165}"), "failure", "697 of tsc-interp's own 9,984"),
    ],
)  # fmt: skip
def test_the_verdict_says_how_bad_it_is(test, reach, severity, words):
    """A model that is wrong on one letter was called good where there was no test set."""
    card = dataclasses.replace(CARD, test=test, reach=reach)
    verdict = card.verdict()
    assert verdict.severity == severity
    assert words in verdict.text
    assert verdict.text.startswith("some-model answers “contains a and b?” with 36")
    if test is not None:
        assert verdict.numbers["false negatives"] == test.false_negatives
        assert verdict.numbers["false positives"] == test.false_positives
    if reach is not None:
        assert verdict.numbers["verified length"] == reach.verified_length


def test_a_model_without_a_test_set_that_is_wrong_on_one_letter_is_a_failure():
    """Two letters, both named by the task: no test set fits. Its logit is above 0 on `a`."""
    config = tsc.ClassifierConfig(n_letters=2)
    for seed in range(20):
        model = HookedClassifier(config, seed=seed)
        with torch.no_grad():
            logit = model(["a"]).item()
        if logit > 0:
            break
    verdict = tsc.analyze(model, ["ab"], probes=["trace"]).findings[0]
    assert verdict.severity == "failure"
    assert "already fails at length 1" in verdict.text


# -- where the verdict's numbers come from ---------------------------------------------------------


def error(string: str | None) -> SimpleNamespace | None:
    return None if string is None else SimpleNamespace(string=string)


@pytest.mark.parametrize(
    ("checked", "proved", "length", "expected"),
    [
        (True, True, 7, Reach(7, True, "a{8}", None)),
        (True, True, None, Reach(7, False, "a{8}", None)),
        (True, False, 7, Reach(7, False, "a{8}", None)),
        (True, False, None, Reach(7, False, "a{8}", None)),
        # What the checker did not derive again is not called proved.
        (False, False, 7, Reach(0, False, "a{8}", None)),
    ],
)
def test_reach_says_what_the_checker_derived(checked, proved, length, expected, monkeypatch):
    found = SimpleNamespace(
        verified_length=7,
        checked=checked,
        proved=proved,
        length=length,
        shortest_false_positive=error("a{8}"),
        shortest_false_negative=error(None),
    )
    searched = SimpleNamespace(horizon=found)
    monkeypatch.setattr("tsc_interp.probes.searched.searched", lambda checkpoint: searched)
    assert reach(untrained(3)) == expected


def test_reach_of_what_cannot_be_searched(monkeypatch):
    """Five letters have 31 sets and are searched, six are not."""

    def refuse(checkpoint):
        asked.append(checkpoint)
        raise UnsupportedError("no")

    asked = []
    monkeypatch.setattr("tsc_interp.probes.searched.searched", refuse)
    assert reach(untrained(6)) is None
    assert not asked
    assert reach(untrained(5)) is None
    assert asked


def untrained(n_letters):
    return Classifier(tsc.ClassifierConfig(n_letters=n_letters), seed=0).to_checkpoint()


# -- which findings are read first -----------------------------------------------------------------


def reported(**told: list[str]) -> ModelReport:
    """A report whose probes say a finding of each of these severities."""
    results = tuple(
        SimpleNamespace(
            probe=probe,
            findings=[
                Finding(severity=severity, text=f"{probe} {index}")
                for index, severity in enumerate(severities)
            ],
        )
        for probe, severities in told.items()
    )
    return ModelReport(CARD, ("ab",), results)


def read(report: ModelReport) -> list[str]:
    (first, verdict), *told = report.highlights()
    assert (first, verdict) == ("", CARD.verdict())
    return [finding.text for _, finding in told]


def test_findings_come_worst_first():
    report = reported(
        trace=["note", "failure", "good"], margin=["warning", "failure"], cone=["good"]
    )
    told = [(name, finding.severity) for name, finding in report.findings()]
    assert told[0] == ("", "note")
    assert told[1:3] == [("trace", "failure"), ("margin", "failure")]
    order = [SEVERITIES.index(severity) for _, severity in told[1:]]
    assert order == sorted(order)


def test_highlights_are_the_worst_of_each_probe_or_what_is_good():
    assert read(reported(trace=["note", "failure", "warning"], margin=["warning"],
                         cone=["good"])) == ["margin 0"]  # fmt: skip
    assert read(reported(trace=["note", "good", "good"], margin=["note"])) == ["trace 1"]
    assert read(reported(trace=["note", "note"], margin=["note"])) == ["trace 0", "margin 0"]
    assert read(reported(trace=[])) == []
    assert reported(trace=["note"])._lines() == [("note", CARD.verdict().text), ("note", "trace 0")]
    assert reported(trace=["note"], cone=[])._facts() == ["some-model", "trace", "cone"]


def test_sections_and_figures_are_found_by_name():
    report = reported(trace=["note"], cone=["note"])
    figures = report.figures
    assert list(figures) == ["trace", "cone"]
    assert len(figures) == 2
    assert "trace" in figures
    assert "margin" not in figures
    assert section_of(report.sections, "cone").probe.name == "cone"
    with pytest.raises(UsageError, match="no probe 'margin' in this report; it has trace, cone"):
        figures["margin"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("walkthrough", "walkthrough"),
        ("folder/own.safetensors", "own"),
        ("runs/width/0123456789ab/seed=3/checkpoints/epoch=004.safetensors",
         "width seed=3 epoch=4"),
        ("some.pt", "some.pt"),
    ],
)  # fmt: skip
def test_a_model_is_called_by_a_short_name(source, name):
    assert short_name(source) == name


@pytest.mark.parametrize("test", [None, PERFECT])
@pytest.mark.parametrize("reached", [None, Reach(3, True, "ab{3}", None)])
def test_a_report_survives_json(test, reached):
    card = dataclasses.replace(CARD, test=test, reach=reached, provenance={"seed": 1})
    report = ModelReport(card, ("ab",), (), {"cone": "too large"})
    again = ModelReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again == report
    assert again.card.verdict() == card.verdict()
    data = report.to_dict()
    assert data["verdict"]["severity"] == card.verdict().severity
    assert (data["model"]["test"] is None) == (test is None)
    assert (data["model"]["reach"] is None) == (reached is None)
