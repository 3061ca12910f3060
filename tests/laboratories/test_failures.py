"""Predictors of failures scored over all strings, and how far the nearest right string is."""

from __future__ import annotations

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.construction.bound import letter_scores
from tsc_interp.data import AllStrings
from tsc_interp.errors import UsageError
from tsc_interp.laboratories import failures
from tsc_interp.laboratories.every_string import Judged, judge, vectors_up_to
from tsc_interp.laboratories.failures import letter_weights, precision_and_recall, steps_to_right
from tsc_interp.training.config import TrainingConfig
from tsc_interp.training.jobs import train


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


def test_precision_and_recall_by_hand():
    said, wrong = np.array([1, 1, 1, 0, 0], bool), np.array([1, 0, 0, 1, 0], bool)
    assert precision_and_recall(said, wrong) == (1 / 3, 1 / 2)
    assert precision_and_recall(np.zeros(5, bool), wrong) == (0.0, 0.0)


def test_the_cone_rule_by_hand(judged):
    model = load_checkpoint("generalization-errors")
    held = failures.shares(model, judged)
    weights = letter_weights(letter_scores(model), judged.counts.astype(float))
    for i in np.random.default_rng(0).integers(0, len(judged.counts), 200):
        assert held[i].tolist() == [weights[i, :, 0].max(), weights[i, :, 1].max()]
    cone = failures.cone_rule(model, held, judged)
    first = judged.config.alphabet.counts("ab{66}")
    assert cone[(judged.counts == first).all(axis=1)].all()
    assert not cone[judged.lengths <= 66].any(), "nothing before the first error"
    assert (cone & judged.wrong).sum() > 0.95 * judged.wrong.sum()


def test_the_largest_ratio_leaves_out_letters_that_do_not_occur(judged):
    counts = np.array([[3, 0, 12], [5, 5, 5], [0, 7, 0], [1, 2, 90]])
    some = Judged(judged.config, counts, np.zeros(4), np.ones(4, bool), np.ones(4, bool))
    assert failures.largest_ratio(some).tolist() == [4, 1, 1, 90]


def test_steps_to_right_against_brute_force():
    judged = judge("lower-magnitude", vectors_up_to(3, 9))
    assert judged.wrong.any()
    told = []
    for i in np.flatnonzero(judged.wrong & (judged.lengths <= 7)):
        same = (judged.labels == judged.labels[i]) & ~judged.wrong
        told.append(np.abs(judged.counts[same] - judged.counts[i]).sum(axis=1).min())
    assert sorted(steps_to_right(judged, 7).tolist()) == sorted(told)
    assert min(told) >= 1


def test_training_distributions_are_read_or_refused():
    read = failures.training_sources
    found = read("length=20, alpha=0.5,all strings", TrainingConfig())
    assert [one.train.kind for one in found.values()] == ["balanced", "balanced", "all_strings"]
    assert found["length=20"].train.max_length == 20
    assert found["alpha=0.5"].train.alpha == 0.5
    for cells in ("width=3", "length=x", ""):
        with pytest.raises(UsageError, match="training distribution"):
            read(cells, TrainingConfig())
    with pytest.raises(UsageError, match="fit_seed must be"):
        tsc.lab("failures", quick=True, fit_seed=9)


def test_taken_back_by_going_through_every_pair():
    """A model with errors: `ab{100}` is a false negative, so some yes is taken back."""
    judged = judge("generalization_errors", vectors_up_to(3, 90))
    said = dict(zip(map(tuple, judged.counts.tolist()), judged.positive.tolist(), strict=True))
    for letter, found in enumerate(failures.taken_back(judged)):
        more = [
            said[tuple(n + (place == letter) for place, n in enumerate(counts))]
            for counts, yes in said.items()
            if yes and sum(counts) < 90
        ]
        assert found == pytest.approx(1 - sum(more) / len(more))
    assert failures.taken_back(judged).max() > 0


def balanced(judged: Judged) -> float:
    """The share that is right, half for either label."""
    says, labels = judged.positive, judged.labels
    return float((says[labels].mean() + (~says[~labels]).mean()) / 2)


@pytest.mark.parametrize("source", [None, AllStrings(length=5)])
def test_steps_are_those_of_training_itself(source, tmp_path, monkeypatch):
    """Looked at once an epoch, the steps say which epoch of a usual run is first good enough."""
    training = TrainingConfig(max_epochs=3, check_from=60)
    training = training if source is None else training.replace(train=source, max_epochs=30)
    batches = training.train.batches_of(tsc.ClassifierConfig())
    monkeypatch.setattr(failures, "EVERY", batches)
    monkeypatch.setattr(failures, "GOOD", 0.95)
    found = failures.steps_to_good(training, range(3))
    every = vectors_up_to(3, failures.LONGEST)
    for seed, run in enumerate(train(tsc.ClassifierConfig(), tmp_path, seeds=range(3),
                                     training=training)):  # fmt: skip
        epochs = range(1, training.max_epochs + 1)
        good = [e for e in epochs if balanced(judge(run.checkpoint(e), every)) >= 0.95]
        assert found[seed] == (good[0] * batches if good else np.inf)


def test_findings_are_those_of_the_arrays():
    result = tsc.lab("failures", quick=True, seeds=3, cells="length=10,all strings").result
    assert result.speed.at(cell="length=10").min() >= failures.EVERY
    assert "None is shown to speed training up" in next(
        one.text for one in result.findings if "speed up" in one.text
    )
