"""An independent checker of certificates: exact arithmetic, no code shared with the search.

It believes nothing but the checkpoint. Every box of a certificate is bounded again here, in `arb`
balls (checker_model.py), and judged by a kernel in which what is not known cannot prove anything
(kernel.py). It checks that the boxes cover what the claim says (coverage.py), that every logit lies
on the right side of zero, that every counterexample is one, and that the conclusion follows from
the claims. What it cannot derive again, or not within its budget, it rejects with the reason.

The kinds of claims are in checker_claims.py. The schema is `tsc-interp/certificate/1`, and
`tsc-interp/certificate/2` for what the first does not have: models of more than two classes, and
claims about the float32 model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.errors import TscError
from tsc_interp.verification.box_claims import CertificateError, require
from tsc_interp.verification.checker_claims import Derivation, Proved
from tsc_interp.verification.checker_model import BoxModel

SCHEMA = "tsc-interp/certificate/1"
WIDER_SCHEMA = "tsc-interp/certificate/2"

MAX_LETTERS = 12
"""A conclusion speaks of every set of letters: 4,095 of them with 12."""
MAX_PARAMETERS = 250_000
SECONDS = 300.0


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of everything but the digest itself."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return hashlib.sha256(json_text(rest).encode()).hexdigest()


def json_text(value: Any) -> str:
    """One text for equal JSON, and different ones for 1, 1.0 and true."""
    return json.dumps(value, sort_keys=True)


def check(document: Any, checkpoint: Checkpoint, *, seconds: float = SECONDS) -> Proved:
    """What the certificate proves; `CertificateError` if anything fails or takes too long."""
    return Checker(checkpoint, seconds=seconds).check(document)


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


def schema_of(proved: Proved) -> str:
    """The schema in which this is stated."""
    return WIDER_SCHEMA if proved.several or proved.float32 else SCHEMA


def require_checkable(checkpoint: Checkpoint) -> None:
    """That a model is of a kind and a size for which certificates are checked."""
    config = checkpoint.config
    require(
        not config.has_positions,
        "the model has positions, so counts do not decide its logit: it cannot be certified",
    )
    require(
        not config.needs_order,
        "the answer is not one that counts decide: it cannot be certified",
    )
    require(
        not config.beyond_verification,
        f"the model has {', '.join(config.beyond_verification)}, which this checker does not know",
    )
    require(
        config.n_letters <= MAX_LETTERS,
        f"{config.n_letters} letters have {2**config.n_letters - 1:,} sets to check; "
        f"certificates are for at most {MAX_LETTERS} letters",
    )
    require(
        checkpoint.n_parameters <= MAX_PARAMETERS,
        f"the model has {checkpoint.n_parameters:,} parameters; exact arithmetic is affordable "
        f"up to {MAX_PARAMETERS:,}",
    )


class Checker:
    """Checks certificates of one model; what its tables cost is paid once."""

    def __init__(self, checkpoint: Checkpoint, *, seconds: float = SECONDS) -> None:
        require_checkable(checkpoint)
        config = checkpoint.config
        self.config, self.weight_hash = config, checkpoint.weight_hash()
        self.seconds, self._until = seconds, 0.0
        self.model = BoxModel(checkpoint, self._pay)

    def check(self, document: Any) -> Proved:
        """What the document proves: its claims, and the conclusion that follows from them."""
        with self._rejecting():
            claims = self._opened(document)
            proved = self._derivation().run(claims)
            given, derived = (
                json_text(one) for one in (document["conclusion"], proved.conclusion())
            )
            require(given == derived, f"the conclusion does not follow; what does is {derived}")
            schema = schema_of(proved)
            require(document["schema"] == schema, f"the schema of such claims must be {schema!r}")
            return proved

    def derive(self, claims: Sequence[Mapping[str, Any]]) -> Proved:
        """What follows from these claims, each derived again."""
        with self._rejecting():
            return self._derivation().run(claims)

    def is_right(self, face: tuple[int, ...], low: Sequence[int], high: Sequence[int]) -> bool:
        """Whether every string in a box of counts is proved right."""
        with self._rejecting():
            derivation = self._derivation()
            label = derivation.label(face, low, high)
            return derivation.is_right(label, lambda model: model.count_box(face, low, high))

    def is_safe(
        self, form: str, length: int, face: tuple[int, ...], low: Sequence[int], high: Sequence[int]
    ) -> bool:
        """The same in float32, of strings up to this length, whatever the order of sums."""
        with self._rejecting():
            return self._derivation().is_safe(form, length, face, low, high)

    def _derivation(self) -> Derivation:
        return Derivation(self.config, self.model, self._pay)

    def _opened(self, document: Any) -> Any:
        require(isinstance(document, dict), "a certificate is a JSON object")
        fields = {"schema", "weight_hash", "claims", "conclusion", "digest"}
        require(set(document) == fields, f"a certificate has exactly the fields {sorted(fields)}")
        known = (SCHEMA, WIDER_SCHEMA)
        require(document["schema"] in known, f"the schema must be {' or '.join(map(repr, known))}")
        require(document["digest"] == digest(document), "the digest does not fit the content")
        require(
            document["weight_hash"] == self.weight_hash,
            "the certificate is about other weights or another configuration",
        )
        return document["claims"]

    @contextmanager
    def _rejecting(self) -> Iterator[None]:
        """Whatever goes wrong inside, it is a rejection; the budget begins anew."""
        self._until = monotonic() + self.seconds
        with rejecting():
            yield

    def _pay(self) -> None:
        require(
            monotonic() < self._until,
            f"not checked within {self.seconds:g} seconds; allow more (seconds=...), or ask for a "
            "certificate of fewer boxes",
        )
