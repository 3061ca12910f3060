"""Defines the parts of every certificate: a schema, its models, a conclusion and a digest.

    {"schema": "tsc-interp/<kind>/<version>", "weight_hash": ..., "claims": [...],
     "conclusion": {...}, "digest": SHA-256 of all the rest}

A `Schema` names the fields of one kind. What writes a certificate seals it (`sealed`); its checker
opens it (`opened`), derives the claims again, and compares what follows with the stated conclusion
(`concluded`). Whatever goes wrong meanwhile, or takes too much (`budget.py`), is a rejection.

Part of the checker: nothing here is taken from the search.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import TscError
from tsc_interp.verification.checker.budget import Budget, CertificateError, require

MAX_PARAMETERS = 250_000


@contextmanager
def rejecting() -> Iterator[None]:
    """Whatever goes wrong inside is a rejection with its reason."""
    try:
        yield
    except CertificateError:
        raise
    except (RecursionError, OverflowError, MemoryError) as error:
        raise CertificateError(f"rejected: too much to check: {type(error).__name__}") from None
    except (LookupError, TypeError, ValueError, AttributeError, TscError) as error:
        raise CertificateError(f"malformed certificate: {type(error).__name__}: {error}") from None


@contextmanager
def checking(budget: Budget) -> Iterator[None]:
    """One check: it has the whole budget, and whatever goes wrong inside is a rejection."""
    budget.restart()
    with rejecting():
        yield


@dataclass(frozen=True)
class Schema:
    """One kind of certificate.

    Attributes:
        kind: Its name, as in `tsc-interp/certificate/1`.
        versions: The versions that are read.
        models: The fields that hold weight hashes, in the order of the models.
        content: The fields that the checker derives its conclusion from.
    """

    kind: str
    versions: tuple[int, ...] = (1,)
    models: tuple[str, ...] = ("weight_hash",)
    content: tuple[str, ...] = ("claims",)

    def name(self, version: int = 1) -> str:
        return f"tsc-interp/{self.kind}/{version}"

    def is_start_of(self, start: bytes) -> bool:
        """Whether a file that starts so is a certificate of this kind."""
        return f'"tsc-interp/{self.kind}/'.encode() in start[:100]

    def sealed(
        self,
        hashes: Sequence[str],
        content: Mapping[str, Any],
        conclusion: Mapping[str, Any],
        version: int = 1,
    ) -> dict[str, Any]:
        """A document with a digest that fits."""
        document = {
            "schema": self.name(version),
            **dict(zip(self.models, hashes, strict=True)),
            **{field: content[field] for field in self.content},
            "conclusion": conclusion,
        }
        return {**document, "digest": digest(document)}

    def opened(self, document: Any, hashes: Sequence[str]) -> Any:
        """The document, if it is whole, of this kind and about these models."""
        require(isinstance(document, dict), "a certificate is a JSON object")
        fields = {"schema", *self.models, *self.content, "conclusion", "digest"}
        require(set(document) == fields, f"a certificate has exactly the fields {sorted(fields)}")
        known = [*map(self.name, self.versions)]
        require(document["schema"] in known, f"the schema must be {' or '.join(map(repr, known))}")
        require(document["digest"] == digest(document), "the digest does not fit the content")
        require(
            [document[field] for field in self.models] == list(hashes),
            "the certificate is about other weights or another configuration"
            + (", or the models in another order" if len(self.models) > 1 else ""),
        )
        return document

    def concluded(self, document: Any, conclusion: Mapping[str, Any], version: int = 1) -> None:
        """Reject a document that states anything else than what was derived from it."""
        stated, derived = json_text(document["conclusion"]), json_text(conclusion)
        require(stated == derived, f"the conclusion does not follow; what does is {derived}")
        schema = self.name(version)
        require(document["schema"] == schema, f"the schema of such claims must be {schema!r}")


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of everything but the digest itself."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return hashlib.sha256(json_text(rest).encode()).hexdigest()


def json_text(value: Any) -> str:
    """One text for equal JSON, and different ones for 1, 1.0 and true."""
    return json.dumps(value, sort_keys=True)


def require_known(checkpoint: Checkpoint, beyond: Sequence[str]) -> None:
    """That nothing of a model is beyond its checker, and that exact arithmetic is affordable."""
    require(not beyond, f"the model has {', '.join(beyond)}, which this checker does not know")
    require(
        checkpoint.expanded().n_parameters <= MAX_PARAMETERS,
        f"the model has {checkpoint.n_parameters:,} parameters; exact arithmetic is affordable "
        f"up to {MAX_PARAMETERS:,}",
    )
