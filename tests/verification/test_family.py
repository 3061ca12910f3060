"""What TransformerLens's models have and the report's do not: each bound against 120 digits.

Forward passes are held against a plain oracle in test_forward.py, searches and certificates against
brute force in test_horizon.py, test_verification_counting.py and test_forged_certificates.py.
"""

from __future__ import annotations

import json

import pytest

import tsc_interp as tsc
from tests.cases import CONFIGS, FAMILY
from tests.sizes import many
from tests.verification import precise
from tests.verification.models import WIDER, random_checkpoint, small_vectors
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import ConfigError, UnsupportedError
from tsc_interp.verification import CertificateError, check

CERTIFIED = [config for config in WIDER if config.beyond_report]


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
    if config.needs_order:
        assert tsc.verify(checkpoint, lengths=[2]).undecided == 0
    if config.needs_order and config.n_layers == 1:
        assert tsc.certify(checkpoint, lengths=[2]).proved
    else:
        with pytest.raises(UnsupportedError, match=r"layer|positions|order|outputs"):
            tsc.certify(checkpoint, lengths=[2] if config.needs_order else None)
