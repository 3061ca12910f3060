"""Checks certificates about two classifiers: where they agree, and where they differ.

Like check.py it believes nothing but the two checkpoints: every box is bounded again for both in
`arb` balls, and nothing is concluded but through the kernel. The kinds of claims:

    differ                  the two answer this string differently
    agree_up_to             they answer every string over exactly these letters alike, to a length
    agree_at_all_lengths    the same at every length: boxes of ratios, one chart per largest letter
    agree_beyond            the same from a length on, by the tail bound (both scaled by log n)
    identical               their logits are the same function there (identity.py)

The schema is `tsc-interp/agreement/1`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.box_claims import BoxClaims, Claim, Support, whole
from tsc_interp.verification.checker.budget import MEMORY, SECONDS, Budget, require
from tsc_interp.verification.checker.check import require_checkable
from tsc_interp.verification.checker.document import Schema, checking
from tsc_interp.verification.checker.identity import exact_form, has_form
from tsc_interp.verification.checker.kernel import Ball
from tsc_interp.verification.checker.model import BoxModel

AGREEMENT = Schema("agreement", models=("first", "second"))


@dataclass(frozen=True)
class Agreement:
    """What was derived again: the only thing anyone may call proved."""

    sentences: tuple[str, ...]
    through: Mapping[str, int | None]
    """Per set of letters, the length up to which the two agree; None is every length."""
    differ: tuple[str, ...]
    first_difference: int | None
    """The length of the shortest string they answer differently, where all shorter ones agree."""

    @property
    def everywhere(self) -> bool:
        """Whether they agree on every string of every length."""
        return all(end is None for end in self.through.values())

    @property
    def agree_through(self) -> int | None:
        """They agree on every string up to this length; None is every length."""
        ends = [end for end in self.through.values() if end is not None]
        return min(ends) if ends else None

    def conclusion(self) -> dict[str, Any]:
        return {
            "agree_through": self.agree_through,
            "everywhere": self.everywhere,
            "first_difference": self.first_difference,
        }


def check_agreement(
    document: Any,
    first: Checkpoint,
    second: Checkpoint,
    *,
    seconds: float = SECONDS,
    memory: int = MEMORY,
) -> Agreement:
    """What the document proves of the two; `CertificateError` if anything does not hold."""
    return AgreementChecker(first, second, seconds=seconds, memory=memory).check(document)


class AgreementChecker:
    def __init__(
        self,
        first: Checkpoint,
        second: Checkpoint,
        *,
        seconds: float = SECONDS,
        memory: int = MEMORY,
    ) -> None:
        self.checkpoints = (first, second)
        self.alphabet = first.config.alphabet
        require(self.alphabet == second.config.alphabet, "the two models read different alphabets")
        same = first.config.called == second.config.called
        require(same, "the letters of the two models have different names")
        self.budget = Budget(seconds, memory)
        for checkpoint in self.checkpoints:
            require_checkable(checkpoint)
            require(
                checkpoint.config.n_outputs <= 2, "one of the two tells more than two classes apart"
            )
        self.models = [
            BoxModel(checkpoint, self.budget, memory // 2) for checkpoint in self.checkpoints
        ]
        self.hashes = [checkpoint.weight_hash() for checkpoint in self.checkpoints]
        self._bounded: set[str] = set()

    def check(self, document: Any) -> Agreement:
        """What the document proves: its claims, and the conclusion that follows from them."""
        with checking(self.budget):
            AGREEMENT.opened(document, self.hashes)
            proved = _Derivation(self).run(document["claims"])
            AGREEMENT.concluded(document, proved.conclusion())
            return proved

    def derive(self, claims: Any) -> Agreement:
        """What follows from these claims, each derived; the same claim's boxes are bounded once."""
        with checking(self.budget):
            return _Derivation(self, self._bounded).run(claims)

    def sealed(self, claims: Any, proved: Agreement) -> dict[str, Any]:
        """The certificate of claims from which this was derived."""
        return AGREEMENT.sealed(self.hashes, {"claims": claims}, proved.conclusion())

    def is_alike(self, support: Support, low: Sequence[int], high: Sequence[int]) -> bool:
        """Whether the two are proved to answer every string in a box of counts alike."""
        with checking(self.budget):
            return self.alike([model.count_box(support, low, high) for model in self.models])

    def alike(self, logits: Sequence[Ball]) -> bool:
        """Whether two enclosures are proved to be on one side of zero."""
        return all(kernel.is_positive(x) for x in logits) or all(
            kernel.is_not_positive(x) for x in logits
        )


