"""What follows from a certificate's claims: each derived again, then all of them put together.

The kinds of claims:

    wrong               the model misclassifies this string
    right_up_to         every string over exactly these letters, up to this length, is right
    right_at_all_lengths   the same for every length: boxes of ratios, one chart per largest letter
    right_beyond        the same from this length on, by the tail bound (scores scaled by log n)
    limit               adding ever more of one letter drives the logits of two sets of letters
                        with different labels to one non-zero limit, so one of them fails

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
        self.model = model
        self.wrong: dict[str, tuple[str, int]] = {}
        self.limited = False

    def run(self, claims: Any) -> Proved:
        kinds = {
            "wrong": (self._wrong, {"string"}),
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
        label = bool(self.config.task.labels(np.array(self._full(face, counts))))
        proved = self.model.is_wrong(face, counts, label)
        require(proved, f"{string} is not proved misclassified")
        self.wrong[string] = letters, sum(counts)
        return f"{string} is a false {'negative' if label else 'positive'}"

    def _right_up_to(self, claim: Claim) -> str:
        def holds(face: Face, low: Sequence[int], high: Sequence[int]) -> None:
            label = self.label(face, low, high)
            require(label is not None, f"strings from {low} to {high} differ in label")
            logit = self.model.count_box(face, low, high)
            require(is_right(logit, label), f"{low}..{high} is not proved right")

        letters, length = self.cover_lengths(claim, holds)
        return f"every string over exactly {letters} up to length {length} is right"

    def _right_always(self, claim: Claim) -> str:
        label = self._shared_label(self.face(claim["letters"])[0])
        require(not self.config.log_n, "ratios alone do not decide a model scaled by log n")
        bound = number(claim["bound"])
        require(bound > 0 if label else bound <= 0, "the bound is on the wrong side")

        def holds(face: Face, column: int, low: Sequence[float], high: Sequence[float]) -> None:
            logit, end = self.model.ratio_box(face, column, low, high), arb(bound)
            held = kernel.is_at_most(end, logit) if label else kernel.is_at_most(logit, end)
            require(held, f"the logit is not proved to stay beyond {bound}")

        letters = self.cover_ratios(claim, holds)
        side = "at least" if label else "at most"
        return f"every string over exactly {letters} is right: logit {side} {bound:.6g}"

    def _right_beyond(self, claim: Claim) -> str:
        letters, face = self.face(claim["letters"])
        start, label = whole(claim["length"]), self._shared_label(letters)
        require(self.config.log_n and start >= 2, "the tail bound needs scores scaled by log n")
        require(is_right(self.model.tail(face, start), label), f"{letters}: the tail is not proved")
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
        limit = self.model.limit(face)
        require(
            kernel.is_positive(limit) or kernel.is_positive(-limit),
            f"the limit for {single} may be zero",
        )
        self.limited = True
        return (
            f"the logits of {single}^n and of strings over {letters} with ever more {single} share "
            f"a non-zero limit, so one of them is wrong: the horizon is finite"
        )

    # -- what claims are about -----------------------------------------------------------------

    def _shared_label(self, letters: str) -> bool:
        label = self.config.task.label_of_support(frozenset(letters))
        require(label is not None, f"strings over {letters} do not share a label")
        return bool(label)

    def label(self, face: tuple[int, ...], low: Sequence[int], high: Sequence[int]) -> bool | None:
        """The label of every string in a box of counts, None if they may differ."""
        alphabet, task = self.config.alphabet, self.config.task
        shared = task.label_of_support(frozenset(alphabet.letters[i] for i in face))
        if shared is not None:
            return shared
        if task.kind not in ("parity", "at_least", "majority"):
            # A rule of which nothing is known but the labels of single strings.
            if list(low) != list(high):
                return None
            return bool(task.labels(np.array(self._full(face, low))))
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
            labels.add(bool(task.labels(np.array(self._full(face, counts)))))
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
            if self.config.task.label_of_support(frozenset(letters)) is False
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


def is_right(logit: Ball, label: bool | None) -> bool:
    return kernel.is_positive(logit) if label else kernel.is_not_positive(logit)
