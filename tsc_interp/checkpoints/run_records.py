"""What a run leaves behind beside its weights: a row per epoch, and a result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Ending = Literal["good_enough", "no_improvement", "last_epoch", "diverged"]


class EpochMetrics(BaseModel):
    """What one epoch did. Losses are sums over the epoch's strings."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    epoch: int
    learning_rate: float
    train_loss: float
    validation_loss: float


class TestResult(BaseModel):
    """How one model did on the test set."""

    __test__ = False  # not a test, whatever pytest thinks of the name
    model_config = ConfigDict(frozen=True, extra="forbid")

    confusion_matrix: tuple[tuple[int, ...], ...]
    """A row per class, a column per answer; of two classes `((TN, FP), (FN, TP))`."""
    misclassified: tuple[str, ...]
    """Run-length notation, each string once, shorter ones first, then alphabetical."""

    @property
    def errors(self) -> int:
        """Test items that are wrong; a string that occurs twice counts twice."""
        return sum(
            count
            for label, row in enumerate(self.confusion_matrix)
            for answer, count in enumerate(row)
            if answer != label
        )

    def matrix(self) -> list[list[int]]:
        return [list(row) for row in self.confusion_matrix]


class RunResult(BaseModel):
    """A finished run: how it ended, which epoch it keeps, and how that one did on the test set."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    seed: int
    run_key: str
    ending: Ending
    epochs: int
    chosen_epoch: int
    validation_loss: float
    """The chosen epoch's; NaN if no epoch had a finite one."""
    test: TestResult

    @property
    def diverged(self) -> bool:
        return self.ending == "diverged"


def write_metrics(rows: Iterable[EpochMetrics]) -> bytes:
    """A line of JSON per epoch; NaN and infinities are written as strings."""
    return "".join(f"{row.model_dump_json()}\n" for row in rows).encode()


def hash_lines(content: bytes, lines: int | None = None) -> str:
    """SHA-256 of the first lines, or of all."""
    return hashlib.sha256(b"".join(content.splitlines(keepends=True)[:lines])).hexdigest()


def run_key(config: Any) -> str:
    """The key of the options in a `config.json`: what `RunConfig.key` is of the options in memory.

    `config` is the stored document's classifier and training part, as read.
    """
    return _checksum(config)[:16]


def sealed(document: dict[str, Any]) -> bytes:
    """JSON with a checksum of all the rest of it."""
    whole = {**document, "checksum": _checksum(document)}
    return (json.dumps(whole, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def unsealed(content: bytes) -> dict[str, Any]:
    """What was sealed; a `ValueError` if it is not that, to the last digit."""
    document = parsed(content)
    if document.pop("checksum", None) != _checksum(document):
        raise ValueError("its checksum does not fit its content")
    return document


def parsed(content: bytes) -> dict[str, Any]:
    """A JSON object, or a `ValueError`."""
    try:
        document = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError(f"it holds a {type(document).__name__}, not an object")
    return document


def _checksum(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
