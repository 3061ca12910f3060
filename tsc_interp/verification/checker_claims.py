"""What follows from a certificate's claims: each derived again, then all of them put together.

The kinds of claims:

    wrong               the model misclassifies this string
    right_up_to         every string over exactly these letters, up to this length, is right
    right_at_all_lengths   the same for every length: boxes of ratios, one chart per largest letter
    right_beyond        the same from this length on, by the tail bound (scores scaled by log n)
    float32_right_up_to, float32_wrong   the same of the float32 model (checker_float32.py)
    limit               adding ever more of one letter drives the logits of two sets of letters
                        with different labels to one non-zero limit, so one of them fails

Of several classes, the index of the largest output is the answer, of equal ones the lowest. What is
said of the logit is then said of the right class's margin, which must be above zero; `wrong` names
the class that is answered, and the limit is one in which some class has a margin above zero.

That boxes are well formed and leave nothing out is checked in box_claims.py. Part of the checker
(checker.py): nothing here is taken from the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flint import arb

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification import kernel
from tsc_interp.verification.box_claims import Claim, Face, number, require, whole
from tsc_interp.verification.checker_float32 import Float32Proved, FloatClaims
from tsc_interp.verification.checker_model import BoxModel
from tsc_interp.verification.kernel import Ball


@dataclass(frozen=True)
class Proved:
    """What the checker derived again: the only thing anyone may call proved."""

    sentences: tuple[str, ...]
    horizon: int | None
    infinite: bool
    finite: bool
    right_through: Mapping[str, int | None]
    """Per set of letters, the length up to which its strings are right; None is every length."""
    wrong: tuple[str, ...]
    negative_faces: Mapping[str, bool | None]
    float32: Mapping[str, Float32Proved] = field(default_factory=dict)
    """By form of the strings: what holds in float32, whatever the order of sums."""
    several: bool = False
    """Whether the model tells more than two classes apart."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)

    def conclusion(self) -> dict[str, Any]:
        """As a certificate states it."""
        stated: dict[str, Any] = {
            "horizon": self.horizon,
            "infinite": self.infinite,
            "finite": self.finite,
            "negative_faces": dict(self.negative_faces),
        }
        if self.float32:
            stated["float32"] = {form: one.to_dict() for form, one in self.float32.items()}
        return stated


