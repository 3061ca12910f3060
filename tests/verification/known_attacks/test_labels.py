"""Tasks whose code changed, or contradicts their trellis: no claim is about both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import tsc_interp as tsc
from tests.verification.known_attacks.models import last_is_b
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.errors import UsageError
from tsc_interp.probes.searched import searched
from tsc_interp.tasks import EndsWith, trellis_of
from tsc_interp.tasks.audit import inputs_of
from tsc_interp.tasks.machine import Machine
from tsc_interp.tasks.trellis import Trellis, make_stage
from tsc_interp.verification import CertificateError
from tsc_interp.verification.order.certificate_result import language_of
from tsc_interp.verification.order.certificates import certify_order


class BeginsWithA(tsc.tasks.OwnTask):
    """Its trellis is about the last letter."""

    kind: Literal["attack_begins"] = "attack_begins"
    ordered: ClassVar[bool] = True

    def labels(self, letters: Any) -> Any:
        return letters[:, 0] == 0

    def trellis(self, n_letters: int, length: int) -> Trellis:
        return trellis_of(EndsWith(suffix="b"), n_letters, length)


class LacksB(tsc.tasks.OwnTask):
    """Its machine steps by one letter of two."""

    kind: Literal["attack_lacks"] = "attack_lacks"
    ordered: ClassVar[bool] = True

    def labels(self, letters: Any) -> Any:
        return np.zeros(len(letters), dtype=bool)

    def trellis(self, n_letters: int, length: int) -> Trellis:
        machine = Machine(0, np.zeros((1, 1), dtype=np.int64), np.zeros(1, dtype=np.int64))
        return machine.unrolled(length)


class HasC(LacksB):
    """Its trellis is as large as it should be, with a letter that the alphabet lacks."""

    kind: Literal["attack_has_c"] = "attack_has_c"  # type: ignore[assignment]

    def trellis(self, n_letters: int, length: int) -> Trellis:
        edges, letters = np.zeros(2, dtype=np.int64), np.array([[0], [2]])
        stages = tuple(make_stage((place,), edges, edges, letters) for place in range(length))
        return Trellis(length, (), stages, 0, edges)


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (BeginsWithA(), "labels say 1 of aaa, and its trellis labels it 0"),
        (LacksB(), "its trellis has 1 inputs, and there are 8"),
        (HasC(), "places letter 2, and the alphabet has the letters 0 to 1"),
    ],
    ids=lambda given: getattr(given, "kind", ""),
)
def test_a_trellis_that_is_not_the_task_is_refused(task: Any, says: str) -> None:
    checkpoint = last_is_b(task=task)
    for claim in (tsc.verify, tsc.certify, certify_order):
        with pytest.raises(UsageError, match=says):
            claim(checkpoint, lengths=[3])
    with pytest.raises(UsageError, match=says):
        language_of(checkpoint.config, [{"length": 3}])


def test_a_rare_label_is_compared() -> None:
    """One string of a million, of which no random one tells anything."""

    class AllA(tsc.tasks.OwnTask):
        kind: Literal["attack_all_a"] = "attack_all_a"
        ordered: ClassVar[bool] = True

        def labels(self, letters: Any) -> Any:
            return np.zeros(len(letters), dtype=bool)

        def trellis(self, n_letters: int, length: int) -> Trellis:
            return trellis_of(tsc.tasks.Regex("a*"), n_letters, length)

    with pytest.raises(
        UsageError,
        match=r"labels say 0 of a*, and its trellis labels it 1",
    ):
        inputs_of(AllA(), 2, 20)


def own(rule: Callable[[Any], Any]) -> Checkpoint:
    class Own(tsc.tasks.OwnTask):
        kind: Literal["attack_own"] = "attack_own"
        ordered: ClassVar[bool] = True

        def labels(self, letters: Any) -> Any:
            return rule(letters)

    return last_is_b(task=Own())


def last(letters: Any) -> Any:
    return letters[np.arange(len(letters)), (letters >= 0).sum(1) - 1]


def test_a_resumed_search_is_not_that_of_other_labels(tmp_path: Path) -> None:
    wrong = [
        tsc.verify(own(rule), lengths=[4], resume=tmp_path).wrong
        for rule in (lambda x: last(x) == 1, lambda x: last(x) == 0, lambda x: x[:, 0] == 1)
    ]
    assert wrong == [0, 16, 8]


def test_a_certificate_is_about_the_labels_it_was_made_for() -> None:
    """Two tasks that the model gets wrong on two strings each, the first of them the same."""

    def but(strings: list[list[int]]) -> Checkpoint:
        return own(lambda x: (last(x) == 1) ^ [row in strings for row in x.tolist()])

    first, other = but([[0, 0, 1], [1, 1, 0]]), but([[0, 0, 1], [1, 1, 1]])
    assert first.weight_hash() == other.weight_hash()
    proved = [tsc.certify(checkpoint, lengths=[3]) for checkpoint in (first, other)]
    assert proved[0].proved == proved[1].proved
    assert proved[0].document["language"] != proved[1].document["language"]
    document = proved[0].document
    assert tsc.check(document, first).parts[0].right == 6
    with pytest.raises(CertificateError):
        tsc.check(document, other)


@pytest.mark.parametrize("at", [None, 77])
def test_a_state_is_not_that_of_other_labels(tmp_path: Path, at: int | None) -> None:
    """Also where labels differ for one input that no sample sees."""
    flipped = False

    def label(rows: Any) -> Any:
        rows = np.asarray(rows)
        labels = ((rows == 2).any(1) & (rows == 3).any(1)).astype(int)
        if flipped:
            chosen = slice(None) if at is None else (rows == every[at]).all(1)
            labels[chosen] ^= 1
        return labels

    frame = tsc.Frame.parse("[CLS] x{8}; x=2..4; CLS=0; read=0")
    every = frame.rows(frame.listed(8, 0, frame.count()))
    options: Any = {"frame": frame, "exhaustive": True, "seconds": 20, "state": tmp_path / "state"}
    before = tsc.falsify("generalization-errors", label, **options).enumerated
    assert before.wrong == 0
    assert tsc.falsify("generalization-errors", label, **options).enumerated == before
    flipped = True
    with pytest.raises(UsageError, match=r"another model, frame or label|other labels"):
        tsc.falsify("generalization-errors", label, **options)


def of_counts(want: bool) -> Checkpoint:
    class Counted(tsc.tasks.OwnTask):
        kind: Literal["attack_counted"] = "attack_counted"

        def labels(self, counts: Any) -> Any:
            return (counts[..., 0] > 0) == want

    config = tsc.ClassifierConfig(
        n_letters=2, task=Counted(), n_heads=1, d_head=1, d_model=1, d_mlp=0
    )
    shapes = config.weight_shapes()
    weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    weights["embed.W_E"][:, 0] = [0, 0, 1, 0]
    return Checkpoint(config, weights)


def test_a_search_that_is_kept_is_not_that_of_other_labels() -> None:
    """A cell of a notebook that defines the same kind again."""
    firsts = [[search.counterexample for search in searched(of_counts(want)).searches]
              for want in (True, False)]  # fmt: skip
    assert firsts[0] == [None, None, None]
    assert None not in firsts[1]


def test_a_certificate_about_counts_is_about_the_labels_it_was_made_for() -> None:
    right, opposite = of_counts(True), of_counts(False)
    certificate = tsc.certify(right, limit=10)
    assert certificate.document["schema"] == "tsc-interp/proof/1"
    assert tsc.check(certificate.document, right).horizon is None
    with pytest.raises(CertificateError):
        tsc.check({**certificate.document}, opposite)


def test_a_proof_says_that_it_believes_label_of_support() -> None:
    """One that lies at 203 letters, where nobody looked."""

    class Lies(tsc.tasks.OwnTask):
        kind: Literal["attack_lies"] = "attack_lies"

        def labels(self, counts: Any) -> Any:
            a, b = counts[..., 0], counts[..., 1]
            return (a > 0) & (b > 0) & ~((a == 101) & (b == 102))

        def label_of_support(self, letters: frozenset[str]) -> Any:
            return letters >= {"a", "b"}

    config = tsc.ClassifierConfig(n_letters=2, task=Lies(), n_heads=2, d_head=1, d_model=2, d_mlp=0)
    shapes = config.weight_shapes()
    weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    weights["embed.W_E"][0], weights["unembed.W_U"][:, 0] = [1, 0], [1, 0]  # always yes
    proved = tsc.certify(Checkpoint(config, weights), limit=30).proved
    assert "every string over exactly ab, however long, is right" in proved
    assert proved[-1].startswith("this believes the task 'attack_lies' that all strings over the")
    shipped = Checkpoint(config.replace(task="contains_all"), weights)
    assert "believes" not in "".join(tsc.certify(shipped, limit=30).proved)
