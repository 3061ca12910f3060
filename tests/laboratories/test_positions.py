"""The positions laboratory: counts by brute force, a bound by enumeration, what moved."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.playground.pages import fresh
from tsc_interp.errors import ConfigError
from tsc_interp.laboratories.positions.result import (
    BEFORE,
    CONTAINS,
    KINDS,
    LEARNED,
    NONE,
    SINUSOIDAL,
    PositionsOptions,
)
from tsc_interp.laboratories.positions.run import POSITIONS, least_wrong, swing_by_order
from tsc_interp.laboratories.positions.training import classifier, trained
from tsc_interp.laboratories.registry import find_laboratory
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.initialise import initial_weights

SMALL = {"train_length": 3, "max_length": 5, "batches": 12, "epochs": 2, "seeds": 2}


@pytest.fixture(scope="module")
def result():
    return find_laboratory("positions").run(quick=True, **SMALL)


@pytest.mark.parametrize("length", [1, 2, 5, 7])
def test_the_bound_for_the_blind_by_enumeration(length):
    """Every string, grouped by its letters: the smaller half of each group is lost."""
    rule = tsc.ClassifierConfig(task="before", n_positions=9)
    strings = ["".join(letters) for letters in product("abc", repeat=length)]
    groups: dict[str, list[int]] = {}
    for string, label in zip(strings, rule.classes(strings), strict=True):
        groups.setdefault("".join(sorted(string)), []).append(int(label))
    lost = sum(min(sum(group), len(group) - sum(group)) for group in groups.values())
    assert least_wrong(length) == pytest.approx(lost / 3**length)


@pytest.mark.parametrize("task", [CONTAINS, BEFORE])
@pytest.mark.parametrize("kind", [LEARNED, SINUSOIDAL])
def test_shares_are_those_of_every_string_run_by_itself(result, task, kind):
    """The same models again, every string of every length through the forward pass."""
    asked = PositionsOptions(quick=True, **SMALL)
    for seed, checkpoint in trained(task, kind, asked):
        model, config = Classifier.from_checkpoint(checkpoint).double(), checkpoint.config
        through = None
        for length in range(1, 6):
            strings = ["".join(letters) for letters in product("abc", repeat=length)]
            tokens = torch.as_tensor(config.alphabet.tokens(strings))
            with torch.no_grad():
                says = model(tokens).numpy() > 0
            wrong = float((says != config.classes(strings).astype(bool)).mean())
            found = result.wrong.at(task=task, kind=kind, seed=seed, length=length)
            assert float(found) == pytest.approx(wrong, abs=1e-12)
            through = length - 1 if through is None and wrong else through
        expected = 5 if through is None else through
        assert float(result.through.at(task=task, kind=kind, seed=seed)) == expected


def test_only_trained_positions_are_trained():
    """Beyond the trained length a position keeps its direction: weight decay shortens it."""
    asked = PositionsOptions(quick=True, **SMALL)
    (seed, checkpoint), *_ = trained(BEFORE, LEARNED, asked)
    config = classifier(BEFORE, LEARNED, asked)
    start, end = initial_weights(config, seed)[POSITIONS].numpy(), checkpoint.weights[POSITIONS]
    ratio = end / start
    beyond = ratio[asked.train_length + 1 :]
    assert beyond == pytest.approx(np.full_like(beyond, beyond.mean()), rel=1e-3)
    assert 0.9 < beyond.mean() < 1.0
    assert np.ptp(ratio[1 : asked.train_length + 1]) > 0.05


def test_order_moves_logits_only_with_positions(result):
    assert float(result.swing.at(task=CONTAINS, kind=NONE).max()) < 1e-9
    for kind in (LEARNED, SINUSOIDAL):
        assert (result.swing.at(task=BEFORE, kind=kind) > 0.01).all()
    assert swing_by_order(fresh(tsc.ClassifierConfig(), seed=3)) < 1e-9


def test_order_without_positions_is_not_asked(result):
    assert not result.has(BEFORE, NONE)
    assert all(result.has(CONTAINS, kind) for kind in KINDS)
    assert not any(task == BEFORE and kind == NONE for task, kind, *_ in result.first_wrong)


def test_what_is_traced_is_the_model_that_is_named(result):
    """Weights are the softmax of the scores where letters stand."""
    kind, seed = result.traced.split()[0], int(result.traced.split()[-1])
    assert kind in (LEARNED, SINUSOIDAL)
    assert str(seed) in result.through.labels["seed"]
    places, weights = result.places.array, result.weights.array
    for row, string in enumerate(result.weights.labels["string"]):
        for head in range(places.shape[0]):
            scores = [places[head, "abc".index(x), i] for i, x in enumerate(string)]
            expected = np.exp(scores) / np.exp(scores).sum()
            by_letter = [sum(w for w, x in zip(expected, string, strict=True) if x == letter)
                         for letter in "abc"]  # fmt: skip
            assert weights[row, head] == pytest.approx(by_letter, abs=1e-4)


def test_bad_options_are_refused():
    for options, said in (
        ({"train_length": 8, "max_length": 8}, "must be more than train_length"),
        ({"d_model": 5}, "even d_model"),
        ({"seeds": 0}, "seeds = 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            find_laboratory("positions").run(quick=True, **options)


def test_what_a_search_leaves_is_told():
    short = find_laboratory("positions").run(
        quick=True, **{**SMALL, "max_length": 7, "seeds": 1}, budget=0.0005
    )
    assert float(np.nanmax(short.undecided.array)) > 0
    assert "left strings undecided" in short.findings[-1].text
