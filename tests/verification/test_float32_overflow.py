"""Float32 programs compute the keys and values of masked tokens: an overflow there is felt.

A masked key's score gets -inf added and its value is multiplied by 0, so an infinite one makes the
logit NaN, though over the reals nothing depends on it. Torch, with PADs behind the shorter strings,
is the judge.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import ctx
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tsc_interp as tsc
from tests.verification.models import planted, random_checkpoint
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts, from_tokens
from tsc_interp.strings import CLS, PAD
from tsc_interp.verification.bounds.exact import ExactModel
from tsc_interp.verification.bounds.rounding import Rounding
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.model import BoxModel

STRINGS = ("a", "b", "c", "ab", "ac", "bc", "abc", "aab", "bcc")


def in_torch(checkpoint: Checkpoint, form: str) -> np.ndarray:
    """The float32 logits of `STRINGS`; as tokens all but the longest have PADs behind them."""
    config = checkpoint.config
    weights = {name: torch.from_numpy(w) for name, w in checkpoint.weights.items()}
    if form == "tokens":
        tokens = tsc.load(checkpoint).tokens(list(STRINGS))
        inputs = from_tokens(config, tokens)
    else:
        inputs = from_counts(
            config, torch.tensor(np.array([config.alphabet.counts(s) for s in STRINGS]))
        )
    with torch.no_grad():
        return forward(config, weights, inputs).numpy()


def overflowing(token: int, part: str) -> Checkpoint:
    """Right up to three letters over the reals; a masked token's key or value is 16e38."""
    base = planted(3)
    weights = {name: weight.copy() for name, weight in base.weights.items()}
    direction = 0 if token == CLS else 1
    weights["embed.W_E"][token, direction] = 4.0
    weights[f"blocks.0.attn.W_{part}"][:, direction] = 3e38
    if token == CLS:  # its other readers take the 4 back
        weights["blocks.0.attn.W_Q"][:, 0] /= 4
        weights["unembed.W_U"][0] /= 4
    return Checkpoint(base.config, weights)


@pytest.mark.parametrize("part", ["K", "V"])
@pytest.mark.parametrize("token", [CLS, PAD])
def test_a_masked_token_that_overflows_makes_the_logit_nan(token: int, part: str) -> None:
    checkpoint = overflowing(token, part)
    assert np.isnan(in_torch(checkpoint, "tokens")).any()
    assert tsc.horizon(checkpoint, limit=4).length == 3  # over the reals nothing has changed
    for form in ("tokens", "compressed"):
        assert Rounding(checkpoint).bound(2, form) == np.inf  # type: ignore[arg-type]
        assert not BoxModel(checkpoint).rounding.room(2, form).is_finite()
        assert not Checker(checkpoint).is_safe(form, 1, (0,), (1,), (1,))
    assert tsc.float32_horizon(checkpoint, limit=2).safe_through == 0
    assert not tsc.certify(checkpoint, limit=2, float32="tokens").checked.float32


@settings(max_examples=60, deadline=None)
@example(seed=2, token=CLS, parts="V", exponent=50.0, attend_cls=False, log_n=False)
@example(seed=1, token=PAD, parts="V", exponent=50.0, attend_cls=True, log_n=True)
@given(
    seed=st.integers(0, 10**6),
    token=st.integers(0, 4),
    parts=st.sampled_from(["K", "V", "Q", "KV"]),
    exponent=st.floats(-3.0, 60.0),
    attend_cls=st.booleans(),
    log_n=st.booleans(),
)
def test_torch_is_within_every_bound_that_is_given(
    seed: int, token: int, parts: str, exponent: float, attend_cls: bool, log_n: bool
) -> None:
    """Two dimensions: one token, and one projection, are huge in the second, to 1e60 together."""
    scale = "sqrt_d_head_log_n" if log_n else "sqrt_d_head"
    config = ClassifierConfig(attend_cls=attend_cls, score_scale=scale)
    weights = {n: w.copy() for n, w in random_checkpoint(config, seed, 1.0).weights.items()}
    huge = np.float32(10 ** (exponent / 2))
    weights["embed.W_E"][token, 1] = huge
    weights["blocks.0.attn.W_Q"][:, 1] = 0.0  # else every score overflows where CLS is huge
    for part in parts:
        weights[f"blocks.0.attn.W_{part}"][:, 1] = huge
    checkpoint = Checkpoint(config, weights)
    exact, ours = ExactModel(checkpoint), Rounding(checkpoint)
    theirs = BoxModel(checkpoint).rounding
    for form in ("tokens", "compressed"):
        bound, room = ours.bound(3, form), theirs.room(3, form)  # type: ignore[arg-type]
        assert np.isfinite(bound) == room.is_finite()
        if not np.isfinite(bound):
            continue
        for string, logit in zip(STRINGS, in_torch(checkpoint, form), strict=True):
            assert np.isfinite(logit), string
            with ctx.workprec(400):
                off = abs(
                    float(exact.logit(config.alphabet.counts(string).tolist()) - float(logit))
                )
            assert off <= min(bound, float(room)), string
