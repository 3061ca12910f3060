"""Tasks of one's own: named by their kind, labelled string by string, verified like any other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import tsc_interp as tsc
from tests.verification import precise
from tests.verification.models import hand_built, random_checkpoint, small_vectors
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.errors import ConfigError
from tsc_interp.verification import check


class EvenLength(tsc.tasks.OwnTask):
    kind: Literal["test_even_length"] = "test_even_length"

    def labels(self, counts):
        return counts.sum(-1) % 2 == 0


class OnlyLetter(tsc.tasks.OwnTask):
    """Whether a string is made of one letter alone: decided by the set of letters."""

    kind: Literal["test_only_letter"] = "test_only_letter"
    letter: str = "a"

    @property
    def needs(self):
        return self.letter

    def labels(self, counts):
        return counts["abc".index(self.letter)] == counts.sum(-1) if counts.ndim == 1 else (
            counts[..., "abc".index(self.letter)] == counts.sum(-1)
        )  # fmt: skip

    def label_of_support(self, letters):
        return letters == {self.letter}


def test_a_configuration_names_it_by_its_kind() -> None:
    config = tsc.ClassifierConfig(task=OnlyLetter(letter="b"))
    assert json.loads(config.to_json())["task"] == {"kind": "test_only_letter", "letter": "b"}
    assert tsc.ClassifierConfig.from_json(config.to_json()) == config
    assert tsc.ClassifierConfig(task="test-even-length").task == EvenLength()


@pytest.mark.parametrize("task", [EvenLength(), OnlyLetter()], ids=lambda task: task.kind)
@pytest.mark.parametrize("seed", range(4))
def test_verified_like_any_other(task: tsc.tasks.OwnTask, seed: int, tmp_path: Path) -> None:
    """Counts and horizons against brute force; certificates are checked and survive a file."""
    checkpoint = random_checkpoint(tsc.ClassifierConfig(task=task), seed)
    vectors = small_vectors(3, 7)
    signs = [precise.sign(checkpoint, row) for row in vectors.tolist()]
    says = np.array([sign == 1 for sign in signs])
    wrong = vectors[says != task.labels(vectors)].sum(-1)
    tally = tsc.verify(checkpoint, 7).tally
    assert sum(sum(side.vectors) for side in tally.sides) == len(wrong)
    certificate = tsc.certify(checkpoint, limit=7)
    if len(wrong):
        assert certificate.horizon.length == wrong.min() - 1
        assert certificate.horizon.proved
    checkpoint.save(tmp_path / "own.safetensors")
    assert check(certificate.document, load_checkpoint(tmp_path / "own.safetensors"))


def test_a_support_rule_is_proved_at_every_length() -> None:
    """a alone is positive: one head that reads how much of the string is not a."""
    model = hand_built([[0.0, 5.0, 5.0]], [[1, -1, -1]], 0.95, task=OnlyLetter())
    found = tsc.horizon(model, limit=100)
    assert found.verified_length >= 50


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no task of kind 'nobody'; .*contains_all.*entry point"):
        tsc.ClassifierConfig(task={"kind": "nobody"})
    with pytest.raises(ConfigError, match=r"'test_only_leter': did you mean 'test_only_letter'\?"):
        tsc.ClassifierConfig(task={"kind": "test_only_leter"})
    with pytest.raises(ConfigError, match=r"tsc\.tasks\.OwnTask"):
        tsc.ClassifierConfig(task=3)

    class Nameless(tsc.tasks.OwnTask):
        pass

    with pytest.raises(ConfigError, match="needs a kind"):
        tsc.ClassifierConfig(task=Nameless())


def test_an_entry_point_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_package.py").write_text(
        "from typing import Literal\nimport tsc_interp as tsc\n"
        "class Long(tsc.tasks.OwnTask):\n"
        "    kind: Literal['test_long'] = 'test_long'\n"
        "    def labels(self, counts):\n        return counts.sum(-1) > 3\n"
    )
    info = tmp_path / "ends-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ends\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tsc_interp.tasks]\ntest_long = ends_package:Long\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    config = tsc.ClassifierConfig(task={"kind": "test_long"})
    assert config.task.labels(np.array([[1, 1, 1], [2, 1, 1]])).tolist() == [False, True]
