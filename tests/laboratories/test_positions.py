"""The positions laboratory: shares by brute force, a bound by enumeration, order and logits."""

from __future__ import annotations

from itertools import product

import pytest
import torch

import tsc_interp as tsc
from tests.playground.pages import fresh
from tsc_interp.errors import ConfigError
from tsc_interp.laboratories.positions import (
    BEFORE,
    CONTAINS,
    LEARNED,
    NONE,
    SINUSOIDAL,
    PositionsOptions,
    classifier,
    least_wrong,
    swing_by_order,
    trained,
)
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
    for row, checkpoint in zip(
        [one for one in result.models if (one.task, one.positions) == (task, kind)],
        trained(task, kind, asked), strict=True,
    ):  # fmt: skip
        model, config = Classifier.from_checkpoint(checkpoint).double(), checkpoint.config
        through = None
        for length in range(1, 6):
            strings = ["".join(letters) for letters in product("abc", repeat=length)]
            tokens = torch.as_tensor(config.alphabet.tokens(strings))
            with torch.no_grad():
                says = model(tokens).numpy() > 0
            wrong = float((says != config.classes(strings).astype(bool)).mean())
            found = result.wrong.at(task=task, kind=kind, seed=row.seed, length=length)
            assert float(found) == pytest.approx(wrong, abs=1e-12)
            through = length - 1 if through is None and wrong else through
        assert row.right_up_to == (5 if through is None else through)


def test_only_trained_positions_are_trained():
    """Beyond the trained length a position keeps its direction: weight decay shortens it."""
    asked = PositionsOptions(quick=True, **SMALL)
    config, name = classifier(BEFORE, LEARNED, asked), "pos_embed.W_pos"
    start = initial_weights(config, asked.seed)[name].numpy()
    ratio = trained(BEFORE, LEARNED, asked)[0].weights[name] / start
    beyond = ratio[asked.train_length + 1 :]
    assert beyond == pytest.approx(beyond.mean() + 0 * beyond, rel=1e-3)
    assert 0.9 < beyond.mean() < 1.0


def test_order_moves_logits_only_with_positions(result):
    for row in result.models:
        assert (row.swing_by_order < 1e-9) == (row.positions == NONE)
    model = Classifier.from_checkpoint(fresh(tsc.ClassifierConfig(), seed=3)).double()
    assert swing_by_order(model) < 1e-9
    assert not any(row.task == BEFORE and row.positions == NONE for row in result.models)


def test_bad_options_are_refused():
    for options, said in (
        ({"train_length": 8, "max_length": 8}, "must be more than train_length"),
        ({"d_model": 5}, "even d_model"),
        ({"seeds": 0}, "seeds = 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            find_laboratory("positions").run(quick=True, **options)
