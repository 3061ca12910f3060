"""The first error of all is the one that `horizon` finds, proved by the same checker."""

from __future__ import annotations

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.locate import bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.initialise import initial_weights
from tsc_interp.verification import horizons
from tsc_interp.verification.horizons import first_error

REACH = {"limit": 3000, "boxes": 20_000}


def random_model(seed, **options):
    config = ClassifierConfig(**options)
    weights = {name: w.numpy() * 2.5 for name, w in initial_weights(config, seed).items()}
    return Checkpoint(config, weights)


def same(checkpoint):
    known = tsc.horizon(checkpoint, **REACH)
    for prove in (True, False):
        found = first_error(checkpoint, **REACH, prove=prove)
        assert (found.length, found.infinite) == (known.length, known.infinite)
        assert found.verified_length == known.verified_length
        assert found.shortest == known.shortest
        assert found.complete == known.complete
        if prove:
            assert (found.proved, found.checked) == (known.proved, known.checked)
    return known


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models_have_the_same_first_error(name):
    same(load_checkpoint(name))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [
        {"d_model": 3},
        {"n_letters": 4, "task": {"kind": "contains_all", "letters": "abc"}},
        {"task": "majority"},
        {"attend_cls": True, "n_heads": 3},
    ],
    ids=["plain", "four letters", "majority", "attend_cls"],
)
def test_random_models_have_the_same_first_error(options, seed):
    same(random_model(seed, **options))


def test_of_errors_of_one_length_the_first_in_the_alphabet_counts():
    """Here `cc` is found before `ab`, whose letters are searched later."""
    known = same(random_model(23, attend_cls=True, n_heads=3))
    assert known.shortest.string == "ab"
    assert "c" in [
        support.letters
        for support in known.by_letters
        if support.shortest and support.shortest.length == 2
    ]


def separated():
    """Two heads, each reading one letter far above the rest, with scores scaled by log n."""
    config = ClassifierConfig(d_model=4, d_mlp=1, score_scale="sqrt_d_head_log_n")
    weights = {name: np.zeros(shape, np.float32) for name, shape in config.weight_shapes().items()}
    embed = weights["embed.W_E"]
    embed[0, 3] = 1.0  # CLS asks
    for letter in range(3):
        embed[2 + letter, letter] = 1.0
    for head, letter in enumerate((0, 1)):
        weights["blocks.0.attn.W_Q"][head, 3, 0] = 4.0
        weights["blocks.0.attn.W_K"][head, letter, 0] = 1.0
        weights["blocks.0.attn.W_V"][head, letter, 0] = 1.0
        weights["blocks.0.attn.W_O"][head, 0, 2] = 1.0
    # z_a + z_b is 2 with both letters and 1 with one: above 1.5 only with both.
    weights["unembed.W_U"][2, 0] = 1.0
    weights["unembed.W_U"][3, 0] = -1.5
    return Checkpoint(config, weights)


def test_a_model_that_is_always_right_is_proved_so_even_where_proofs_are_not_asked_for():
    known = same(separated())
    assert known.infinite
    assert first_error(separated(), **REACH, prove=False).proved


def test_what_is_beyond_the_trusted_base_is_not_called_proved(monkeypatch):
    model = load_checkpoint("walkthrough")

    def nothing(*arguments, **options):
        raise UnsupportedError("not known here")

    with monkeypatch.context() as patched:
        patched.setattr(horizons, "certify_searches", nothing)
        found = first_error(model, **REACH)
    assert (found.length, found.proved, found.checked) == (2166, False, False)
    assert first_error(model, **REACH).proved


def test_an_impossible_reach_is_refused():
    with pytest.raises(UsageError, match="limit"):
        first_error(load_checkpoint(), limit=0, boxes=5)
