"""Certificates of order-sensitive models: kept in verdicts and files, cut where not shown.

That they prove what every input says is tested in test_trellis_agreement.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tsc_interp as tsc
from tests.verification.ordered_models import copying, ordered_checkpoint, with_task
from tests.verification.test_trellis_search import adder
from tsc_interp.tasks import Maximum, SumSign
from tsc_interp.trusted.language import packed, unpacked
from tsc_interp.trusted.order import PathRegions
from tsc_interp.trusted.replay import Replay, replay, sealed
from tsc_interp.trusted.spec import read_model
from tsc_interp.verification import CertificateError, read_certificate
from tsc_interp.verification.order import partition
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


def test_what_is_not_shown_is_cut_or_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that show nothing leave small regions to be evaluated input by input."""
    config = tsc.ClassifierConfig(
        n_letters=3, n_outputs=3, task=SumSign(values=[1, -1, 0]), reads="last_letter",
        attend_cls=True, n_positions=5,
    )  # fmt: skip
    checkpoint = ordered_checkpoint(config, 4)
    verdict = tsc.verify(checkpoint, lengths=[5])
    spent = certify_order(checkpoint, seconds=1e-9, parts=verdict.parts)
    assert spent.checked.parts[0].undecided == 3**5
    highest = PathRegions.highest
    nothing = lambda *args: highest(*args) + 1e9  # noqa: E731
    monkeypatch.setattr(PathRegions, "highest", nothing)
    certificate = certify_order(checkpoint, [5])
    kinds = {node[0] for part in certificate.document["parts"] for node in part["tree"]}
    assert kinds == {"cut", "each"}
    assert certificate.checked.parts[0].wrong == verdict.wrong


def test_a_leaf_that_is_closed_is_a_leaf_that_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every region of the search stands in the document, and the trusted base accepts them all."""
    monkeypatch.setattr(partition, "FEW", 1)
    checkpoint = with_task(copying(4, n_positions=4), Maximum())
    verdict = tsc.verify(checkpoint, lengths=[4])
    certificate = certify_order(checkpoint, parts=verdict.parts)
    leaves = [node for part in certificate.document["parts"] for node in part["tree"]
              if node[0] != "cut"]  # fmt: skip
    closed = sum(isinstance(node, int) for part in verdict.parts for group in part.groups
                 for node in group.nodes)  # fmt: skip
    assert len(leaves) == closed > 4
    assert {node[0] for node in leaves} == {"is", "each"}
    (proved,) = tsc.check(certificate.document, checkpoint).parts
    assert (proved.wrong, proved.undecided) == (verdict.wrong, 0)


@pytest.mark.parametrize("kind", ["ordered-certificate/1", "trellis-certificate/1"])
def test_an_old_certificate_is_refused_with_the_command_for_a_new_one(kind: str) -> None:
    with pytest.raises(CertificateError, match=r"last read by .*verify MODEL --certify"):
        tsc.check({"schema": f"tsc-interp/{kind}"}, adder(1))


def test_a_proof_about_another_task_is_not_about_the_models_own() -> None:
    """True of the tables that it has; that they are the model's task is not."""
    checkpoint = with_task(copying(4, n_positions=4), Maximum())
    document = tsc.certify(checkpoint, lengths=[3]).document
    reader = read_model(checkpoint.to_bytes())
    table = document["language"]["tables"][0]
    labels = unpacked(table["labels"], 1, 1000)
    for changed in (labels[:, ::-1] * 0, (labels + 1) % 4):
        language = {"tables": [{**table, "labels": packed(changed)}]}
        said = Replay([reader], language, None).run([])
        forged = sealed([reader], language, None, [], said)
        assert replay(forged, [reader]) == said
        with pytest.raises(CertificateError, match="is not the one that the model's task"):
            tsc.check(forged, checkpoint)
    other = {"tables": [{**table, "name": {"step": 3}}]}
    said = Replay([reader], other, None).run([])
    with pytest.raises(CertificateError, match="has no step 3"):
        tsc.check(sealed([reader], other, None, [], said), checkpoint)


def test_a_proof_of_a_frame_names_letters_at_places() -> None:
    frame = "[2] x{1..2} [3]; x=0..1"
    config = tsc.ClassifierConfig(
        n_letters=4, task={"kind": "framed", "frame": frame, "task": "parity"}, n_positions=5,
        reads="last_letter", attend_cls=True,
    )  # fmt: skip
    checkpoint = ordered_checkpoint(config, 3)
    certificate = tsc.certify(checkpoint)
    parts = [(part.number, part.inputs) for part in certificate.checked.parts]
    assert parts == [(1, 2), (2, 4)]
    assert tsc.check(certificate, checkpoint) == certificate.checked
