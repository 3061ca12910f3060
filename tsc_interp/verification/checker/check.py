"""Checks certificates about one model, in exact arithmetic, without code of the search.

It believes nothing but the checkpoint. Every box of a certificate is bounded again here, in `arb`
balls (model.py), and judged by a kernel in which what is not known cannot prove anything
(kernel.py). It checks that the boxes cover what the claim says (coverage.py), that every logit lies
on the right side of zero, that every counterexample is one, and that the conclusion follows from
the claims. What it cannot derive again, or not within its budget, it rejects with the reason.

The kinds of claims are in claims.py. The schema is `tsc-interp/certificate/1`, and
`tsc-interp/certificate/2` for what the first does not have: models of more than two classes, and
claims about the float32 model. Conclusions about a task that is not shipped, of which the
configuration says only the name, hold a digest of its labels: `tsc-interp/certificate/3`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.task import SHIPPED
from tsc_interp.task_check import labels_digest
from tsc_interp.verification.checker.budget import MEMORY, SECONDS, Budget, require
from tsc_interp.verification.checker.claims import Derivation, Proved
from tsc_interp.verification.checker.document import Schema, checking, require_known
from tsc_interp.verification.checker.model import BoxModel

CERTIFICATE = Schema("certificate", versions=(1, 2, 3))

MAX_LETTERS = 12
"""A conclusion speaks of every set of letters: 4,095 of them with 12."""


def version_of(proved: Proved) -> int:
    """The version of the schema in which this is stated."""
    if proved.labels:
        return 3
    return 2 if proved.multiclass or proved.float32 else 1


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
        config.n_letters <= MAX_LETTERS,
        f"{config.n_letters} letters have {2**config.n_letters - 1:,} sets to check; "
        f"certificates are for at most {MAX_LETTERS} letters",
    )
    require_known(checkpoint, config.beyond_counts)


class Checker:
    """Checks certificates of one model; what its tables cost is paid once."""

    def __init__(
        self, checkpoint: Checkpoint, *, seconds: float = SECONDS, memory: int = MEMORY
    ) -> None:
        require_checkable(checkpoint)
        config = checkpoint.config
        self.config, self.weight_hash = config, checkpoint.weight_hash()
        self._budget = Budget(seconds, memory)
        self.model = BoxModel(checkpoint, self._budget, memory)
        own = type(config.task) not in SHIPPED
        self._labels = labels_digest(config.task, config.n_letters) if own else ""
        self._bounded: set[str] = set()

    def check(self, document: Any) -> Proved:
        """What the document proves: its claims, and the conclusion that follows from them."""
        with checking(self._budget):
            CERTIFICATE.opened(document, [self.weight_hash])
            proved = self._derivation().run(document["claims"])
            CERTIFICATE.concluded(document, proved.conclusion(), version_of(proved))
            return proved

    def sealed(self, claims: Sequence[Mapping[str, Any]], proved: Proved) -> dict[str, Any]:
        """The certificate of claims from which this was derived."""
        content, version = {"claims": claims}, version_of(proved)
        return CERTIFICATE.sealed([self.weight_hash], content, proved.conclusion(), version)

    def derive(self, claims: Sequence[Mapping[str, Any]]) -> Proved:
        """What follows from these claims, each derived; the same claim's boxes are bounded once."""
        with checking(self._budget):
            return self._derivation(self._bounded).run(claims)

    def is_right(self, support: tuple[int, ...], low: Sequence[int], high: Sequence[int]) -> bool:
        """Whether every string in a box of counts is proved right."""
        with checking(self._budget):
            return self._derivation().labels.are_right(support, low, high)

    def is_safe(
        self,
        form: str,
        length: int,
        support: tuple[int, ...],
        low: Sequence[int],
        high: Sequence[int],
    ) -> bool:
        """The same in float32, of strings up to this length, whatever the order of sums."""
        with checking(self._budget):
            return self._derivation().float32.is_safe(form, length, support, low, high)

    def _derivation(self, bounded: set[str] | None = None) -> Derivation:
        return Derivation(self.config, self.model, self._budget, bounded, self._labels)
