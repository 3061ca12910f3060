"""Predictors of failures scored over all strings, and how far the nearest right string is."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.data import AllStrings
from tsc_interp.errors import UsageError
from tsc_interp.laboratories.every_string import (
    Judged,
    judge,
    letter_scores,
    letter_weights,
    vectors_up_to,
)
from tsc_interp.laboratories.failures import invariants, learned, rules
from tsc_interp.laboratories.failures.rules import precision_and_recall, steps_to_right
from tsc_interp.laboratories.failures.run import _sources
from tsc_interp.training.config import TrainingConfig


@pytest.fixture(scope="module")
def judged() -> Judged:
    return judge("generalization-errors", vectors_up_to(3, 90))


def test_shares_are_the_models_own_attention(judged):
    model = tsc.load("generalization-errors")
    strings = ["ab{66}", "aab{3}c{5}", "bc{70}"]
    _, cache = model.run_with_cache(strings)
    counts = judged.config.alphabet.count_matrix(strings)
    found = letter_weights(letter_scores(model.to_checkpoint()), counts.astype(float))
    pattern = cache["pattern", 0][:, :, 0].numpy()
    assert pattern.shape[-1] == 4, "CLS and the three letters, compressed"
    assert np.allclose(found, pattern[:, :, 1:], atol=1e-5)


def test_precision_and_recall_against_counting_strings():
    """Weighed by multinomials in logarithms, against strings written out one by one."""
    rng = np.random.default_rng(3)
    vectors = vectors_up_to(2, 6)
    told, wrong = rng.random((2, len(vectors))) < 0.4
    both = mine = theirs = 0
    place = {tuple(row): i for i, row in enumerate(vectors.tolist())}
    for length in range(1, 7):
        for letters in product(range(2), repeat=length):
            i = place[letters.count(0), letters.count(1)]
            both += bool(told[i] and wrong[i])
            mine += bool(told[i])
            theirs += bool(wrong[i])
    config = tsc.ClassifierConfig(n_letters=2)
    blank = Judged(config, vectors, np.zeros(len(vectors)), told, told)
    found = precision_and_recall(told, wrong, blank.log_strings())
    assert found == pytest.approx((both / mine, both / theirs))
    nothing = np.zeros_like(told)
    assert precision_and_recall(nothing, wrong, blank.log_strings()) == (0.0, 0.0)


def test_the_margin_and_cone_rules_by_hand(judged):
    model = load_checkpoint("generalization-errors")
    held = rules.shares(model, judged)
    weights = letter_weights(letter_scores(model), judged.counts.astype(float))
    for i in np.random.default_rng(0).integers(0, len(judged.counts), 200):
        a, b = weights[i, :, 0].max(), weights[i, :, 1].max()
        assert held[i].tolist() == [a, b]
        told = rules.margin_rule(held[i : i + 1], _one(judged, i))[0]
        assert told == (bool(judged.labels[i]) and min(a, b) < 0.5)
    cone = rules.cone_rule(model, held, judged)
    first = judged.config.alphabet.counts("ab{66}")
    assert cone[(judged.counts == first).all(axis=1)].all()
    assert not cone[judged.lengths <= 66].any(), "nothing before the first error"
    assert (cone & judged.wrong).sum() > 0.95 * judged.wrong.sum()


def _one(judged: Judged, i: int) -> Judged:
    rows = slice(i, i + 1)
    return Judged(
        judged.config, judged.counts[rows], judged.logits[rows], judged.labels[rows],
        judged.positive[rows],
    )  # fmt: skip


def test_the_largest_ratio_leaves_out_letters_that_do_not_occur(judged):
    counts = np.array([[3, 0, 12], [5, 5, 5], [0, 7, 0], [1, 2, 90]])
    some = Judged(judged.config, counts, np.zeros(4), np.ones(4, bool), np.ones(4, bool))
    assert rules.largest_ratio(some).tolist() == [4, 1, 1, 90]
    assert rules.features(some).shape == (4, len(rules.FEATURES))
    assert np.isfinite(rules.features(some)).all()


def test_steps_to_right_against_brute_force():
    judged = judge("lower-magnitude", vectors_up_to(3, 9))
    assert judged.wrong.any()
    found = steps_to_right(judged, 7)
    told = []
    for i in np.flatnonzero(judged.wrong & (judged.lengths <= 7)):
        same = (judged.labels == judged.labels[i]) & ~judged.wrong
        told.append(np.abs(judged.counts[same] - judged.counts[i]).sum(axis=1).min())
    assert found.tolist() == told
    assert min(told) >= 1


def test_learned_predictors_are_the_same_on_every_run_and_cut_where_f1_is_largest(judged):
    table = rules.features(judged)
    once, again = (learned.fit(table, judged.wrong, 5) for _ in range(2))
    for name in ("tree", "logistic"):
        told = once.tell[name](table)
        assert (told == again.tell[name](table)).all()
        precision, recall = precision_and_recall(told, judged.wrong, np.zeros(len(told)))
        assert 2 * precision * recall / (precision + recall) > 0.5
    assert once.feature < len(rules.FEATURES)


def test_without_scikit_learn_the_error_says_what_to_install(judged, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    with pytest.raises(UsageError, match=r"tsc-interp\[labs\]"):
        learned.fit(rules.features(judged), judged.wrong, 0)


def test_training_distributions_are_read_or_refused():
    found = _sources("length=20, alpha=0.5,all strings", TrainingConfig())
    assert [one.train.kind for one in found.values()] == ["balanced", "balanced", "all_strings"]
    assert found["length=20"].train.max_length == 20
    assert found["alpha=0.5"].train.alpha == 0.5
    for cells in ("width=3", "length=x", ""):
        with pytest.raises(UsageError, match="training distribution"):
            _sources(cells, TrainingConfig())
    with pytest.raises(UsageError, match="fit_seed must be"):
        tsc.lab("failures", quick=True, fit_seed=9)


def test_taken_back_by_going_through_every_pair():
    """A model with errors: `ab{100}` is a false negative, so some yes is taken back."""
    judged = judge("generalization_errors", vectors_up_to(3, 90))
    said = dict(zip(map(tuple, judged.counts.tolist()), judged.positive.tolist(), strict=True))
    for letter, found in enumerate(invariants.taken_back(judged)):
        more = [
            said[tuple(n + (place == letter) for place, n in enumerate(counts))]
            for counts, yes in said.items()
            if yes and sum(counts) < 90
        ]
        assert found == pytest.approx(1 - sum(more) / len(more))
    assert invariants.taken_back(judged).max() > 0


def test_steps_are_counted_to_the_first_good_epoch():
    good, training = tsc.load("walkthrough").to_checkpoint(), TrainingConfig()
    weights = {name: 0 * weight for name, weight in good.weights.items()}
    bad = Checkpoint(good.config, weights)
    assert invariants.steps_to_good([bad, bad, good, bad], training) == 3 * 156
    assert invariants.steps_to_good([bad], training) == float("inf")
    assert invariants.steps_in_epoch(training.replace(train=AllStrings()), 3) == 308
