"""What TransformerLens's models have and the report's do not: each bound against 120 digits.

Forward passes are held against a plain oracle in test_forward.py, searches and certificates against
brute force in test_horizon.py, test_verification_counting.py and test_forged_certificates.py.
"""

from __future__ import annotations

import json
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from flint import ctx

import tsc_interp as tsc
from tests.cases import CONFIGS, FAMILY
from tests.sizes import many
from tests.verification import precise
from tests.verification.models import COUNTED, WIDER, random_checkpoint, small_vectors
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import ConfigError, UnsupportedError
from tsc_interp.verification import CertificateError, check
from tsc_interp.verification.bounds.activations import ACTIVATIONS
from tsc_interp.verification.bounds.exact import ExactModel
from tsc_interp.verification.bounds.labels import all_supports
from tsc_interp.verification.bounds.supports import Supports, count_box_bounds

CERTIFIED = [config for config in WIDER if config.beyond_report]


@pytest.mark.parametrize("name", ["gelu_new", "relu", "silu"])
def test_float64_activations_enclose(name: str) -> None:
    rng = np.random.default_rng(3)
    ends = rng.choice([-800, -60, -22, -5, -1.28, -0.7525, -0.7, 0, 1, 40, 800], (2, 400))
    ends = ends + rng.normal(size=(2, 400)) * rng.choice([0, 1e-12, 1e-2, 3], (2, 400))
    low, high = ends.min(0), ends.max(0)
    with np.errstate(all="ignore"):
        least, most = ACTIVATIONS[name].bounds(low, high)
    inside = [low + (high - low) * share for share in rng.random((6, 400))]
    dip = np.clip(ACTIVATIONS[name].argmin, low, high)
    with mpmath.workdps(60):
        for points in (low, high, dip, *inside):
            for x, a, b in zip(np.clip(points, low, high), least, most, strict=True):
                assert a <= precise.ACTIVATIONS[name](mpmath.mpf(float(x))) <= b, x
    widths = most - least
    assert (widths[high == low] < 1e-12 * (1 + np.abs(high[high == low]))).all()


@pytest.mark.parametrize("name", ["gelu_new", "silu", "gelu"])
def test_activations_have_one_dip(name: str) -> None:
    """Falling left of it and rising right of it: what every bound on them rests on."""
    value, dip = precise.ACTIVATIONS[name], ACTIVATIONS[name].argmin
    with mpmath.workdps(60):
        left = [value(dip - mpmath.mpf(k) / 50) for k in range(500)]
        right = [value(dip + mpmath.mpf(k) / 50) for k in range(500)]
        assert all(a < b for a, b in pairwise(left))
        assert all(a < b for a, b in pairwise(right))
        assert value(mpmath.mpf(dip)) >= ACTIVATIONS[name].minimum
        assert value(mpmath.mpf(dip)) - ACTIVATIONS[name].minimum < 1e-15
        assert abs(value(mpmath.mpf(ACTIVATIONS[name].gone))) < 1e-300


@pytest.mark.parametrize("config", COUNTED, ids=lambda config: config.key()[:6])
@pytest.mark.parametrize("seed", range(many(3, 6)))
def test_every_bound_encloses_the_real_logit(config: ClassifierConfig, seed: int) -> None:
    """The exact model and the search's bounds, at points and over boxes."""
    checkpoint = random_checkpoint(config, seed)
    exact, supports = ExactModel(checkpoint), Supports(checkpoint)
    rng = np.random.default_rng(seed)
    for support in all_supports(config)[-3:]:
        low = rng.integers(1, 9, (2, len(support)))
        high = low + rng.integers(0, 5, low.shape)
        points = np.concatenate([low, high, rng.integers(low, high + 1)])
        full = np.zeros((len(points), config.n_letters), dtype=np.int64)
        full[:, list(support)] = points
        truths = [precise.logit(checkpoint, row, 60) for row in full.tolist()]
        logits, error = supports[support].logits(points.astype(float))
        least, most = count_box_bounds(supports[support], low.astype(float), high.astype(float))
        for i, (row, truth) in enumerate(zip(full.tolist(), truths, strict=True)):
            with ctx.workprec(200), mpmath.workdps(50):
                assert abs(mpmath.mpf(exact.logit(row).str(50, radius=False)) - truth) < 1e-30
            allowed = np.broadcast_to(error, logits.shape)[i]
            assert abs(float(logits[i]) - truth) <= allowed < 1e-4
            box = i % 2
            assert least[box] <= truth <= most[box]


@pytest.mark.parametrize("config", CERTIFIED, ids=lambda config: config.key()[:6])
@pytest.mark.parametrize("seed", range(many(1, 4)))
def test_certificates_hold_for_the_family(config: ClassifierConfig, seed: int) -> None:
    """What is certified agrees with brute force, and another model's certificate is refused."""
    checkpoint = random_checkpoint(config, seed)
    found = tsc.certify(checkpoint, limit=7)
    vectors = small_vectors(config.n_letters, 7)
    labels = config.task.labels(vectors)
    signs = [precise.sign(checkpoint, row) for row in vectors.tolist()]
    wrong = [
        sum(row)
        for row, label, sign in zip(vectors.tolist(), labels, signs, strict=True)
        if sign is not None and (sign > 0) != label
    ]
    first = min(wrong, default=8)
    assert found.horizon.verified_length >= min(first - 1, 7) or not found.horizon.proved
    if found.horizon.length is not None and found.horizon.length < 7:
        assert found.horizon.length == first - 1
    other = random_checkpoint(config, seed + 1)
    with pytest.raises(CertificateError, match="other models"):
        check(found.document, other)


def test_a_report_model_keeps_its_json() -> None:
    """No option that it does not use, so its key and its weight hash are what they were."""
    assert ClassifierConfig().key() == "66f2967afbea7de5"
    for config in CONFIGS:
        assert "biases" not in json.loads(config.to_json())
        assert "norm" in json.loads(config.to_json())
    for config in FAMILY:
        assert ClassifierConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"final_norm": True}, "needs a kind of norm"),
        ({"positions": "sinusoidal"}, "needs n_positions"),
        ({"reads": "last"}, "attend_cls must be true"),
        ({"reads": "last_letter"}, "attend_cls must be true"),
        ({"token_names": ("x", "y")}, "3 different names"),
        ({"token_names": ("x", "y", "x")}, "3 different names"),
        ({"n_outputs": 0}, "expected at least 1"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ClassifierConfig(**options)


@pytest.mark.parametrize(
    "config", [c for c in FAMILY if c.needs_order or c.n_outputs > 1], ids=lambda c: c.key()[:6]
)
def test_what_counts_do_not_decide_is_decided_in_order_or_refused(config: ClassifierConfig) -> None:
    checkpoint = random_checkpoint(config, 0)
    with pytest.raises(UnsupportedError, match=r"positions|order|outputs"):
        tsc.horizon(checkpoint)
    if config.needs_order and config.n_layers == 1:
        assert tsc.verify(checkpoint, lengths=[2]).undecided == 0
        assert tsc.certify(checkpoint, lengths=[2]).proved
    else:
        for ask in (tsc.verify, tsc.certify):
            with pytest.raises(UnsupportedError, match=r"layers|positions|order|outputs"):
                ask(checkpoint)
