"""The closed formula for the first error, against models whose first error is known."""

from __future__ import annotations

import numpy as np
import pytest

import tsc_interp as tsc
from studies.formula.formula import (
    _OneLayer,
    formula_applies,
    predicted_first_error,
)
from tests.sizes import THOROUGH
from tests.verification.models import hand_built, planted, random_checkpoint
from tsc_interp.checkpoints import bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import Alphabet
from tsc_interp.tasks.counts import ContainsAll, Parity


@pytest.mark.parametrize("first", [5, 66, 1000, 54321, 10**8])
def test_planted_errors_are_predicted(first: int) -> None:
    """ab{first} is the first error: the head lets go where its weight is a half."""
    found = predicted_first_error(planted(first, c_score=-1.0))
    assert found is not None
    assert found.length == pytest.approx(first + 1, rel=0.02, abs=1)
    assert found.string == Alphabet(3).write((1, found.length - 1, 0))


@pytest.mark.parametrize("attend_cls", [False, True])
def test_flips_far_behind_the_margin_use_the_limit(attend_cls: bool) -> None:
    """logit = w - 1/200: a's weight w has to fall far below a half, and falls like 1 / n."""
    scores, values = [[np.log(50.0), 0.0, 0.0]], [[1.0, 0.0, 0.0]]
    task, least = ContainsAll(letters="a"), 0.001 if THOROUGH else 0.005
    model = hand_built(scores, values, least, task=task, attend_cls=attend_cls)
    found, exact = predicted_first_error(model), tsc.horizon(model, prove=False)
    assert found is not None
    assert exact.shortest is not None
    assert exact.shortest.length > 40 / least
    assert found.length == pytest.approx(exact.shortest.length, rel=0.01)


def test_what_is_wrong_at_once_is_predicted_exactly() -> None:
    assert predicted_first_error(load_checkpoint("lower-magnitude")).string == "b"  # type: ignore[union-attr]
    never = hand_built([[0, 0, 0]], [[1, 1, 1]], 3.0, task=ContainsAll(letters="a"))
    found = predicted_first_error(never)
    assert (found.length, found.string) == (1, "a")  # type: ignore[union-attr]


def test_no_error_to_foretell() -> None:
    task = ContainsAll(letters="a")
    assert predicted_first_error(hand_built([[0]], [[1]], 0.5, task=task)) is None
    # A task without labels for sets of letters says nothing about families.
    parity = random_checkpoint(ClassifierConfig(n_letters=1, task=Parity(letter="a")), 0)
    assert predicted_first_error(parity) is None


def test_bundled_models_are_predicted() -> None:
    for name in bundled_names():
        checkpoint = load_checkpoint(name)
        found, exact = predicted_first_error(checkpoint), tsc.horizon(checkpoint, prove=False)
        assert found is not None
        assert exact.shortest is not None
        assert found.length == pytest.approx(exact.shortest.length, rel=0.15), name


@pytest.mark.parametrize(
    "options",
    [
        {"d_model": 5, "n_heads": 3, "d_head": 2, "d_mlp": 4},
        {"attend_cls": True, "biases": True, "norm": "layer", "d_model": 3},
        {"final_norm": True, "norm": "rms", "act_fn": "relu", "d_mlp": 0},
    ],
)
def test_families_have_the_models_own_logits(options: dict) -> None:
    """At any n, the formula's logit of one each of `others` and n of a letter is the model's."""
    checkpoint = random_checkpoint(ClassifierConfig(**options), 6)
    assert formula_applies(checkpoint.config)
    model = _OneLayer(checkpoint)
    for others, letter, string in (((0,), 1, "ab{7}"), ((0, 1), 2, "abc{7}"), ((2,), 0, "a{7}c")):
        family = model.family(others, letter)
        assert family is not None
        expected = tsc.evaluate(checkpoint, [string])[0].logit
        assert model.logits_of(*family, np.array([7.0]))[0] == pytest.approx(expected, abs=1e-4)
    assert model.alone(1) == pytest.approx(tsc.evaluate(checkpoint, ["b"])[0].logit, abs=1e-4) or (
        options.get("attend_cls")
    )


@pytest.mark.parametrize(
    "options", [{"n_layers": 2}, {"score_scale": "sqrt_d_head_log_n"}, {"n_letters": 7}]
)
def test_where_it_does_not_apply(options: dict) -> None:
    assert not formula_applies(ClassifierConfig(**options))
