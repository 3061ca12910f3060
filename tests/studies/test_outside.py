"""Studies of other people's models: oracles at small sizes, and kept results derived again."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from studies.keep import model, results
from studies.max_of_four import run as max_of_four
from studies.own_models import run as own_models
from tests.verification import precise_ordered
from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.verification import verify_ordered
from tsc_interp.verification.order.running import judge_of


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def attention_only(seed: int, numbers: int, length: int, scale: float = 1.0) -> tsc.Checkpoint:
    config = ClassifierConfig(
        n_letters=numbers, n_outputs=numbers, n_heads=1, d_head=3, d_model=5, d_mlp=0, biases=True,
        n_positions=length, reads="last_letter", attend_cls=True, task="maximum",
    )  # fmt: skip
    return ordered_checkpoint(config, seed, scale)


@pytest.mark.parametrize("steps", [30, 150])
def test_max_of_three_by_search_force_and_the_model_itself(steps: int) -> None:
    trained = max_of_four.trained(5, length=3, numbers=8, steps=steps)
    checkpoint = max_of_four.taken(trained)
    verdict = verify_ordered(checkpoint, 3, min_length=3, certify=True)
    forced = max_of_four.brute_force(checkpoint, 3)
    every = torch.tensor(list(product(range(8), repeat=3)))
    with torch.no_grad():
        said = trained(every)[:, -1].argmax(-1)
    assert int((said != every.max(1).values).sum()) == forced.wrong
    assert (verdict.wrong, verdict.undecided) == (forced.wrong, 0)
    assert sum(forced.by_maximum) == forced.wrong > 0
    assert verdict.certificate.checked.parts[0].wrong == forced.wrong


@pytest.mark.parametrize("seed", range(6))
def test_brute_force_and_its_bound_hold_at_256_bits(seed: int) -> None:
    checkpoint = attention_only(seed, 4, 4)
    wrong = precise_ordered.wrong_strings(checkpoint, precise_task(checkpoint), 4)
    assert max_of_four.brute_force(checkpoint, 4).wrong == len(wrong)
    scores, values, own, off = max_of_four.tables(checkpoint, 4)
    for string in list(product(range(4), repeat=4))[::17]:
        weights = np.exp([scores[string[-1], p, x] for p, x in enumerate(string)])
        mixed = sum(w * values[p, x] for w, (p, x) in zip(weights, enumerate(string), strict=True))
        found = mixed / weights.sum() + own[string[-1]]
        exact = [float(x) for x in precise_ordered.outputs_of(checkpoint, string)]
        assert np.abs(found - exact).max() <= off < 1e-8


def precise_task(checkpoint: tsc.Checkpoint) -> object:
    return checkpoint.config.task


def test_what_float64_cannot_tell_is_asked_in_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal columns tie: every string whose largest outputs those are is too close."""
    checkpoint = attention_only(0, 4, 3)
    weights = dict(checkpoint.weights)
    for name in ("unembed.W_U", "unembed.b_U"):
        weights[name] = weights[name].copy()
        weights[name][..., 3] = weights[name][..., 2]
    tied = tsc.Checkpoint(checkpoint.config, weights)
    forced = max_of_four.brute_force(tied, 3)
    assert forced.close > 0
    strings = product(range(4), repeat=3)
    judge = judge_of(tied)
    assert forced.wrong == sum(judge.answer_to_string(one) != max(one) for one in strings)


def test_strings_of_the_twenty_models_are_labelled_as_the_task_says() -> None:
    tokens, label = next(own_models.batches(4))
    assert (tokens[:, -1] == own_models.QUERY).all()
    for row, yes in zip(tokens[:, :-1].tolist(), label.tolist(), strict=True):
        assert yes == (own_models.A in row and own_models.B in row)


# -- kept results, of kept weights -------------------------------------------------------------


def test_the_first_of_the_twenty() -> None:
    row = results("own_models")[0]
    found = tsc.horizon(model("own_models"))
    assert (found.verified_length, found.shortest.string) == (row["right_through"], row["shortest"])
    assert found.proved == row["proved"]


def test_the_first_of_max_of_four() -> None:
    row = results("max_of_four", 3)[0]
    verdict = verify_ordered(model("max_of_four"), 4, min_length=4)
    assert (verdict.wrong, verdict.undecided) == (row["wrong"], 0)
    assert list(verdict.shortest.tokens) == row["first"]
