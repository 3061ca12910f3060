"""Slips that would accept a false statement, each once made by hand in the checker and not noticed.

Every test here fails with its slip: outputs taken for equal though their biases differ, ties won
by the wrong side, and models called the same function though something the form leaves out differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.trusted.counts import judge_of
from tests.verification.models import random_checkpoint
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks import trellis_of
from tsc_interp.tasks.counts import ContainsAll
from tsc_interp.trusted.sets import Sets
from tsc_interp.verification.identity import exact_form, has_form


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
    assert judge_of(answers_by_bias(biases)).answer_to_counts((0, 1), [1, 2]) == answer


@pytest.mark.parametrize(("biases", "answer"), [([0, 0], 0), ([0, 1], 1), ([1, 0], 0)])
def test_ties_of_ordered_outputs_go_to_the_lower_index(biases: list[float], answer: int) -> None:
    judge = judge_of(answers_by_bias(biases, n_positions=5))
    for length in (1, 2):
        sets = Sets.whole(trellis_of(ContainsAll(letters="a"), 3, length))
        for winner in (0, 1):
            wanted = np.array([[winner == 1, winner == 0]])
            assert judge.on_paths(sets, np.array([winner]), wanted).all() == (winner == answer)


# -- the same function ---------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"biases": True}, {"act_fn": "relu"}, {"n_outputs": 2}])
def test_only_the_reports_models_are_called_the_same_function(options: dict[str, Any]) -> None:
    """The form has no place for biases, other activations or a second output."""
    one = random_checkpoint(ClassifierConfig(**options), 0)
    changed = {"b_U": 5.0} if "biases" in options else {}
    other = with_weights(one, **changed)
    assert not has_form(one)
    assert not has_form(other)


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
