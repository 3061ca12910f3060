"""Claims on their way into a document: written from searches, kept if the checker derives them.

A slip in a search can cost a proof here, but cannot invent one. The same for claims about one model
(`right_...`, certificates.py) and about two (`agree_...`, comparison.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tsc_interp.strings import Alphabet
from tsc_interp.verification.bounds.supports import Support
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.search.cutting import Box, Vector, halves
from tsc_interp.verification.search.proofs import AllLengths, finer, prove_all_lengths, tail_bounds
from tsc_interp.verification.search.search import SupportSearch

Claim = dict[str, Any]

PER_BOX = 5
"""A box takes the checker so many times what one logit takes in exact arithmetic, measured."""
SIGN_ONLY = 1e-9
"""A margin of which no more is claimed than that it is above zero."""
_MOST_FINER = 100_000
_FINER_BOXES = 20_000

Derived = TypeVar("Derived", covariant=True)


class Derives(Protocol[Derived]):
    """A checker: what follows from claims, or `CertificateError`."""

    def derive(self, claims: Sequence[Claim], /) -> Derived: ...


class Keeper(Generic[Derived]):
    """The claims that a checker derived, while seconds last.

    Args:
        checker: What derives claims.
        alphabet: The letters of the model or models.
        verb: What is claimed of strings: `right` or `agree`.
        cost: Microseconds that one exact logit takes on a support of so many letters.
        seconds: Of the checker's work, estimated and not timed, so that a document
            is the same on every machine. A claim that would cost more than is left is not made.
    """

    def __init__(
        self,
        checker: Derives[Derived],
        alphabet: Alphabet,
        verb: str,
        cost: Callable[[int], int],
        seconds: float,
    ) -> None:
        self.checker, self.alphabet, self.verb = checker, alphabet, verb
        self._cost, self.left = cost, int(seconds * 1e6)
        self.claims: list[Claim] = []
        self.tails: dict[str, int] = {}
        self.always: dict[str, AllLengths] = {}

    def keep(self, *claims: Claim) -> bool:
        """Keep claims that the checker can derive on their own."""
        work = sum(boxes_of(claim) * self._box(len(claim.get("letters", "a"))) for claim in claims)
        if not self._affordable(work):
            return False
        try:
            self.checker.derive(as_read(claims))
        except CertificateError:
            return False
        self.claims += claims
        return True

    def _box(self, letters: int) -> int:
        """About what one box takes the checker, in microseconds."""
        return self._cost(letters) * PER_BOX

    def _affordable(self, work: int) -> bool:
        """Whether there is time left for this, in microseconds; if so it is spent."""
        if work > self.left:
            return False
        self.left -= work
        return True

    def finished(self) -> tuple[list[Claim], Derived]:
        """All claims as they will be read, and what follows from them together."""
        claims = as_read(self.claims)
        return claims, self.checker.derive(claims)

    # -- up to a length ------------------------------------------------------------------------

    def up_to(self, letters: str, length: int, boxes: Sequence[Box]) -> Claim:
        return up_to_claim(f"{self.verb}_up_to", letters, length, boxes)

    def keep_boxes(self, claim: Claim, shown: Callable[[Vector, Vector], bool]) -> bool:
        """Keep a claim about boxes of counts, cut finer where the checker needs that.

        `shown` says whether the checker derives the claim of one box: its bounds are looser than
        the search's for deep models.
        """
        if self.keep(claim):
            return True
        boxes: list[list[list[int]]] = []
        waiting = [(tuple(low), tuple(high)) for low, high in claim["boxes"]]
        while waiting and len(boxes) + len(waiting) < _FINER_BOXES:
            low, high = waiting.pop()
            if sum(low) > claim["length"]:
                continue
            if not self._affordable(self._box(len(claim["letters"]))):
                return False
            if shown(low, high):
                boxes.append([list(low), list(high)])
            elif low == high:
                return False
            else:
                waiting += halves(low, high)
        return not waiting and self.keep({**claim, "boxes": boxes})

    # -- at every length -----------------------------------------------------------------------

    def keep_always(
        self,
        letters: str,
        margin: Support,
        reach: int,
        shorter: Callable[[int], SupportSearch],
        bound: Callable[[float], float] | None = None,
    ) -> bool:
        """Keep a claim about all strings over these letters, if the margin stays above zero.

        Args:
            letters: The set of letters.
            margin: What has to be above zero.
            reach: How far a tail may begin (scores scaled by log n).
            shorter: Searches the strings up to a length, for what comes before a tail.
            bound: Writes a bound on the margin as the claim states it; None if it states none.
        """
        if not margin.log_n:
            return self._at_all_ratios(
                letters, prove_all_lengths(margin, sharpen=bound is not None), bound
            )
        start = 2
        while start <= reach:
            ends = tail_bounds(margin, start)
            if ends is None:
                return False
            if ends[0][0] > 0:
                claims = [{"kind": f"{self.verb}_beyond", "letters": letters, "length": start}]
                if start > len(letters):
                    boxes = shorter(start - 1).boxes
                    claims.insert(0, self.up_to(letters, start - 1, boxes))
                if self.keep(*claims):
                    self.tails[letters] = start
                    return True
            start *= 2
        return False

    def _at_all_ratios(
        self, letters: str, proof: AllLengths | None, bound: Callable[[float], float] | None
    ) -> bool:
        """First with the bound that was found, then with just its sign, then with finer boxes."""
        for _ in range(3):
            if proof is None or proof.boxes * self._box(len(letters)) > self.left:
                return False
            # Room for the radii of the checker's balls, which have 30 bits.
            roomy = proof.least_margin - proof.least_margin * 1e-6
            for margin in (roomy, SIGN_ONLY) if bound else (roomy,):
                stated = {"bound": bound(margin)} if bound else {}
                if self.keep(self._always_claim(letters, stated, proof)):
                    self.always[letters] = AllLengths(margin, proof.charts)
                    return True
            if proof.boxes * 2 ** len(letters) > _MOST_FINER:
                return False
            proof = finer(proof)
        return False

    def _always_claim(self, letters: str, stated: Claim, proof: AllLengths) -> Claim:
        charts = [
            {
                "largest": self.alphabet.letters[chart.largest],
                "boxes": [[list(a), list(b)] for a, b in zip(chart.low, chart.high, strict=True)],
            }
            for chart in proof.charts
        ]
        return {
            "kind": f"{self.verb}_at_all_lengths",
            "letters": letters,
            **stated,
            "charts": charts,
        }


def as_read(claims: Sequence[Claim]) -> list[Claim]:
    """Claims as they are read from a file: JSON has no tuples."""
    read: list[Claim] = json.loads(json.dumps(claims))
    return read


def boxes_of(claim: Claim) -> int:
    """How many boxes a claim has the checker bound."""
    charts = claim.get("charts", ())
    return sum(len(chart["boxes"]) for chart in charts) + len(claim.get("boxes", ()))


def up_to_claim(kind: str, letters: str, length: int, boxes: Sequence[Box]) -> Claim:
    """What boxes show of all strings over these letters up to a length."""
    small = []
    for low, high in boxes:
        slack = length - sum(low)
        if slack >= 0:
            # Larger counts make the string too long; a smaller box is easier to prove.
            small.append([list(low), [min(b, a + slack) for a, b in zip(low, high, strict=True)]])
    return {"kind": kind, "letters": letters, "length": length, "boxes": small}
