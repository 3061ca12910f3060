"""Recomputes each claim of a certificate, and derives the conclusion from all of them.

The kinds of claims:

    wrong               the model misclassifies this string
    right_up_to         every string over exactly these letters, up to this length, is right
    right_at_all_lengths   the same for every length: boxes of ratios, one chart per largest letter
    right_beyond        the same from this length on, by the tail bound (scores scaled by log n)
    float32_right_up_to, float32_wrong   the same of the float32 model (float32.py)
    limit               adding ever more of one letter drives the logits of two sets of letters
                        with different labels to one non-zero limit, so one of them fails

Of more than two classes, the index of the largest output is the answer, of equal ones the lowest.
What is said of the logit is then said of the right class's margin, which must be above zero;
`wrong` names the class that is answered, and in the limit some class has a margin above zero.

That boxes are well formed and leave nothing out is checked in box_claims.py. Part of the checker
(check.py): nothing here is taken from the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flint import arb

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.box_claims import BoxClaims, Claim, Support, number, whole
from tsc_interp.verification.checker.budget import require
from tsc_interp.verification.checker.float32 import Float32Proved, FloatClaims
from tsc_interp.verification.checker.labels import Labels
from tsc_interp.verification.checker.model import BoxModel


@dataclass(frozen=True)
class Proved:
    """What the checker derived again: the only thing anyone may call proved."""

    sentences: tuple[str, ...]
    horizon: int | None
    infinite: bool
    finite: bool
    verified_length: Mapping[str, int | None]
    """Per set of letters, the length up to which its strings are right; None is every length."""
    wrong: tuple[str, ...]
    negative_supports: Mapping[str, bool | None]
    float32: Mapping[str, Float32Proved] = field(default_factory=dict)
    """By form of the strings: what holds in float32, whatever the order of sums."""
    multiclass: bool = False
    """Whether the model tells more than two classes apart."""
    labels: str = ""
    """Of a task that is not shipped, a digest of its labels, which no one else knows."""

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
            "negative_faces": dict(self.negative_supports),
        }
        if self.labels:
            stated["labels"] = self.labels
        if self.float32:
            stated["float32"] = {form: proved.to_dict() for form, proved in self.float32.items()}
        return stated


class Derivation:
    """Claims in turn, then what follows from all of them."""

    def __init__(
        self,
        config: ClassifierConfig,
        model: BoxModel,
        pay: Callable[[], None],
        bounded: set[str] | None = None,
        digest: str = "",
    ) -> None:
        self.config, self.model, self.digest = config, model, digest
        self.boxes, self.labels = BoxClaims(config, pay, bounded), Labels(config, model)
        self.float32 = FloatClaims(self.boxes, self.labels)
        self.wrong: dict[str, tuple[str, int]] = {}
        self.limited = False

    def run(self, claims: Any) -> Proved:
        kinds = {
            "wrong": (self._wrong, {"string", "answer"} if self.labels.multiclass else {"string"}),
            "right_up_to": (self._right_up_to, {"letters", "length", "boxes"}),
            "right_at_all_lengths": (self._right_always, {"letters", "bound", "charts"}),
            "right_beyond": (self._right_beyond, {"letters", "length"}),
            "limit": (self._limit, {"letter", "letters"}),
            **self.float32.kinds(),
        }
        return self._conclude(list(self.boxes.sentences(claims, kinds)))

    # -- claims ------------------------------------------------------------------------------

    def _wrong(self, claim: Claim) -> str:
        string = claim["string"]
        letters, support, counts = self.boxes.string(string)
        label = self.labels.of_string(support, counts)
        answer = self.labels.answer(claim, label)
        proved = answer != label and self.model.of_class(answer).is_answer(support, counts)
        require(proved, f"{string} is not proved misclassified")
        self.wrong[string] = letters, sum(counts)
        if self.labels.multiclass:
            return f"{string} is of class {label} and answered {answer}"
        return f"{string} is a false {'negative' if label else 'positive'}"

    def _right_up_to(self, claim: Claim) -> str:
        def holds(support: Support, low: Sequence[int], high: Sequence[int]) -> None:
            label = self.labels.label(support, low, high)
            require(label is not None, f"strings from {low} to {high} differ in label")
            right = self.labels.are_right(support, low, high)
            require(right, f"{low}..{high} is not proved right")

        letters, length = self.boxes.cover_lengths(claim, holds)
        return f"every string over exactly {letters} up to length {length} is right"

    def _right_always(self, claim: Claim) -> str:
        label = self.labels.shared_label(self.boxes.support(claim["letters"])[0])
        require(not self.config.log_n, "ratios alone do not decide a model scaled by log n")
        bound, model = number(claim["bound"]), self.model.of_class(label)
        require(bound <= 0 if model.negated else bound > 0, "the bound is on the wrong side")
        margin = arb(-bound if model.negated else bound)

        def holds(
            support: Support, column: int, low: Sequence[float], high: Sequence[float]
        ) -> None:
            proved = kernel.is_at_most(margin, model.ratio_box(support, column, low, high))
            require(proved, f"the logit is not proved to stay beyond {bound}")

        letters = self.boxes.cover_ratios(claim, holds)
        side = "at most" if model.negated else "at least"
        quantity = "margin" if self.labels.multiclass else "logit"
        return f"every string over exactly {letters} is right: {quantity} {side} {bound:.6g}"

    def _right_beyond(self, claim: Claim) -> str:
        letters, support = self.boxes.support(claim["letters"])
        start, label = whole(claim["length"]), self.labels.shared_label(letters)
        require(self.config.log_n and start >= 2, "the tail bound needs scores scaled by log n")
        model = self.model.of_class(label)
        require(model.answers(model.tail(support, start)), f"{letters}: the tail is not proved")
        self.boxes.from_length(letters, start)
        return f"every string over exactly {letters} of {start} letters or more is right"

    def _limit(self, claim: Claim) -> str:
        letters, _ = self.boxes.support(claim["letters"])
        single, support = self.boxes.support(claim["letter"])
        require(not self.config.log_n, "the limit argument needs scores that do not grow")
        require(single in letters and len(single) == 1, "the letter must be one of the letters")
        require(
            self.labels.shared_label(letters) != self.labels.shared_label(single),
            "the two sets of letters must have different labels",
        )
        classes = range(max(2, self.config.n_outputs))
        limits = (self.model.of_class(label).limit(support) for label in classes)
        require(any(map(kernel.is_positive, limits)), f"the limit for {single} may be zero")
        self.limited = True
        limit = "limit with one largest output" if self.labels.multiclass else "non-zero limit"
        return (
            f"the logits of {single}^n and of strings over {letters} with ever more {single} share "
            f"a {limit}, so one of them is wrong: the horizon is finite"
        )

    # -- conclusion --------------------------------------------------------------------------

    def _conclude(self, sentences: list[str]) -> Proved:
        through = self.boxes.through()
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
            if not self.labels.multiclass
            and self.config.task.class_of_support(frozenset(letters)) == 0
        }
        holding = [letters for letters, holds in negative.items() if holds]
        if horizon is not None:
            sentences.append(f"the horizon is {horizon}")
        if holding:
            sentences.append(f"no false positive of any length over {', '.join(holding)}")
        if infinite:
            sentences.append("the horizon is infinite: no string of any length is misclassified")
        float32 = self.float32.proved()
        for form, proved in float32.items():
            sentences.append(
                f"in float32 ({form}, any order of sums) every string up to length "
                f"{proved.safe_through} is right"
            )
        shared = (self.config.task.class_of_support(frozenset(letters)) for letters in through)
        if self.digest and any(label is not None for label in shared):
            sentences.append(
                f"this believes the task {self.config.task.kind!r} that all strings over the same "
                "letters have the label that its label_of_support says"
            )
        return Proved(
            tuple(sentences), horizon, infinite, finite, through, tuple(self.wrong), negative,
            float32, self.labels.multiclass, self.digest,
        )  # fmt: skip
