"""What follows from a certificate's claims: each derived again, then all of them put together.

The kinds of claims:

    wrong               the model misclassifies this string
    right_up_to         every string over exactly these letters, up to this length, is right
    right_at_all_lengths   the same for every length: boxes of ratios, one chart per largest letter
    right_beyond        the same from this length on, by the tail bound (scores scaled by log n)
    limit               adding ever more of one letter drives the logits of two sets of letters
                        with different labels to one non-zero limit, so one of them fails

Part of the checker (checker.py): nothing here is taken from the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from flint import arb

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError
from tsc_interp.verification import kernel
from tsc_interp.verification.checker_model import BoxModel
from tsc_interp.verification.coverage import covered
from tsc_interp.verification.kernel import Ball

MAX_BOXES = 500_000


class CertificateError(TscError):
    """A certificate that is not accepted, with the reason."""

    exit_code = 3


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


def require(holds: bool, problem: str) -> None:
    if not holds:
        raise CertificateError(f"rejected: {problem}")


class Derivation:
    """Claims in turn, then what follows from all of them."""

    def __init__(self, config: ClassifierConfig, model: BoxModel, pay: Callable[[], None]) -> None:
        self.config, self.model, self.pay = config, model, pay
        self.boxes = 0
        self.wrong: dict[str, tuple[str, int]] = {}
        self.up_to: dict[str, int] = {}
        self.always: set[str] = set()
        self.beyond: dict[str, int] = {}
        self.limited = False

    def run(self, claims: Any) -> Proved:
        require(isinstance(claims, (list, tuple)), "claims are a list")
        kinds = {
            "wrong": (self._wrong, {"string"}),
            "right_up_to": (self._right_up_to, {"letters", "length", "boxes"}),
            "right_at_all_lengths": (self._right_always, {"letters", "bound", "charts"}),
            "right_beyond": (self._right_beyond, {"letters", "length"}),
            "limit": (self._limit, {"letter", "letters"}),
        }
        sentences = []
        for claim in claims:
            require(claim["kind"] in kinds, f"unknown kind of claim {claim['kind']!r}")
            check_claim, fields = kinds[claim["kind"]]
            require(
                set(claim) == {"kind"} | fields, f"{claim['kind']} needs fields {sorted(fields)}"
            )
            self.pay()
            sentences.append(check_claim(claim))
        return self._conclude(sentences)

    # -- claims ------------------------------------------------------------------------------

    def _wrong(self, claim: Mapping[str, Any]) -> str:
        string = claim["string"]
        counts = [int(count) for count in self.config.alphabet.counts(string)]
        require(
            self.config.alphabet.write(counts) == string,
            f"{string!r} is not written as a sorted run-length string",
        )
        label = bool(self.config.task.labels(np.array(counts)))
        face = tuple(i for i, count in enumerate(counts) if count)
        proved = self.model.is_wrong(face, [counts[i] for i in face], label)
        require(proved, f"{string} is not proved misclassified")
        self.wrong[string] = "".join(self.config.alphabet.letters[i] for i in face), sum(counts)
        return f"{string} is a false {'negative' if label else 'positive'}"

    def _right_up_to(self, claim: Mapping[str, Any]) -> str:
        letters, face = self._face(claim["letters"])
        length = whole(claim["length"])
        boxes = [
            ([whole(n) for n in low], [whole(n) for n in high])
            for low, high in self._counted(claim["boxes"])
        ]
        for low, high in boxes:
            require(len(low) == len(high) == len(face), "a box with the wrong number of letters")
            require(all(1 <= a <= b for a, b in zip(low, high, strict=True)), "an empty box")
            require(sum(low) <= length, f"the box from {low} holds no string of the claim")
            label = self.label(face, low, high)
            require(label is not None, f"{letters}: strings from {low} to {high} differ in label")
            logit = self.model.count_box(face, low, high)
            require(is_right(logit, label), f"{letters}: {low}..{high} is not proved right")
        everything = ([1] * len(face), [max(length - len(face) + 2, 1)] * len(face))
        halfopen = [(low, [end + 1 for end in high]) for low, high in boxes]
        complete = covered(everything, halfopen, length, self.pay)
        require(complete, f"{letters}: the boxes leave strings out")
        self.up_to[letters] = max(length, self.up_to.get(letters, 0))
        return f"every string over exactly {letters} up to length {length} is right"

    def _right_always(self, claim: Mapping[str, Any]) -> str:
        letters, face = self._face(claim["letters"])
        label = self._shared_label(letters)
        require(not self.config.log_n, "ratios alone do not decide a model scaled by log n")
        charts = {chart["largest"]: chart for chart in claim["charts"]}
        require(sorted(charts) == sorted(letters), f"{letters}: one chart per letter is needed")
        require(len(charts) == len(claim["charts"]), f"{letters}: a chart is given twice")
        bound, free = number(claim["bound"]), len(face) - 1 + int(self.config.attend_cls)
        require(bound > 0 if label else bound <= 0, f"{letters}: the bound is on the wrong side")
        for column, letter in enumerate(letters):
            require(set(charts[letter]) == {"largest", "boxes"}, "a chart has largest and boxes")
            boxes = [
                ([*map(number, low)], [*map(number, high)])
                for low, high in self._counted(charts[letter]["boxes"])
            ]
            for low, high in boxes:
                require(len(low) == len(high) == free, "a box with the wrong number of weights")
                require(all(0 <= a < b <= 1 for a, b in zip(low, high, strict=True)), "a bad box")
                logit, end = self.model.ratio_box(face, column, low, high), arb(bound)
                held = kernel.is_at_most(end, logit) if label else kernel.is_at_most(logit, end)
                require(held, f"{letters}: the logit is not proved to stay beyond {bound}")
            everything = ([0.0] * free, [1.0] * free)
            complete = covered(everything, boxes, None, self.pay)
            require(complete, f"{letters}: the boxes leave ratios out")
        self.always.add(letters)
        side = "at least" if label else "at most"
        return f"every string over exactly {letters} is right: logit {side} {bound:.6g}"

    def _right_beyond(self, claim: Mapping[str, Any]) -> str:
        letters, face = self._face(claim["letters"])
        start, label = whole(claim["length"]), self._shared_label(letters)
        require(self.config.log_n and start >= 2, "the tail bound needs scores scaled by log n")
        require(is_right(self.model.tail(face, start), label), f"{letters}: the tail is not proved")
        self.beyond[letters] = min(start, self.beyond.get(letters, start))
        return f"every string over exactly {letters} of {start} letters or more is right"

    def _limit(self, claim: Mapping[str, Any]) -> str:
        letters, _ = self._face(claim["letters"])
        single, face = self._face(claim["letter"])
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

    def _face(self, letters: Any) -> tuple[str, tuple[int, ...]]:
        return letters_of(self.config, letters)

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
        column = face.index(alphabet.index(task.needs))
        if task.kind == "parity":
            # Only the one letter's number counts, and it must be known.
            ends = [low, low] if low[column] == high[column] else []
        else:
            # at_least and majority rise with their own letter, and fall or stay with the others.
            require(task.kind in ("at_least", "majority"), f"no rule for the task {task.kind}")
            least, most = [*high], [*low]
            least[column], most[column] = low[column], high[column]
            ends = [least, most]
        labels = set()
        for counts in ends:
            full = [0] * alphabet.size
            for letter, count in zip(face, counts, strict=True):
                full[letter] = count
            labels.add(bool(task.labels(np.array(full))))
        return labels.pop() if len(labels) == 1 else None

    def _counted(self, boxes: Any) -> Sequence[Any]:
        require(isinstance(boxes, list), "boxes are a list")
        self.boxes += len(boxes)
        require(self.boxes <= MAX_BOXES, f"more than {MAX_BOXES:,} boxes are too many to check")
        return boxes  # type: ignore[no-any-return]

    # -- conclusion --------------------------------------------------------------------------

    def _conclude(self, sentences: list[str]) -> Proved:
        alphabet = self.config.alphabet.letters
        faces = ["".join(f) for k in range(1, len(alphabet) + 1) for f in combinations(alphabet, k)]
        through = {letters: self._right_through(letters) for letters in faces}
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

    def _right_through(self, letters: str) -> int | None:
        """Shorter strings than letters there are none; a tail must begin where a proof ends."""
        start = self.beyond.get(letters)
        known = max(self.up_to.get(letters, 0), len(letters) - 1)
        joined = start is not None and known >= start - 1
        return None if letters in self.always or joined else known


def is_right(logit: Ball, label: bool | None) -> bool:
    return kernel.is_positive(logit) if label else kernel.is_not_positive(logit)


def letters_of(config: ClassifierConfig, letters: Any) -> tuple[str, tuple[int, ...]]:
    """A set of letters as a certificate names it, and their places in the alphabet."""
    alphabet = config.alphabet.letters
    valid = isinstance(letters, str) and letters and sorted(set(letters)) == list(letters)
    require(bool(valid) and set(letters) <= set(alphabet), f"{letters!r} is not a set of letters")
    return letters, tuple(alphabet.index(letter) for letter in letters)


def whole(value: Any) -> int:
    require(type(value) is int and 0 <= value <= 10**12, f"{value!r} is not a whole number")
    return int(value)


def number(value: Any) -> float:
    require(type(value) in (int, float) and abs(value) < 1e300, f"{value!r} is not a number")
    return float(value)
