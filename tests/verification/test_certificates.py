"""Certificates: what `certify` proves of a model of counts; tests/trusted has the forgeries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.verification.models import planted, random_checkpoint, unfailing
from tsc_interp import certify
from tsc_interp.checkpoints import bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.tasks.counts import Majority
from tsc_interp.trusted.trees import Box
from tsc_interp.verification import CertificateError, check, read_certificate
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.documents import LAST_READERS, rule_of
from tsc_interp.verification.prover import Prover


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models_are_decided_completely(name: str) -> None:
    """Every negative set of letters is proved or refuted, and the horizon is proved."""
    checkpoint = load_checkpoint(name)
    certificate = certify(checkpoint)
    assert certificate.horizon.proved
    assert certificate.document["conclusion"]["horizon"] == certificate.horizon.length
    assert certificate.finite
    assert [support.letters for support in certificate.negative_supports] == [
        "a",
        "b",
        "c",
        "ac",
        "bc",
    ]
    for support in certificate.negative_supports:
        assert support.holds_for_all_lengths is not None
        assert (support.witness is None) == support.holds_for_all_lengths
    again = json.loads(json.dumps(certificate.document))
    assert check(again, checkpoint) == certificate.checked


# -- every length --------------------------------------------------------------------------------


def test_scores_scaled_by_log_n_can_be_right_for_ever() -> None:
    checkpoint = unfailing()
    certificate = certify(checkpoint, limit=1000)
    assert certificate.horizon.infinite
    assert certificate.horizon.proved
    assert not certificate.finite
    assert certificate.proved[-1].startswith("the horizon is infinite")
    assert all(support.holds_for_all_lengths for support in certificate.negative_supports)


def test_plain_softmax_fails_somewhere_even_if_out_of_reach() -> None:
    """The error lies far beyond the limit: the limit argument still proves that there is one."""
    certificate = certify(planted(10**8), limit=1000)
    assert certificate.horizon.length is None
    assert not certificate.horizon.proved
    assert certificate.finite
    assert sum("limit" in part for part in certificate.document["parts"]) == 1


def test_other_tasks_certify_what_they_can() -> None:
    """Where a set of letters has no single label, its errors are still exhibited."""
    checkpoint = random_checkpoint(ClassifierConfig(task=Majority(letter="b")), 2)
    certificate = certify(checkpoint, limit=60)
    assert check(certificate.document, checkpoint)


def test_boxes_that_are_not_shown_are_cut() -> None:
    checkpoint = load_checkpoint("generalization-errors")
    prover = Prover([CountModel(checkpoint)], {"counts": rule_of(checkpoint.config)}, None, 60.0)
    assert prover.up_to((0, 1, 2), 67, lambda _: 1)
    assert len(prover.parts[0]["tree"]) > 1
    # ab{66}c is wrong: no cutting proves one letter more. Nor is any other answer true.
    assert not prover.up_to((0, 1, 2), 68, lambda _: 1)
    assert not prover.up_to((0, 1, 2), 5, lambda _: 0)
    assert prover.rule is not None
    assert prover.rule.of_box((0, 1, 2), Box((1, 1, 1), (1, 1, 1)).low, (1, 1, 1)) == 1
    assert len(prover.parts) == 1


def test_deeper_models_are_certified_too() -> None:
    for config in (ClassifierConfig(n_layers=2), ClassifierConfig(norm="rms", attend_cls=True)):
        checkpoint = random_checkpoint(config, 1, scale=1.0)
        certificate = certify(checkpoint, limit=1000)
        assert certificate.horizon.proved
        assert certificate.document["conclusion"]["horizon"] == certificate.horizon.length
        assert check(certificate.document, checkpoint)


def test_files(tmp_path: Path) -> None:
    checkpoint = planted(4, c_score=-1.0)
    path = tmp_path / "certificate.json"
    certificate = certify(checkpoint)
    certificate.save(path)
    assert check(read_certificate(path), checkpoint) == certificate.checked
    path.write_text("{")
    with pytest.raises(CertificateError, match="not JSON"):
        read_certificate(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_certificate(tmp_path / "missing.json")


@pytest.mark.parametrize("kind", LAST_READERS)
def test_older_documents_are_refused_with_the_commit_that_reads_them(kind: str) -> None:
    document = {"schema": f"tsc-interp/{kind}", "claims": []}
    with pytest.raises(CertificateError, match=rf"at commit {LAST_READERS[kind]}; make the proof"):
        check(document, "walkthrough")
