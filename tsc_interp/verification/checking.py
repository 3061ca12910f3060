"""`tsc.check`: a certificate of any kind, derived again for the models it is about."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.errors import UsageError
from tsc_interp.verification.checker.agreement import AGREEMENT, Agreement, AgreementChecker
from tsc_interp.verification.checker.budget import MEMORY, SECONDS, CertificateError
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.claims import Proved
from tsc_interp.verification.checker.files import read_certificate
from tsc_interp.verification.checker.trellis import SCHEMA, VERSION, TrellisChecker
from tsc_interp.verification.checker.trellis_claims import TrellisProved

_OLD = ("tsc-interp/ordered-certificate/", "tsc-interp/trellis-certificate/1")


@checked
def check(
    document: Any, *models: ModelLike, seconds: float = SECONDS, memory: int = MEMORY
) -> Proved | TrellisProved | Agreement:
    """Recompute a certificate, and return what it proves about its model or models.

    Args:
        document: A certificate of any kind: the result of `certify` or `diff`, the path of a file,
            or the JSON document itself.
        models: The model that it is about, or the two models in their order: hooked models,
            checkpoints, bundled names, paths, or runs.
        seconds: The time limit of the check.
        memory: The largest number of bytes in use at one time, besides the document.

    Returns:
        The confirmed claims; `sentences` states them as text.

    Raises:
        CertificateError: A claim does not hold, or the check exceeds the time or memory.
        UsageError: The file cannot be read, or the number of models is wrong.

    Example:
        >>> import tsc_interp as tsc
        >>> certificate = tsc.certify("generalization-errors", limit=100)
        >>> check(certificate, "generalization-errors").horizon
        66
    """
    content = _content(document)
    schema = str(content.get("schema")) if isinstance(content, Mapping) else ""
    if schema.startswith(_OLD):
        raise CertificateError(
            f"rejected: {schema} was written by an older version and does not say what the labels "
            "of its inputs were; tsc-interp verify MODEL --certify -o FILE makes a new certificate"
        )
    wanted = 2 if schema == AGREEMENT.name() else 1
    if len(models) != wanted:
        raise UsageError(
            f"this certificate is about {'two models' if wanted == 2 else 'one model'}, got "
            f"{len(models)}"
        )
    checkpoints = [as_checkpoint(model) for model in models]
    checkers: dict[str, Any] = {
        SCHEMA.name(VERSION): TrellisChecker, AGREEMENT.name(): AgreementChecker,
    }  # fmt: skip
    # Whatever has no schema that is known, the checker of counts rejects with the reason.
    checker = checkers.get(schema, Checker)(*checkpoints, seconds=seconds, memory=memory)
    proved: Proved | TrellisProved | Agreement = checker.check(content)
    return proved


def _content(document: Any) -> Any:
    if isinstance(document, str | os.PathLike):
        return read_certificate(document)
    return getattr(document, "document", document)


check_ordered = check
"""The name it had when certificates about order were of a kind of their own."""
