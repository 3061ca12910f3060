"""Certificates of order-sensitive models: what the checker derives is what every input says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.ordered_models import longest, ordered_checkpoint, random_config, with_task
from tests.verification.test_trellis_search import adder, oracle, random_automaton
from tsc_interp.tasks import SumSign
from tsc_interp.verification import CertificateError, read_certificate
from tsc_interp.verification.order import certificates, partition
from tsc_interp.verification.order.certificates import certify_order


@pytest.mark.parametrize("seed", [3, 8, 12, 21, 26])
def test_a_certificate_proves_the_counts_of_every_string(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "FEW", 4)
    config = random_config(seed)
    assert config.needs_order
    task = random_automaton(config.n_letters, max(config.n_outputs, 2), seed)
    checkpoint = with_task(ordered_checkpoint(config, seed), task)
    length = longest(config, 64)
    wrong = oracle(checkpoint, task, length)
    certificate = tsc.certify(checkpoint, lengths=[length])
    document = json.loads(json.dumps(certificate.document))
    (part,) = tsc.check(document, checkpoint).parts
    assert (part.wrong, part.undecided) == (len(wrong), 0)
    assert part.first_wrong == (wrong[0] if wrong else None)
    assert len(certificate.proved) == 1


def test_steps_are_certified_and_the_verdict_carries_the_certificate(tmp_path: Path) -> None:
    checkpoint = adder(1)
    verdict = tsc.verify(checkpoint, certify=True)
    proved = tsc.check(verdict.certificate.document, checkpoint)
    assert [part.wrong for part in proved.parts] == [step.wrong for step in verdict.steps]
    path = tmp_path / "proof.json"
    verdict.certificate.save(path)
    assert tsc.check(read_certificate(path), checkpoint) == proved
    assert verdict.to_dict()["certified"] == list(verdict.certificate.proved)


def test_what_the_checker_does_not_show_is_cut_or_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A checker that agrees to nothing leaves small regions to be evaluated input by input."""
    config = tsc.ClassifierConfig(
        n_letters=3, n_outputs=3, task=SumSign(values=[1, -1, 0]), reads="last_letter",
        attend_cls=True, n_positions=5,
    )  # fmt: skip
    checkpoint = ordered_checkpoint(config, 4)
    shows_nothing = lambda _, __, masks, ___: np.zeros(len(masks[0]), dtype=bool)  # noqa: E731
    monkeypatch.setattr(certificates.TrellisChecker, "hold", shows_nothing)
    certificate = certify_order(checkpoint, [5])
    kinds = {node[0] for part in certificate.document["parts"] for group in part["groups"]
             for node in group["tree"]}  # fmt: skip
    assert kinds == {"cut", "each"}
    verdict = tsc.verify(checkpoint, lengths=[5])
    assert certificate.checked.parts[0].wrong == verdict.wrong
    spent = certify_order(checkpoint, seconds=1e-9, parts=verdict.parts)
    assert spent.checked.parts[0].undecided == 3**5


def test_an_old_certificate_is_refused_with_the_command_for_a_new_one() -> None:
    document: dict[str, Any] = {"schema": "tsc-interp/ordered-certificate/1"}
    with pytest.raises(CertificateError, match="verify MODEL --certify"):
        tsc.check(document, adder(1))
