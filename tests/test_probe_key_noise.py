"""Key noise against attention by hand: longer or shorter keys are larger or smaller scores."""

from __future__ import annotations

import numpy as np
import pytest

from tests.probe_models import TOKENS, check_survives_json, transformer_lens_model
from tests.verification_models import hand_built
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import source_test_set
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.probes.registry import figures, run_probe

SCORES = np.array([[4.0, 1.0, -2.0], [-1.0, 3.0, 0.5]])
VALUES = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
THRESHOLD = 2.5
SIZES = (0.1, 0.6, 1.0)


def strings():
    every = source_test_set(ClassifierConfig())
    return every[np.linspace(0, len(every) - 1, 128).astype(int)]


def answers(scores):
    counts = strings()
    logit = -THRESHOLD * np.ones(len(counts))
    for head in range(2):
        odds = counts * np.exp(scores[head])
        logit += odds / odds.sum(axis=1, keepdims=True) @ VALUES[head]
    return logit > 0


def moved(head, letter, factor):
    scores = SCORES.copy()
    scores[head, letter] *= factor
    return scores


@pytest.fixture(scope="module")
def model():
    return Classifier.from_checkpoint(hand_built(SCORES.tolist(), VALUES.tolist(), THRESHOLD))


def test_flips_are_those_of_longer_or_shorter_keys(model):
    drawn = [run_probe("key-noise", model, ["ab"], sizes=SIZES, draws=1, seed=s) for s in range(6)]
    before, seen = answers(SCORES), 0
    for head, letter in np.ndindex(2, 3):
        for index, size in enumerate(SIZES):
            longer, shorter = (
                (answers(moved(head, letter, factor)) != before).mean()
                for factor in (1 + size, 1 - size)
            )
            measured = {float(one.flips.array[0, head, letter, index]) for one in drawn}
            assert measured <= {float(longer), float(shorter)}
            seen += len(measured) > 1
    assert seen > 3  # seeds differ


def test_draws_are_averaged(model):
    one, other = (
        run_probe("key-noise", model, ["ab"], sizes=SIZES, draws=1, seed=s) for s in (0, 1)
    )
    both = run_probe("key-noise", model, ["ab"], sizes=SIZES, draws=2)
    np.testing.assert_allclose(both.flips.array, (one.flips.array + other.flips.array) / 2)


def test_margins_say_who_leads(model):
    """By brute force: does another letter lead after a move one way or the other?"""
    result = run_probe("key-noise", model, ["ab"], sizes=SIZES, draws=1)
    with np.errstate(divide="ignore"):
        weight = np.log(strings())

    def leads(scores, head):
        return (scores[head] + weight).argmax(axis=1)

    for head, letter in np.ndindex(2, 3):
        for index, size in enumerate(SIZES):
            before = leads(SCORES, head)
            changed = [
                leads(moved(head, letter, factor), head) != before
                for factor in (1 + size, 1 - size)
            ]
            expected = (changed[0] | changed[1]).mean()
            assert float(result.possible.array[0, head, letter, index]) == pytest.approx(expected)


def test_turned_keys():
    """Two numbers per key: every angle tried, who leads at any of them."""
    config = ClassifierConfig(d_model=4, n_heads=1, d_head=2)
    model = Classifier(config, seed=3)
    result = run_probe("key-noise", model, ["ab"], sizes=SIZES, draws=2)
    assert result.flips.labels["along"] == ("norm", "direction")
    cache = model.run_with_cache(["abc"])[1]
    query = cache["blocks.0.attn.hook_q"][0, 0, 0].detach().double().numpy()
    keys = cache["blocks.0.attn.hook_k"][0, 1:, 0].detach().double().numpy()
    with np.errstate(divide="ignore"):
        weight = np.log(strings())
    for letter in range(3):
        for index, size in enumerate(SIZES):
            before = (keys @ query / np.sqrt(2) + weight).argmax(axis=1)
            changed = np.zeros(128, dtype=bool)
            for angle in np.linspace(-np.arctan(size), np.arctan(size), 400):
                turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
                turned = keys.copy()
                turned[letter] = turn @ turned[letter]
                changed |= (turned @ query / np.sqrt(2) + weight).argmax(axis=1) != before
            found = float(
                result.possible.at(along="direction", head=0, letter="abc"[letter])[index]
            )
            assert found == pytest.approx(changed.mean(), abs=0.01)


def test_words_and_figures(model):
    result = run_probe("key-noise", model, ["ab"])
    check_survives_json(result)
    assert any("no direction" in note for note in result.not_applicable)
    assert [figure.name for figure in figures(result)] == ["flips-norm", "possible-norm"]
    assert result.findings[-1].numbers["changed"] == int((result.flips.array > 0).sum())


def test_wrong_use(model):
    with pytest.raises(UnsupportedError, match="no attention"):
        run_probe("key-noise", Classifier(ClassifierConfig(n_heads=0), seed=0), ["ab"])
    with pytest.raises(UnsupportedError, match="positions"):
        run_probe("key-noise", Classifier(ClassifierConfig(n_positions=5), seed=0), ["ab"])
    with pytest.raises(UsageError, match="draws"):
        run_probe("key-noise", model, ["ab"], draws=0)
    with pytest.raises(UsageError, match="size of 0 or more"):
        run_probe("key-noise", model, ["ab"], sizes=(-0.1,))
    with pytest.raises(UnsupportedError, match="classifier"):
        run_probe("key-noise", transformer_lens_model(), TOKENS)