class Derivation(FloatClaims):
    """Claims in turn, then what follows from all of them."""

    def __init__(self, config: ClassifierConfig, model: BoxModel, pay: Callable[[], None]) -> None:
        super().__init__(config, model, pay)
        self.wrong: dict[str, tuple[str, int]] = {}
        self.limited = False

    def run(self, claims: Any) -> Proved:
        kinds = {
            "wrong": (self._wrong, {"string", "answer"} if self.several else {"string"}),
            "right_up_to": (self._right_up_to, {"letters", "length", "boxes"}),
            "right_at_all_lengths": (self._right_always, {"letters", "bound", "charts"}),
            "right_beyond": (self._right_beyond, {"letters", "length"}),
            "limit": (self._limit, {"letter", "letters"}),
            **self.float32_kinds(),
        }
        return self._conclude(list(self.sentences(claims, kinds)))

    # -- claims ------------------------------------------------------------------------------

    def _wrong(self, claim: Claim) -> str:
        string = claim["string"]
        letters, face, counts = self.string(string)
        label = int(self.config.task.classes(np.array(self.full(face, counts))))
        if self.several:
            answer = whole(claim["answer"])
            require(answer < self.config.n_outputs, "a class the model has no output for")
            proved = answer != label and self.model.of_class(answer).is_answer(face, counts)
            told = f"{string} is of class {label} and answered {answer}"
        else:
            proved = self.model.is_wrong(face, counts, bool(label))
            told = f"{string} is a false {'negative' if label else 'positive'}"
        require(proved, f"{string} is not proved misclassified")
        self.wrong[string] = letters, sum(counts)
        return told

    def _right_up_to(self, claim: Claim) -> str:
        def holds(face: Face, low: Sequence[int], high: Sequence[int]) -> None:
            label = self.label(face, low, high)
            require(label is not None, f"strings from {low} to {high} differ in label")
            right = self.is_right(label, lambda model: model.count_box(face, low, high))
            require(right, f"{low}..{high} is not proved right")

        letters, length = self.cover_lengths(claim, holds)
        return f"every string over exactly {letters} up to length {length} is right"

    def _right_always(self, claim: Claim) -> str:
        label = self.shared_label(self.face(claim["letters"])[0])
        require(not self.config.log_n, "ratios alone do not decide a model scaled by log n")
        bound, above = number(claim["bound"]), self.above(label)
        require(bound > 0 if above else bound <= 0, "the bound is on the wrong side")

        def holds(face: Face, column: int, low: Sequence[float], high: Sequence[float]) -> None:
            logit, end = self.asked(label).ratio_box(face, column, low, high), arb(bound)
            held = kernel.is_at_most(end, logit) if above else kernel.is_at_most(logit, end)
            require(held, f"the logit is not proved to stay beyond {bound}")

        letters = self.cover_ratios(claim, holds)
        side = "at least" if above else "at most"
        what = "margin" if self.several else "logit"
        return f"every string over exactly {letters} is right: {what} {side} {bound:.6g}"

    def _right_beyond(self, claim: Claim) -> str:
        letters, face = self.face(claim["letters"])
        start, label = whole(claim["length"]), self.shared_label(letters)
        require(self.config.log_n and start >= 2, "the tail bound needs scores scaled by log n")
        right = self.is_right(label, lambda model: model.tail(face, start))
        require(right, f"{letters}: the tail is not proved")
        self.from_length(letters, start)
        return f"every string over exactly {letters} of {start} letters or more is right"

    def _limit(self, claim: Claim) -> str:
        letters, _ = self.face(claim["letters"])
        single, face = self.face(claim["letter"])
        require(not self.config.log_n, "the limit argument needs scores that do not grow")
        require(single in letters and len(single) == 1, "the letter must be one of the letters")
        require(
            self.shared_label(letters) != self.shared_label(single),
            "the two sets of letters must have different labels",
        )
        settled = any(map(kernel.is_positive, self._limits(face)))
        require(settled, f"the limit for {single} may be zero")
        self.limited = True
        what = "limit with one largest output" if self.several else "non-zero limit"
        return (
            f"the logits of {single}^n and of strings over {letters} with ever more {single} share "
            f"a {what}, so one of them is wrong: the horizon is finite"
        )

    def _limits(self, face: Face) -> Iterator[Ball]:
        """What is above zero if this class is answered in the limit, one for each class."""
        if self.several:
            for label in range(self.config.n_outputs):
                yield self.model.of_class(label).limit(face)
        else:
            limit = self.model.limit(face)
            yield from (limit, -limit)

    # -- conclusion --------------------------------------------------------------------------

    def _conclude(self, sentences: list[str]) -> Proved:
        through = self.through()
        for string, (letters, length) in self.wrong.items():
            end = through[letters]
            require(end is not None and end < length, f"{string} is claimed right and wrong")
        ends = [end for end in through.values() if end is not None]
        infinite, finite = not ends, self.limited or bool(self.wrong)
        require(not (infinite and finite), "the claims contradict each other")
        first_error = min((length for _, length in self.wrong.values()), default=None)
        horizon = min(ends) if ends and min(ends) + 1 == first_error else None
        failing = {letters for letters, _ in self.wrong.values()}
        negative = {
            letters: False if letters in failing else (True if end is None else None)
            for letters, end in through.items()
            if not self.several and self.config.task.class_of_support(frozenset(letters)) == 0
        }
        holding = [letters for letters, holds in negative.items() if holds]
        if horizon is not None:
            sentences.append(f"the horizon is {horizon}")
        if holding:
            sentences.append(f"no false positive of any length over {', '.join(holding)}")
        if infinite:
            sentences.append("the horizon is infinite: no string of any length is misclassified")
        float32 = self.float32_proved()
        for form, one in float32.items():
            sentences.append(
                f"in float32 ({form}, any order of sums) every string up to length "
                f"{one.safe_through} is right"
            )
        return Proved(
            tuple(sentences), horizon, infinite, finite, through, tuple(self.wrong), negative,
            float32, self.several,
        )  # fmt: skip
