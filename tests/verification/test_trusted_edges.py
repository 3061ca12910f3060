"""Slips that would accept a false statement, each once made by hand in the checker and not noticed.

Every test here fails with its slip: outputs taken for equal though their biases differ, ties won
by the wrong side, float32 room of the shortest string instead of the longest, an overflow that is
not seen, and models called the same function though something the form leaves out differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb
from tsc_interp.verification.checker.identity import exact_form, has_form

from tests.trusted.asking import Asked
from tests.verification.models import planted, random_checkpoint
from tests.verification.ordered_models import with_task
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import ContainsAll
from tsc_interp.tasks import Automaton
from tsc_interp.trusted.sets import Sets
from tsc_interp.verification import CertificateError
from tsc_interp.verification.checker.agreement import AgreementChecker
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.model import BoxModel


def with_weights(checkpoint: Checkpoint, **changes: Any) -> Checkpoint:
    """Weights by the end of their name, as numbers that fill them or arrays."""
    weights = {name: weight.copy() for name, weight in checkpoint.weights.items()}
    for end, value in changes.items():
        (name,) = (one for one in weights if one.endswith(end))
        weights[name][...] = value
    return Checkpoint(checkpoint.config, weights)


def answers_by_bias(biases: list[float], **options: Any) -> Checkpoint:
    """Outputs that read the same, so that biases alone decide."""
    config = ClassifierConfig(n_outputs=len(biases), biases=True, **options)
    read = np.full((config.d_model, 1), 0.5)
    return with_weights(random_checkpoint(config, 0), W_U=read, b_U=np.array(biases))


@pytest.mark.parametrize(
    ("biases", "answer"), [([0, 0, 1], 2), ([1, 0, 1], 0), ([0, 1, 1], 1), ([0, 1, 0], 1)]
)
def test_outputs_of_equal_columns_differ_by_their_biases(biases: list[float], answer: int) -> None:
    model = BoxModel(answers_by_bias(biases))
    found = [model.of_class(label).is_answer((0, 1), [1, 2]) for label in range(3)]
    assert found == [label == answer for label in range(3)]


@pytest.mark.parametrize(("biases", "answer"), [([0, 0], 0), ([0, 1], 1), ([1, 0], 0)])
def test_ties_of_ordered_outputs_go_to_the_lower_index(biases: list[float], answer: int) -> None:
    checkpoint = answers_by_bias(biases, n_positions=5)
    for label in (0, 1):
        task = Automaton(states=1, start=0, step=[[0, 0, 0]], label=[label])
        asked = Asked(with_task(checkpoint, task))
        for length in (1, 2):
            every = Sets.whole(asked.trellis(length).of_label(label))
            assert asked.holds(every) == (label == answer)
            assert asked.holds(every, 1 - label) == (label != answer)


def test_float32_room_is_that_of_the_longest_string_of_a_box() -> None:
    class Room:
        def room(self, length: int, form: str) -> Any:
            return arb(0) if length <= 5 else arb(10) ** 9

    checker = Checker(planted(4))
    checker.model.__dict__["rounding"] = Room()
    assert checker.is_safe("tokens", 100, (0,), (1,), (5,))
    assert not checker.is_safe("tokens", 100, (0,), (1,), (6,))
    assert checker.is_safe("tokens", 5, (0,), (1,), (6,))  # of which no string has six letters


@pytest.mark.parametrize(
    "parts", [("W_E", "W_U"), ("W_Q", "W_K"), ("W_V", "W_O"), ("W_in", "W_out")]
)
def test_the_checker_has_no_room_for_what_may_overflow(parts: tuple[str, str]) -> None:
    small = random_checkpoint(ClassifierConfig(act_fn="relu", biases=True), 0, 1.0)
    large = {
        name: weight * np.float32(1e25 if name.endswith(parts) else 1.0)
        for name, weight in small.weights.items()
    }
    for form in ("tokens", "compressed"):
        assert BoxModel(small).rounding.room(3, form).is_finite()
        room = BoxModel(Checkpoint(small.config, large)).rounding.room(3, form)
        assert not room.is_finite()


# -- the same function ---------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"biases": True}, {"act_fn": "relu"}, {"n_outputs": 2}])
def test_only_the_reports_models_are_called_the_same_function(options: dict[str, Any]) -> None:
    """The form has no place for biases, other activations or a second output."""
    one = random_checkpoint(ClassifierConfig(**options), 0)
    changed = {"b_U": 5.0} if "biases" in options else {}
    other = with_weights(one, **changed)
    assert not has_form(one)
    with pytest.raises(CertificateError, match="only one-layer models without norms"):
        AgreementChecker(one, other).derive([{"kind": "identical", "letters": "ab"}])


def test_equal_scores_of_wider_heads_are_divided_by_more() -> None:
    one = random_checkpoint(ClassifierConfig(n_heads=1, d_head=1), 0)
    config = one.config.replace(d_head=2)
    weights = dict(one.weights)
    for part in "QKV":
        name = f"blocks.0.attn.W_{part}"
        weights[name] = np.concatenate([weights[name], 0 * weights[name]], axis=2)
    out = weights["blocks.0.attn.W_O"]
    weights["blocks.0.attn.W_O"] = np.concatenate([out, 0 * out], axis=1)
    wide = Checkpoint(config, weights)
    assert exact_form(one, (0, 1)) == exact_form(one, (0, 1))
    assert exact_form(one, (0, 1)) != exact_form(wide, (0, 1))
    with pytest.raises(CertificateError, match="not shown to be the same"):
        AgreementChecker(one, wide).derive([{"kind": "identical", "letters": "ab"}])


def test_neurons_that_start_elsewhere_are_other_neurons() -> None:
    """CLS differs in a direction that only neurons read."""
    one = random_checkpoint(ClassifierConfig(task=ContainsAll(letters="a")), 1)
    queries = one.weights["blocks.0.attn.W_Q"] * np.array([1, 0], np.float32)[None, :, None]
    read = one.weights["unembed.W_U"] * np.array([[1], [0]], np.float32)
    one = with_weights(one, W_Q=queries, W_U=read)
    moved = one.weights["embed.W_E"].copy()
    moved[0, 1] += 1
    other = with_weights(one, W_E=moved)
    forms = [exact_form(checkpoint, (0, 1)) for checkpoint in (one, other)]
    assert forms[0][:4] == forms[1][:4]  # all but the neurons
    assert forms[0] != forms[1]
