"""What the search computes in float64, on models of every kind and any size, against `arb`.

Logits with their error bounds, bounds over boxes of counts, over charts of ratios and over tails:
each is compared with the real logit as a ball of at least 1024 bits at points of the box.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import configs
from tests.verification.models import (
    hand_built,
    planted,
    random_checkpoint,
    rescaled,
    shifted,
    unfailing,
    with_cancelling_heads,
)
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.bounds.intervals import Array
from tsc_interp.verification.bounds.labels import all_supports
from tsc_interp.verification.bounds.supports import Supports, count_box_bounds
from tsc_interp.verification.search.search import RIGHT, WRONG, TaskJudge

LOG_N = {"score_scale": "sqrt_d_head_log_n"}


def edited(config: ClassifierConfig, seed: int, **factors: float) -> Checkpoint:
    """A random model, some of its weights multiplied: W_E=1e30 makes the embeddings huge."""
    weights = {
        name: (weight.astype(float) * factors.get(name.split(".")[-1], 1.0)).astype(np.float32)
        for name, weight in random_checkpoint(config, seed).weights.items()
    }
    return Checkpoint(config, weights)


def flat_embeddings(norm: str) -> Checkpoint:
    """Rows of zeros and of equal entries, whose norms divide by sqrt(eps) alone."""
    config = ClassifierConfig(d_model=4, norm=norm, norm_eps=1e-12, attend_cls=True)
    weights = dict(random_checkpoint(config, 5).weights)
    weights["embed.W_E"] = weights["embed.W_E"].copy()
    weights["embed.W_E"][2] = 0.0
    weights["embed.W_E"][3] = 3.0
    return Checkpoint(config, weights)


DEEP = ClassifierConfig(n_layers=3, d_model=4, n_heads=2, d_head=3, norm="rms", attend_cls=True)
NORMED = ClassifierConfig(d_model=5, norm="layer", d_mlp=0, n_heads=3)
MODELS: dict[str, Checkpoint] = {
    "huge": edited(ClassifierConfig(), 1, W_E=1e37, W_V=1e37, W_O=1e37, W_U=1e37, W_in=1e37),
    "huge scores": edited(ClassifierConfig(), 2, W_Q=1e37, W_K=1e37, W_E=1e30),
    "large scores, log n": edited(ClassifierConfig(**LOG_N), 3, W_Q=30, W_K=30),
    "tiny": edited(ClassifierConfig(), 4, W_E=1e-30, W_V=1e-30, W_O=1e-30, W_U=1e-30),
    "denormal": edited(ClassifierConfig(attend_cls=True), 4, W_E=1e-40, W_O=1e-40, W_U=1e30),
    "tiny inside, huge outside": edited(ClassifierConfig(), 5, W_in=1e-30, W_out=1e37),
    "far negative GELUs": edited(ClassifierConfig(d_mlp=6), 6, W_in=40, W_out=1e35),
    "gap of hundreds": edited(ClassifierConfig(), 7, W_Q=20, W_K=30),
    "shifted": shifted(planted(5, -1.0, **LOG_N), 2.0**60),
    "shifted, two heads": shifted(unfailing(), 2.0**60),
    "far shifted": shifted(planted(5, -1.0), 2.0**127),
    "cancelling": with_cancelling_heads(planted(5, -1.0), 2.0**80),
    "cancelling to zero": hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0),
    "rescaled": rescaled(load_checkpoint("walkthrough"), 90),
    "normed scores": edited(NORMED, 8, W_E=1e30, w=100),
    "normed, cancelling": with_cancelling_heads(edited(NORMED, 9), 1e30),
    "normed, tiny": edited(NORMED, 10, W_E=1e-30, w=1e-20),
    "deep": edited(DEEP, 11),
    "deep, huge embeddings": edited(DEEP, 12, W_E=1e37),
    "deep, tiny embeddings": edited(DEEP, 13, W_E=1e-37),
    "deep, huge weights": edited(DEEP, 14, W_Q=1e19, W_V=1e37, W_O=1e37, W_out=1e37),
    "deep, log n": edited(DEEP.replace(**LOG_N), 15, W_Q=10),
    "deep, overflowing": edited(ClassifierConfig(n_layers=4), 0, W_E=1e37, W_V=1e37, W_O=1e37),
    "flat rms": flat_embeddings("rms"),
    "flat layer": flat_embeddings("layer"),
}


def real_logit(supports: Supports, letters: tuple[int, ...], counts: list[int]) -> Any:
    """A ball of at least 1024 bits that is sharp, unless the logit cancels to zero."""
    full = [0] * supports.config.n_letters
    for letter, count in zip(letters, counts, strict=True):
        full[letter] = int(count)
    for bits in (1024, 4096):
        with ctx.workprec(bits):
            ball = supports.exact.logit(full)
        if ball.rel_accuracy_bits() > 100:
            break
    assert ball.is_finite()
    return ball


def assert_between(least: float, ball: Any, most: float) -> None:
    assert not ball < arb(least)
    assert not ball > arb(most)
    assert not np.isnan([least, most]).any()


def boxes(rng: np.random.Generator, letters: int, number: int) -> tuple[Array, Array]:
    """Points, narrow and wide boxes, near one and out to a thousand million."""
    low = np.floor(10 ** (rng.uniform(0, 9, (number, letters)) * rng.random((number, 1))))
    width = rng.choice([0.0, 0.0, 0.3, 2.0], (number, letters))
    return low, np.floor(low * 10 ** (width * rng.random(low.shape)))


def check_support(supports: Supports, letters: tuple[int, ...], rng: np.random.Generator) -> None:
    support = supports[letters]
    low, high = boxes(rng, len(letters), 8)
    least, most = count_box_bounds(support, low, high)
    inside = np.floor(low + rng.random(low.shape) * (high - low + 1)).clip(low, high)
    for points in (low, high, inside):
        logits, error = support.logits(points)
        errors = np.broadcast_to(error, logits.shape)
        for i, counts in enumerate(points.astype(int).tolist()):
            ball = real_logit(supports, letters, counts)
            assert_between(least[i], ball, most[i])
            if np.isfinite(logits[i]) and np.isfinite(errors[i]):
                # An error below zero marks a logit that is zero by its weights, exactly.
                assert not abs(ball - arb(logits[i])) > arb(max(errors[i], 0.0))
            else:
                # Undecided here, so that it is decided exactly.
                assert not np.abs(logits[i]) > errors[i]


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_boxes_of_awkward_models(name: str) -> None:
    supports = Supports(MODELS[name])
    rng = np.random.default_rng(0)
    for letters in all_supports(supports.config):
        check_support(supports, letters, rng)


@settings(max_examples=30)
@given(configs(), st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 3.0, 30.0, 1e4, 1e12, 1e30]))
def test_logits_and_boxes_of_any_model(config: ClassifierConfig, seed: int, scale: float) -> None:
    supports = Supports(random_checkpoint(config, seed, scale))
    rng = np.random.default_rng(seed)
    every = all_supports(config)
    check_support(supports, every[rng.integers(len(every))], rng)


@pytest.mark.parametrize("name", MODELS)
def test_verdicts_of_awkward_models(name: str) -> None:
    """What is called right or wrong is, however little float64 knows of it."""
    supports = Supports(MODELS[name])
    config = supports.config
    rng = np.random.default_rng(3)
    for letters in all_supports(config):
        vectors = rng.integers(1, 9, (4, len(letters)))
        for counts, verdict in zip(
            vectors.tolist(), TaskJudge(supports).corners(letters, vectors).tolist(), strict=True
        ):
            full = [dict(zip(letters, counts, strict=True)).get(i, 0) for i in range(3)]
            positive = bool(real_logit(supports, letters, counts) > 0)
            if name != "cancelling to zero":
                right = positive == bool(config.task.labels(np.array(full)))
                assert verdict == (RIGHT if right else WRONG), counts


def test_float64_still_decides_what_it_can() -> None:
    """The bounds are no wider than rounding asks for."""
    for name in ("walkthrough", "many-heads"):
        support = Supports(load_checkpoint(name))[(0, 1, 2)]
        assert support.logits(np.array([[3.0, 5.0, 7.0]]))[1] < 1e-11
    support = Supports(unfailing())[(0, 1, 2)]
    assert support.logits(np.array([[3.0, 5.0, 7.0]]))[1] < 1e-10
