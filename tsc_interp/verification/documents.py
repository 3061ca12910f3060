"""Proofs as files, and the models and languages that they are about.

The trusted base reads bytes of models and rules as data (`trusted/`). Here a task becomes such a
rule, and a document's rule is compared with the task of the model: that a rule is what a task says
is not the trusted base's to believe.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.files import read_regular, write_output
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.replay import SCHEMA
from tsc_interp.trusted.spec import Model, read_model, strict_json
from tsc_interp.verification.labels import all_supports, class_of_support

CertificateError = NotProved
"""A document that is not accepted, with the reason."""
MAX_BYTES = 64 * 2**20
LAST_READERS = {
    "certificate/1": "84e3111", "certificate/2": "84e3111", "certificate/3": "84e3111",
    "agreement/1": "84e3111", "trellis-certificate/1": "172e03e",
    "trellis-certificate/2": "84e3111", "ordered-certificate/1": "c55ccd2",
}  # fmt: skip
"""Older documents, and a commit that reads them: no release had another number than 0.1.0."""


def model_of(checkpoint: Checkpoint) -> Model:
    """What the trusted base reads of a checkpoint: its bytes."""
    return read_model(checkpoint.to_bytes())


# -- languages -----------------------------------------------------------------------------------


def rule_of(config: ClassifierConfig, inputs: Iterable[tuple[int, ...]] = ()) -> dict[str, Any]:
    """A task on counts as data.

    Args:
        config: The letters and the task.
        inputs: Count vectors whose labels are written out, for a task of one's own.
    """
    task: Any = config.task
    kind = type(task)
    if kind is ContainsAll:
        return {"rule": "contains_all", "letters": [LETTERS.index(x) for x in task.letters]}
    if kind in (MostFrequent, Maximum):
        return {"rule": task.kind}
    if kind in (AtLeast, Majority, Parity):
        named = {"rule": task.kind, "letter": LETTERS.index(task.letter)}
        if kind is Majority:
            return named
        return {**named, "k": task.k} if kind is AtLeast else {**named, "odd": task.odd}
    supports = [(support, class_of_support(config, support)) for support in all_supports(config)]
    known = [[list(support), label] for support, label in supports if label is not None]
    vectors = sorted(set(inputs))
    labels = task.classes(np.array(vectors)).tolist() if vectors else []
    listed = [[list(vector), label] for vector, label in zip(vectors, labels, strict=True)]
    return {"rule": "listed", "supports": known, "inputs": listed}


def require_own_rule(config: ClassifierConfig, language: Any) -> None:
    """Reject a document whose rule is not what the model's task says."""
    rule = language.get("counts") if isinstance(language, Mapping) else None
    given = rule if isinstance(rule, Mapping) else {}
    try:
        inputs = [tuple(counts) for counts, _ in given.get("inputs", ())]
    except (TypeError, ValueError):
        inputs = []
    if json.dumps(rule, sort_keys=True) != json.dumps(rule_of(config, inputs), sort_keys=True):
        raise NotProved("rejected: the proof is about another task than the model's own")


# -- files ---------------------------------------------------------------------------------------


def read_certificate(path: str | os.PathLike[str]) -> Any:
    """Return the JSON document in a file; duplicate keys and NaN are rejected."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"a certificate is read from a path, not from {type(path).__name__}")
    try:
        content = read_regular(Path(path), MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise NotProved(f"rejected: {path} is larger than {MAX_BYTES:,} bytes") from None
        raise UsageError(f"cannot read the certificate {path}: {error.strerror}") from None
    try:
        return strict_json(content)
    except RecursionError:
        raise NotProved(f"rejected: {path} is nested too deeply") from None
    except ValueError as error:
        raise NotProved(f"rejected: {path} is not JSON: {error}") from None


def write_certificate(
    path: str | os.PathLike[str], document: Mapping[str, Any], *, force: bool
) -> None:
    """Write a proof; what is there must be one too, unless `force` is given."""
    content = (json.dumps(document) + "\n").encode()
    write_output(Path(path), content, is_certificate, force=force)


def is_certificate(start: bytes) -> bool:
    """Whether a file that starts so is a proof."""
    return f'"{SCHEMA}"'.encode() in start[:100]


def require_current(document: Any) -> None:
    """Refuse what older versions wrote, with one that reads it."""
    schema = str(document.get("schema")) if isinstance(document, Mapping) else ""
    last = LAST_READERS.get(schema.removeprefix("tsc-interp/"))
    if last is not None:
        raise NotProved(
            f"rejected: {schema} was last read by tsc-interp at commit {last}; make the proof "
            "again (tsc-interp verify MODEL --certify -o FILE), or check it with that commit"
        )
