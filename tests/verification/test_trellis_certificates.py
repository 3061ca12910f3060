"""Certificates of order-sensitive models: kept in verdicts and files, cut where not shown.

That they prove what every input says is tested in test_trellis_agreement.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.ordered_models import ordered_checkpoint
from tests.verification.test_trellis_search import adder
from tsc_interp.tasks import SumSign
from tsc_interp.verification import CertificateError, read_certificate
from tsc_interp.verification.order import certificates
from tsc_interp.verification.order.certificates import certify_order


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