class _Derivation:
    """Claims in turn, then what follows from all of them."""

    def __init__(self, checker: AgreementChecker, bounded: set[str] | None = None) -> None:
        self.boxes = BoxClaims(checker.checkpoints[0].config, checker.budget, bounded)
        self.checker, self.models = checker, checker.models
        self.differ: dict[str, tuple[str, int]] = {}

    def run(self, claims: Any) -> Agreement:
        kinds = {
            "differ": (self._differ, {"string"}),
            "agree_up_to": (self._up_to, {"letters", "length", "boxes"}),
            "agree_at_all_lengths": (self._always, {"letters", "charts"}),
            "agree_beyond": (self._beyond, {"letters", "length"}),
            "identical": (self._identical, {"letters"}),
        }
        return self._conclude(list(self.boxes.sentences(claims, kinds)))

    def _differ(self, claim: Claim) -> str:
        string = claim["string"]
        letters, support, counts = self.boxes.string(string)
        first, second = self.models
        answers = [
            answer
            for answer in (1, 0)
            if first.of_class(answer).is_answer(support, counts)
            and second.of_class(1 - answer).is_answer(support, counts)
        ]
        require(bool(answers), f"{string} is not proved to be answered differently")
        self.differ[string] = letters, sum(counts)
        words = ("yes", "no") if answers[0] else ("no", "yes")
        return f"{string}: the first says {words[0]}, the second {words[1]}"

    def _up_to(self, claim: Claim) -> str:
        def holds(support: Support, low: Sequence[int], high: Sequence[int]) -> None:
            logits = [model.count_box(support, low, high) for model in self.models]
            require(self.checker.alike(logits), f"{low}..{high} is not proved alike")

        letters, length = self.boxes.cover_lengths(claim, holds)
        return f"every string over exactly {letters} up to length {length} is answered alike"

    def _always(self, claim: Claim) -> str:
        configs = [checkpoint.config for checkpoint in self.checker.checkpoints]
        require(not any(c.log_n for c in configs), "ratios do not decide scores scaled by log n")
        require(configs[0].attend_cls == configs[1].attend_cls, "one of the two attends to CLS")

        def holds(
            support: Support, column: int, low: Sequence[float], high: Sequence[float]
        ) -> None:
            logits = [model.ratio_box(support, column, low, high) for model in self.models]
            require(self.checker.alike(logits), f"{low}..{high} is not proved alike")

        letters = self.boxes.cover_ratios(claim, holds)
        return f"every string over exactly {letters}, however long, is answered alike"

    def _beyond(self, claim: Claim) -> str:
        letters, support = self.boxes.support(claim["letters"])
        start = whole(claim["length"])
        scaled = all(checkpoint.config.log_n for checkpoint in self.checker.checkpoints)
        require(scaled and start >= 2, "the tail bound needs two models scaled by log n")
        logits = [model.tail(support, start) for model in self.models]
        require(self.checker.alike(logits), f"{letters}: the tail is not proved")
        self.boxes.from_length(letters, start)
        return f"every string over exactly {letters} of {start} letters or more is answered alike"

    def _identical(self, claim: Claim) -> str:
        letters, support = self.boxes.support(claim["letters"])
        require(
            all(has_form(checkpoint) for checkpoint in self.checker.checkpoints),
            "only one-layer models without norms are shown to be the same function",
        )
        first, second = (
            exact_form(checkpoint, support, self.checker.budget)
            for checkpoint in self.checker.checkpoints
        )
        require(first == second, f"{letters}: the logits are not shown to be the same")
        self.boxes.always.add(letters)
        return f"on every string over exactly {letters} the two logits are the same number"

    def _conclude(self, sentences: list[str]) -> Agreement:
        through = self.boxes.through()
        for string, (letters, length) in self.differ.items():
            end = through[letters]
            require(end is not None and end < length, f"{string} is claimed alike and different")
        ends = [end for end in through.values() if end is not None]
        nearest = min((length for _, length in self.differ.values()), default=None)
        first = nearest if nearest is not None and min(ends) + 1 == nearest else None
        if not ends:
            sentences.append("the two answer every string of every length alike")
        elif min(ends):
            sentences.append(f"the two answer every string up to length {min(ends)} alike")
        return Agreement(tuple(sentences), through, tuple(self.differ), first)
