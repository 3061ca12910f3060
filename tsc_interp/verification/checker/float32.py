"""Checks claims about the float32 model: right, or wrong, whatever the order of its sums.

    float32_right_up_to   every string over exactly these letters, up to this length, is right in
                          float32: the real logit (or margin) is beyond what rounding can move it
    float32_wrong         this string is wrong in float32, by as much

`form` says how strings are given, as tokens or compressed. How far rounding can move a logit is
derived here, from the weights and the length (rounding.py), and not read from a document.
A string of which neither is claimed may depend on rounding. Part of the checker (check.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.box_claims import BoxClaims, Claim, Kinds, Support, whole
from tsc_interp.verification.checker.budget import require
from tsc_interp.verification.checker.kernel import Ball
from tsc_interp.verification.checker.labels import Labels
from tsc_interp.verification.checker.rounding import FORMS


@dataclass(frozen=True)
class Float32Proved:
    """Of strings given in one form: up to where all are right, and the first known to be wrong."""

    safe_through: int
    first_wrong: str | None

    def to_dict(self) -> dict[str, Any]:
        return {"safe_through": self.safe_through, "first_wrong": self.first_wrong}


class FloatClaims:
    """What is right or wrong in float32, by form and by set of letters."""

    def __init__(self, boxes: BoxClaims, labels: Labels) -> None:
        self.boxes, self.labels = boxes, labels
        self._safe: dict[str, dict[str, int]] = {}
        self._surely_wrong: dict[str, dict[str, tuple[str, list[int]]]] = {}

    def kinds(self) -> Kinds:
        answered = {"answer"} if self.labels.multiclass else set()
        return {
            "float32_right_up_to": (self._right, {"form", "letters", "length", "boxes"}),
            "float32_wrong": (self._wrongly, {"form", "string"} | answered),
        }

    def is_safe(
        self, form: str, length: int, support: Support, low: Sequence[int], high: Sequence[int]
    ) -> bool:
        """Whether every string of a box, up to this length, is right in float32."""
        label = self.labels.label(support, low, high)
        return label is not None and self._is_answer(label, form, length, support, low, high)

    def _is_answer(
        self,
        answer: int,
        form: str,
        length: int,
        support: Support,
        low: Sequence[int],
        high: Sequence[int],
    ) -> bool:
        """Whether float32 answers every string of a box, up to this length, with this class.

        Outputs of the same weights may be rounded apart, so that no tie is won for certain.
        """
        room = self.labels.model.rounding.room(min(sum(high), length), form)
        model = self.labels.model.of_class(answer)
        margin = model.count_box(support, low, high)
        return not model.leaves_out_equals and beyond(margin, room, model.negated)

    def _right(self, claim: Claim) -> str:
        form, length = _form(claim), whole(claim["length"])

        def holds(support: Support, low: Sequence[int], high: Sequence[int]) -> None:
            safe = self.is_safe(form, length, support, low, high)
            require(safe, f"{low}..{high} is not proved right in float32")

        letters, _ = self.boxes.cover_lengths(claim, holds, self._safe.setdefault(form, {}))
        return (
            f"in float32 ({form}, any order of sums) every string over exactly {letters} up to "
            f"length {length} is right"
        )

    def _wrongly(self, claim: Claim) -> str:
        form, string = _form(claim), claim["string"]
        letters, support, counts = self.boxes.string(string)
        label = self.labels.of_string(support, counts)
        answer = self.labels.answer(claim, label)
        proved = answer != label and self._is_answer(
            answer, form, sum(counts), support, counts, counts
        )
        require(proved, f"{string} is not proved wrong in float32, whatever the order")
        full = self.labels.full(support, counts)
        self._surely_wrong.setdefault(form, {})[string] = letters, full
        return f"in float32 ({form}, any order of sums) {string} is answered {answer}: wrong"

    def proved(self) -> dict[str, Float32Proved]:
        return {
            form: self._in_form(form)
            for form in FORMS
            if form in {*self._safe, *self._surely_wrong}
        }

    def _in_form(self, form: str) -> Float32Proved:
        safe, wrong = self._safe.get(form, {}), self._surely_wrong.get(form, {})
        for string, (letters, counts) in wrong.items():
            contradicted = safe.get(letters, 0) >= sum(counts)
            require(not contradicted, f"{string} is claimed right and wrong in float32")
        through = min(
            max(safe.get(letters, 0), len(letters) - 1) for letters in self.boxes.letter_sets()
        )
        order = {s: (sum(counts), [-n for n in counts]) for s, (_, counts) in wrong.items()}
        return Float32Proved(through, min(order, key=order.__getitem__, default=None))


def beyond(margin: Ball, room: Ball, wins_ties: bool) -> bool:
    """Whether rounding cannot move a margin below zero, or to zero if that is another answer."""
    return kernel.is_at_most(room, margin) if wins_ties else kernel.is_less(room, margin)


def _form(claim: Claim) -> str:
    form = claim["form"]
    require(isinstance(form, str) and form in FORMS, f"the form is one of {', '.join(FORMS)}")
    return str(form)
