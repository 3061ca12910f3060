"""Certificates of order-sensitive models: kept in verdicts and files, cut where not shown.

That they prove what every input says is tested in test_trellis_agreement.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.verification.ordered_models import copying, ordered_checkpoint, with_task
from tests.verification.test_trellis_search import adder
from tsc_interp.tasks import Maximum, SumSign
from tsc_interp.verification import CertificateError, read_certificate
from tsc_interp.verification.checker.trellis_model import TrellisModel
from tsc_interp.verification.order import certificates, partition
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


def test_a_leaf_is_derived_once_when_it_is_written_and_again_when_it_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    derived: list[bytes] = []
    holds = TrellisModel.hold

    def hold(model: Any, sets: Any, by: Any, float32: Any) -> Any:
        rows = np.concatenate([*sets.masks, by[:, None], float32[:, None]], axis=1)
        derived.extend(row.tobytes() for row in rows)
        return holds(model, sets, by, float32)

    monkeypatch.setattr(TrellisModel, "hold", hold)
    monkeypatch.setattr(partition, "FEW", 1)
    checkpoint = copying(4, n_positions=4)
    checkpoint = with_task(checkpoint, Maximum())
    document = certify_order(checkpoint, [4]).document
    leaves = [node for part in document["parts"] for group in part["groups"]
              for node in group["tree"] if node[0] in ("right", "wrong")]  # fmt: skip
    assert len(derived) == len(set(derived)) >= len(leaves) > 4
    derived.clear()
    tsc.check(document, checkpoint)
    assert len(derived) >= len(leaves)


def test_an_old_certificate_is_refused_with_the_command_for_a_new_one() -> None:
    document: dict[str, Any] = {"schema": "tsc-interp/ordered-certificate/1"}
    with pytest.raises(CertificateError, match="verify MODEL --certify"):
        tsc.check(document, adder(1))
