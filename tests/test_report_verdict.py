"""The first sentence of a report: how bad it is, and why."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import tsc_interp as tsc
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.report.model_report import ModelCard
from tsc_interp.report.reach import Reach
from tsc_interp.report.strings import TestScore

CARD = ModelCard("some-model", "some-model", "contains a and b", 36, "0" * 64, {})
PERFECT = TestScore(9984, 0, 0, ("ac{115}", "abc{190}"))
FAILING = TestScore(9984, 6, 691, ("bc{162}", "ab{197}c"))


@pytest.mark.parametrize(
    ("test", "reach", "severity", "words"),
    [
        (None, None, "note", "with 36 parameters. There is no test set for its task."),
        (PERFECT, None, "good", "It makes no error on the 9,984 test strings (up to 200 letters) "
         "and comes nearest to one on `ac{115}` and `abc{190}`."),
        (FAILING, None, "failure", "It is wrong on 697 of the 9,984 test strings (up to 200 "
         "letters): 6 false positives and 691 false negatives, the worst being `bc{162}` and "
         "`ab{197}c`."),
        # Without a test set: what is proved counts, and an error at a length that is tested.
        (None, Reach(0, True, "a", None), "failure",
         "It is wrong on a string of a single letter; the shortest it gets wrong: `a` (a false "
         "positive)."),
        (None, Reach(1, True, None, "ab"), "failure",
         "Every string of up to 1 letter is proved right; the shortest it gets wrong: `ab` (a "
         "false negative)."),
        (None, Reach(199, True, "bc{199}", None), "failure", "up to 199 letters is proved right"),
        (None, Reach(200, True, "bc{200}", None), "good", "up to 200 letters is proved right"),
        (None, Reach(10**6, False, None, None), "good",
         "Every string of up to 1,000,000 letters is proved right."),
        (None, Reach(0, False, None, None), "note", "Nothing is proved."),
        (None, Reach(150, False, None, None), "note", "up to 150 letters is proved right."),
        (None, Reach(3, False, None, "ab{5}"), "failure", "`ab{5}` (a false negative)"),
        (PERFECT, Reach(66, True, "bc{70}", "ab{66}"), "failure",
         "the shortest it gets wrong: `bc{70}` (a false positive) and `ab{66}` (a false "
         "negative)."),
        (PERFECT, Reach(2166, True, None, "abc{2165}"), "good", "up to 2,166 letters"),
        (FAILING, Reach(2166, True, None, "abc{2165}"), "failure", "697 of the 9,984"),
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
        assert verdict.numbers["right through length"] == reach.right_through


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
    assert "wrong on a string of a single letter" in verdict.text
