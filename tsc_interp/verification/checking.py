"""`tsc.check`: a proof of any kind, derived again for the models it is about."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.errors import UsageError
from tsc_interp.trusted.budget import MEMORY, SECONDS
from tsc_interp.trusted.errors import require
from tsc_interp.trusted.replay import replay
from tsc_interp.verification.documents import (
    model_of,
    read_certificate,
    require_current,
    require_own_rule,
)
from tsc_interp.verification.proved import Agreement, Proved

if TYPE_CHECKING:
    from tsc_interp.verification.order.certificate_result import TablesProved


@checked
def check(
    document: Any, *models: ModelLike, seconds: float = SECONDS, memory: int = MEMORY
) -> Proved | TablesProved | Agreement:
    """Derive a proof again, and return what it proves about its model or models.

    Args:
        document: A proof of any kind: the result of `certify` or `diff`, the path of a file, or the
            JSON document itself.
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
    require_current(content)
    named = content.get("models") if isinstance(content, Mapping) else None
    wanted = len(named) if isinstance(named, list) else 0
    if wanted in (1, 2) and len(models) != wanted:
        raise UsageError(
            f"this proof is about {'two models' if wanted == 2 else 'one model'}, got {len(models)}"
        )
    checkpoints = [as_checkpoint(model) for model in models]
    same = len({checkpoint.config.called for checkpoint in checkpoints}) == 1
    require(same, "the letters of the two models have different names")
    replay(content, [model_of(checkpoint) for checkpoint in checkpoints], seconds, memory)
    return proved_of(content, checkpoints)


def proved_of(
    document: Any, checkpoints: Sequence[Checkpoint]
) -> Proved | TablesProved | Agreement:
    """What a document that was derived again says, if its language is the task of its model."""
    config, language = checkpoints[0].config, document["language"]
    if len(checkpoints) == 2:
        require(language is None, "where two models agree is not yet told of a language")
        return Agreement.of(config, document)
    if "tables" in language:
        from tsc_interp.verification.order.certificate_result import (
            TablesProved,
            require_own_tables,
        )

        require_own_tables(config, language)
        return TablesProved.of(config, document)
    require_own_rule(config, language)
    return Proved.of(config, document)


def _content(document: Any) -> Any:
    if isinstance(document, str | os.PathLike):
        return read_certificate(document)
    return getattr(document, "document", document)
