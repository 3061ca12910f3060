"""What follows from a certificate's claims: each derived again, then all of them put together.

The kinds of claims:

    wrong               the model misclassifies this string
    right_up_to         every string over exactly these letters, up to this length, is right
    right_at_all_lengths   the same for every length: boxes of ratios, one chart per largest letter
    right_beyond        the same from this length on, by the tail bound (scores scaled by log n)
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
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification import kernel
from tsc_interp.verification.box_claims import BoxClaims, Claim, Face, number, require, whole
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

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)

    def conclusion(self) -> dict[str, Any]:
        """As a certificate states it."""
        return {
            "horizon": self.horizon,
            "infinite": self.infinite,
            "finite": self.finite,
            "negative_faces": dict(self.negative_faces),
        }


class Derivation(BoxClaims):
    """Claims in turn, then what follows from all of them."""

    def __init__(self, config: ClassifierConfig, model: BoxModel, pay: Callable[[], None]) -> None:
        super().__init__(config, pay)
        self.model, self.several = model, config.n_outputs > 2
        self.wrong: dict[str, tuple[str, int]] = {}
        self.limited = False

    def run(self, claims: Any) -> Proved:
        kinds = {
            "wrong": (self._wrong, {"string", "answer"} if self.several else {"string"}),
            "right_up_to": (self._right_up_to, {"letters", "length", "boxes"}),
            "right_at_all_lengths": (self._right_always, {"letters", "bound", "charts"}),
            "right_beyond": (self._right_beyond, {"letters", "length"}),
            "limit": (self._limit, {"letter", "letters"}),
        }
        return self._conclude(list(self.sentences(claims, kinds)))

    # -- claims ------------------------------------------------------------------------------

    def _wrong(self, claim: Claim) -> str:
        string = claim["string"]
        letters, face, counts = self.string(string)
        label = int(self.config.task.classes(np.array(self._full(face, counts))))
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
        label = self._shared_label(self.face(claim["letters"])[0])
        require(not self.config.log_n, "ratios alone do not decide a model scaled by log n")
        bound, above = number(claim["bound"]), bool(label) or self.several
        require(bound > 0 if above else bound <= 0, "the bound is on the wrong side")

        def holds(face: Face, column: int, low: Sequence[float], high: Sequence[float]) -> None:
            logit, end = self._asked(label).ratio_box(face, column, low, high), arb(bound)
            held = kernel.is_at_most(end, logit) if above else kernel.is_at_most(logit, end)
            require(held, f"the logit is not proved to stay beyond {bound}")

        letters = self.cover_ratios(claim, holds)
        side = "at least" if above else "at most"
        what = "margin" if self.several else "logit"
        return f"every string over exactly {letters} is right: {what} {side} {bound:.6g}"

    def _right_beyond(self, claim: Claim) -> str:
        letters, face = self.face(claim["letters"])
        start, label = whole(claim["length"]), self._shared_label(letters)
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
            self._shared_label(letters) != self._shared_label(single),
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

    # -- what is asked of the model --------------------------------------------------------------

    def _asked(self, label: int) -> BoxModel:
        """Who bounds what makes this label right: the logit, or of several classes its margin."""
        return self.model.of_class(label) if self.several else self.model

    def is_right(self, label: int | None, bound: Callable[[BoxModel], Ball]) -> bool:
        """Whether what the model is asked to bound proves this label the answer."""
        if label is None:
            return False
        return is_right(bound(self._asked(label)), bool(label) or self.several)

    # -- what claims are about -----------------------------------------------------------------

    def _shared_label(self, letters: str) -> int:
        label = self.config.task.class_of_support(frozenset(letters))
        require(label is not None, f"strings over {letters} do not share a label")
        return int(label or 0)

    def label(self, face: tuple[int, ...], low: Sequence[int], high: Sequence[int]) -> int | None:
        """The class of every string in a box of counts, None if they may differ."""
        alphabet, task = self.config.alphabet, self.config.task
        shared = task.class_of_support(frozenset(alphabet.letters[i] for i in face))
        if shared is not None:
            return shared
        if task.kind == "most_frequent":
            return _leader(face, low, high)
        if task.kind not in ("parity", "at_least", "majority"):
            # A rule of which nothing is known but the labels of single strings.
            if list(low) != list(high):
                return None
            return int(task.classes(np.array(self._full(face, low))))
        column = face.index(alphabet.index(task.needs))
        if task.kind == "parity":
            # Only the one letter's number counts, and it must be known.
            ends = [low, low] if low[column] == high[column] else []
        else:
            # at_least and majority rise with their own letter, and fall or stay with the others.
            least, most = [*high], [*low]
            least[column], most[column] = low[column], high[column]
            ends = [least, most]
        labels = set()
        for counts in ends:
            labels.add(int(task.classes(np.array(self._full(face, counts)))))
        return labels.pop() if len(labels) == 1 else None

    def _full(self, face: Face, counts: Sequence[int]) -> list[int]:
        """Counts of some letters among zeros for the others."""
        full = [0] * self.config.alphabet.size
        for letter, count in zip(face, counts, strict=True):
            full[letter] = count
        return full

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
        return Proved(
            tuple(sentences), horizon, infinite, finite, through, tuple(self.wrong), negative
        )


def is_right(found: Ball, above: bool) -> bool:
    """Whether a logit is proved to be on this side of zero, which itself is not above."""
    return kernel.is_positive(found) if above else kernel.is_not_positive(found)


def _leader(face: Face, low: Sequence[int], high: Sequence[int]) -> int | None:
    """The letter that occurs most often throughout a box, ties going to the earlier one."""
    for i, letter in enumerate(face):
        ahead = (
            low[i] > high[j] if j < i else low[i] >= high[j] for j in range(len(face)) if j != i
        )
        if all(ahead):
            return letter
    return None
