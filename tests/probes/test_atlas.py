"""The failure atlas: every point a real string, first errors as the horizon finds them."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from tests.cases import POSITIONED
from tests.verification.models import planted, random_checkpoint, unfailing
from tsc_interp import horizon
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.atlas.figures import figures
from tsc_interp.probes.atlas.result import AtlasResult, pair_counts
from tsc_interp.probes.registry import find_probe
from tsc_interp.rules import Majority, Parity

atlas = find_probe("atlas")


def hooked(checkpoint: object) -> HookedClassifier:
    return HookedClassifier.from_checkpoint(checkpoint)  # type: ignore[arg-type]


def test_curves_of_two_letters_show_what_the_model_says() -> None:
    """Against the hooked model, string by string, wherever the logit is not close to zero."""
    for name in ("generalization-errors", "attend-cls"):
        model = load(name)
        found = atlas.run(model, [])
        assert found.pairs is not None
        assert found.pairs_wrong is not None
        counts = pair_counts(found.pair_reach)
        for pair in found.pairs.labels["pair"]:
            full = np.zeros((len(counts), 3), dtype=np.int64)
            full[:, ["abc".index(letter) for letter in pair]] = counts
            with torch.no_grad():
                expected = model(model.counts(full)).double().numpy()
            np.testing.assert_allclose(found.pairs.at(pair=pair), expected, atol=2e-3)
            clear = np.abs(expected) > 1e-2
            wrong = (expected > 0) != model.config.task.labels(full)
            np.testing.assert_array_equal(wrong[clear], found.pairs_wrong.at(pair=pair)[clear] > 0)


def test_curves_go_from_one_letter_to_the_other() -> None:
    pairs = pair_counts(2)
    np.testing.assert_array_equal(pairs[[0, -1]], [[1000, 10], [10, 1000]])
    np.testing.assert_array_equal(pairs[len(pairs) // 2], [10, 10])


def test_first_errors_are_the_horizons() -> None:
    checkpoint = planted(12, c_score=-1.0)
    result = atlas.run(hooked(checkpoint), ["ab{3}", "b"])
    known = horizon(checkpoint)
    assert result.horizon == known.length == 12
    assert [one.first_error for one in result.sets] == [
        support.shortest and support.shortest.string for support in known.by_letters
    ]
    by_letters = {one.letters: one for one in result.sets}
    assert by_letters["ab"].kind == "false negative"
    assert by_letters["bc"].always_right
    assert {one.string: (one.wrong, one.given) for one in result.marked} == {
        "ab{12}": (True, False), "ac{32}": (True, False), "ab{12}c": (True, False),
        "abbb": (False, True), "b": (False, True),
    }  # fmt: skip
    first, second, third = result.findings
    assert "`ab{12}`" in first.text
    assert first.severity == "failure"
    assert "No false positive of any length" in second.text
    assert second.severity == "good"
    assert "`ac{32}`" in third.text


def test_a_model_that_never_fails() -> None:
    result = atlas.run(hooked(unfailing()), [])
    assert result.infinite
    assert [finding.severity for finding in result.findings] == ["good", "good"]
    assert all(one.always_right for one in result.sets)
    assert len(figures(result)) == 2


def test_other_alphabets_and_tasks() -> None:
    two = atlas.run(hooked(random_checkpoint(ClassifierConfig(n_letters=2), 1)), ["ab"])
    assert [figure.name for figure in figures(two)] == ["first-errors", "edges"]
    for task in (Majority(letter="b"), Parity(letter="a")):
        result = atlas.run(hooked(random_checkpoint(ClassifierConfig(task=task), 1)), [])
        assert len(figures(result)) == 2


def test_hovering_shows_a_string_and_its_logit() -> None:
    found = atlas.run(load("generalization-errors"), [])
    drawn = {figure.name: figure.figure for figure in figures(found)}
    words = [text for trace in drawn["edges"].data for text in trace.customdata or ()]
    assert any(re.fullmatch(r"b\{\d+\}c\{\d+\}: logit .*, a false positive", w) for w in words)


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="positions"):
        atlas.run(HookedClassifier(POSITIONED), [])
    many = HookedClassifier(ClassifierConfig(n_letters=6))
    with pytest.raises(UnsupportedError, match="up to 5 letters"):
        atlas.run(many, [])
    with pytest.raises(UnsupportedError, match="needs a tsc-interp classifier"):
        atlas.run(torch.nn.Linear(1, 1), [])


def test_a_report_of_version_0_1_is_still_read() -> None:
    """It holds sampled maps, which are drawn no more, and lacks the task and the limit."""
    written = atlas.run(load("walkthrough"), ["ab"]).to_dict()
    for name in ("task", "limit"):
        del written[name]
    old = AtlasResult.from_dict({**written, "plane_reach": 3, "triangle": {}, "edges": None})
    assert old.marked
    assert len(figures(old)) == 2
