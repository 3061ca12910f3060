"""What is shown and guessed of models of counts, of every kind and any size, against mpmath."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import FAMILY, configs
from tests.verification import precise
from tests.verification.models import (
    WIDER,
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
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.labels import all_supports

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


def boxes(rng: np.random.Generator, letters: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Points, narrow and wide boxes, near one and out to a thousand million."""
    low = np.floor(10 ** (rng.uniform(0, 9, (number, letters)) * rng.random((number, 1))))
    width = rng.choice([0.0, 0.0, 0.3, 2.0], (number, letters))
    high = np.floor(low * 10 ** (width * rng.random(low.shape)))
    return low.astype(np.int64), high.astype(np.int64)


def full(model: CountModel, letters: tuple[int, ...], counts: list[int]) -> list[int]:
    found = [0] * model.config.n_letters
    for letter, count in zip(letters, counts, strict=True):
        found[letter] = count
    return found


def check_boxes(model: CountModel, letters: tuple[int, ...], rng: np.random.Generator) -> None:
    """What is shown of a box holds of the vectors in it."""
    low, high = boxes(rng, len(letters), 8)
    winner = model.guess.answers(letters, low)
    shown = model.shown(letters, low, high, winner, model.others(winner))
    inside = np.floor(low + rng.random(low.shape) * (high - low + 1)).clip(low, high)
    for points in (low, high, inside.astype(np.int64)):
        for i in np.flatnonzero(shown).tolist():
            sign = precise.sign(model.checkpoint, full(model, letters, points[i].tolist()))
            assert sign is None or (sign > 0) == winner[i]


@pytest.mark.parametrize("name", MODELS)
def test_boxes_and_answers_of_awkward_models(name: str) -> None:
    """Answers are decided, however little float64 knows of them."""
    model, rng = CountModel(MODELS[name]), np.random.default_rng(3)
    for letters in all_supports(model.config):
        check_boxes(model, letters, rng)
        vectors = rng.integers(1, 9, (4, len(letters)))
        for row, answer in zip(vectors.tolist(), model.answers(letters, vectors), strict=True):
            sign = precise.sign(model.checkpoint, full(model, letters, row))
            if sign is not None:
                assert answer == int(sign > 0), row
            else:
                assert name == "cancelling to zero"


@settings(max_examples=30)
@given(configs(), st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 3.0, 30.0, 1e4, 1e12, 1e30]))
def test_boxes_of_any_model(config: ClassifierConfig, seed: int, scale: float) -> None:
    model, rng = CountModel(random_checkpoint(config, seed, scale)), np.random.default_rng(seed)
    every = all_supports(config)
    check_boxes(model, every[rng.integers(len(every))], rng)


GUESSED = [*WIDER, *(c for c in FAMILY if not c.needs_order and not c.beyond_counts), DEEP, NORMED]


@pytest.mark.parametrize("config", GUESSED, ids=range(len(GUESSED)))
def test_guesses_are_near(config: ClassifierConfig) -> None:
    """Outputs are those of mpmath, and a table's gaps over a box are below those inside."""
    model, rng = CountModel(random_checkpoint(config, 4, 1.0)), np.random.default_rng(0)
    for letters in all_supports(config)[-3:]:
        low = rng.integers(1, 9, (2, len(letters)))
        high = low + rng.integers(0, 20, low.shape)
        points = np.concatenate([low, high, rng.integers(low, high + 1)])
        outputs = model.guess.outputs(letters, points)
        for row, own in zip(points.tolist(), outputs, strict=True):
            truth = precise.outputs(model.checkpoint, full(model, letters, row), 40)
            expected = [*[0.0] * (model.n_classes - len(truth)), *map(float, truth)]
            np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-9)
        for label in range(model.n_classes):
            winner = np.full(2, label)
            gaps = model.guess.gaps(letters, low.astype(float), high.astype(float), winner)
            own = (outputs[:, [label]] - outputs).reshape(3, 2, -1)
            assert (gaps <= own[:2].min(0) + 1e-9).all()
            if model.guess.has_table:
                assert (gaps <= own.min(0) + 1e-9).all()
                point = model.guess.gaps(letters, low.astype(float), low.astype(float), winner)
                np.testing.assert_allclose(point, own[0], rtol=1e-9, atol=1e-9)
