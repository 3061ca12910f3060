"""Attention that is meant to last longer: what is verified of it, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from flint import ctx

import tsc_interp as tsc
from tests.cases import ATTENTION
from tests.model import oracle
from tests.verification import precise
from tests.verification.models import hand_built, random_checkpoint
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import ConfigError, UnsupportedError
from tsc_interp.model.attention import inverse_temperature
from tsc_interp.verification import CertificateError, check, verify_ordered

COUNTED = {"score_scale": "sqrt_d_head_log_n_cls"}


@pytest.mark.parametrize("config", ATTENTION, ids=lambda config: config.key()[:6])
def test_what_has_no_bounds_is_refused_with_the_reason(config: ClassifierConfig) -> None:
    checkpoint = random_checkpoint(config, 0)
    words = config.beyond_verification[0].split(" (")[0]
    for ask in (tsc.horizon, tsc.certify, tsc.verify):
        with pytest.raises(UnsupportedError, match=words):
            ask(checkpoint)
    with pytest.raises(CertificateError, match=words):
        check({}, checkpoint)
    if config.n_layers == 1:
        with pytest.raises(UnsupportedError, match=words):
            verify_ordered(checkpoint, 3)
    assert ClassifierConfig.from_json(config.to_json()) == config
    with pytest.raises(UnsupportedError, match=rf"{words}|log n"):
        tsc.HookedClassifier.from_checkpoint(checkpoint).to_transformer_lens()


def test_adaptive_temperature_needs_attention_both_ways() -> None:
    with pytest.raises(ConfigError, match="adaptive temperature needs"):
        ClassifierConfig(adaptive_temperature=True, reads="last", attend_cls=True)


def assert_inside(checkpoint, letters, counts, searched, checked) -> None:
    full = [0] * checkpoint.config.n_letters
    for letter, count in zip(letters, counts, strict=True):
        full[letter] = count
    real = precise.logit(checkpoint, full)
    assert searched[0][0] <= real <= searched[1][0]
    with ctx.workprec(128):
        assert float(checked.lower()) <= real + 1e-12
        assert real - 1e-12 <= float(checked.upper())


def test_log_n_with_cls_counted_can_be_right_for_ever() -> None:
    heads = [[3, 0, 0], [0, 3, 0]], [[2, 0, 0], [0, 2, 0]]
    found = tsc.horizon(hand_built(*heads, 3.0, **COUNTED), limit=1000)
    assert (found.infinite, found.proved) == (True, True)
    # Not the same model as the one that counts letters only: it is wrong where that one is right.
    weak = [[0.6, 0, 0], [0, 0.6, 0]], [[2, 0, 0], [0, 2, 0]]
    lengths = [
        tsc.horizon(hand_built(*weak, 2.1, score_scale=scale), limit=1000).length
        for scale in ("sqrt_d_head_log_n", "sqrt_d_head_log_n_cls")
    ]
    assert lengths[0] != lengths[1]


def test_strings_in_order_with_cls_counted() -> None:
    config = ClassifierConfig(n_letters=2, n_positions=6, d_model=3, attend_cls=True, **COUNTED)
    checkpoint = random_checkpoint(config, 3)
    verdict = verify_ordered(checkpoint, 5, certify=True)
    wrong = 0
    for length in range(1, 6):
        for letters in product("ab", repeat=length):
            text = "".join(letters)
            label = "a" in text and "b" in text
            wrong += (oracle.logit(config, dict(checkpoint.weights), text) > 0) != label
    assert sum(count.wrong for count in verdict.lengths) == wrong > 0


def test_a_learned_factor_folds_into_the_queries() -> None:
    config = ClassifierConfig(score_scale="sqrt_d_head_ssmax", n_layers=2, n_heads=3, d_model=4)
    weights = dict(random_checkpoint(config, 5).weights)
    for layer in (0, 1):
        name = f"blocks.{layer}.attn.log_n_factor"
        weights[name] = np.float32([0.5, -2.0, 1.7]) + layer
    checkpoint = Checkpoint(config, weights, {"epoch": 3})
    folded = checkpoint.folded()
    assert folded.config == config.replace(score_scale="sqrt_d_head_log_n")
    assert folded.provenance == {"epoch": 3}
    strings = ["a", "abc", "a{7}b{30}c{2}"]
    before, after = (tsc.evaluate(model, strings) for model in (checkpoint, folded))
    for one, other in zip(before, after, strict=True):
        assert other.logit == pytest.approx(one.logit, rel=1e-4, abs=1e-5)
    assert folded.folded() is folded
    assert tsc.horizon(folded, limit=30, prove=False).verified_length >= 0


def test_adaptive_temperature_helps_between_two_lengths_only() -> None:
    """Uniform attention over n tokens has entropy log n: from 3 to 381 the factor is > 1.

    So for long strings it is plain softmax, whose horizon is finite.
    """
    scores = torch.zeros(1, 1, 1, 2, dtype=torch.float64)
    for n, above in ((1, False), (2, False), (3, True), (100, True), (381, True), (382, False)):
        multiplicity = torch.tensor([[[[float(n), 0.0]]]], dtype=torch.float64)
        factor = float(inverse_temperature(scores, multiplicity.log()))
        assert (factor > 1) == above, (n, factor)
    multiplicity = torch.tensor([[[[10.0, 20.0]]]], dtype=torch.float64)
    entropy = np.log(30)
    expected = np.polyval([-0.037, 0.481, -2.3, 4.917, -1.791], entropy)
    assert float(inverse_temperature(scores, multiplicity.log())) == pytest.approx(expected)
