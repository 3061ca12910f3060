"""In which way strings are right or wrong: what a search and a count ask about vectors and boxes.

A way is a number: below `wrong` a way of being wrong, `wrong` itself means right, `OPEN` that it is
not known, or not the same throughout. What is likely is guessed in float64, and closes nothing;
what is shown or decided, the trusted base says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.trusted.judge import rounded_up
from tsc_interp.verification.count_model import CountModel, require_two_classes
from tsc_interp.verification.guess import Array, Integers, Support
from tsc_interp.verification.labels import (
    Flags,
    class_of_support,
    class_range,
    classes_of,
)

OPEN = -1


class Ways(Protocol):
    """A question about every string: of one model and its task, or of two models."""

    @property
    def config(self) -> ClassifierConfig:
        """The letters and what is asked of them."""

    @property
    def wrong(self) -> int:
        """How many ways of being wrong there are; this number is right."""

    @property
    def exact_work(self) -> int:
        """What is left for single inputs that only balls decide, in microseconds."""

    def label(self, letters: Support) -> int | None:
        """What all strings over exactly these letters should be called, if they share it."""

    def cost(self, letters: Support) -> int:
        """About how many microseconds a box of these letters takes."""

    def guessed(self, letters: Support, vectors: Integers) -> Integers:
        """The way of each count vector, in float64."""

    def likely(self, letters: Support, low: Integers, high: Integers) -> Integers:
        """The way of each whole box, in float64; `OPEN` where it may differ."""

    def shown(
        self, letters: Support, low: Integers, high: Integers, ways: Integers,
        group: Integers | None = None,
    ) -> Flags:  # fmt: skip
        """Which boxes are shown to be answered in this way throughout.

        With groups, boxes are single vectors, and those of a group are neighbours.
        """

    def decided(self, letters: Support, vectors: Integers) -> Integers:
        """The way of each count vector, `OPEN` where it cannot be told."""


class TaskWays:
    """Right is what the task says.

    There are two ways to be wrong, false positives and false negatives, and one if there are more
    than two classes.
    """

    def __init__(self, model: CountModel) -> None:
        self.model, self.config = model, model.config
        self.wrong = 1 if model.multiclass else 2

    @property
    def exact_work(self) -> int:
        return self.model.exact_work

    def label(self, letters: Support) -> int | None:
        return class_of_support(self.config, letters)

    def cost(self, letters: Support) -> int:
        return self.model.cost(letters)

    def guessed(self, letters: Support, vectors: Integers) -> Integers:
        answers = self.model.guess.answers(letters, vectors)
        return self._ways(answers, classes_of(self.config, letters, vectors))

    def likely(self, letters: Support, low: Integers, high: Integers) -> Integers:
        labels, answers = self._corners(letters, low, high)
        gaps = self.model.guess.gaps(letters, low.astype(float), high.astype(float), answers)
        won = self.model.judge.margins.won(gaps, answers) | ~self._wanted(answers, labels)
        return np.where(won.all(1), self._ways(answers, labels), OPEN)

    def shown(
        self, letters: Support, low: Integers, high: Integers, ways: Integers,
        group: Integers | None = None,
    ) -> Flags:  # fmt: skip
        labels, answers = self._corners(letters, low, high)
        winner = np.where(ways == self.wrong, labels, answers if self.wrong == 1 else 1 - labels)
        # A class that is none wins nothing, and no class beats itself.
        sure = (ways >= 0) & (labels >= 0) & ((winner == labels) == (ways == self.wrong))
        winner = np.where(sure, winner, 0)
        beaten = self.beats(letters, low, high, winner, self._wanted(winner, labels), group)
        return np.asarray(sure & beaten)

    def decided(self, letters: Support, vectors: Integers) -> Integers:
        answers = self.model.answers(letters, vectors)
        ways = self._ways(answers, classes_of(self.config, letters, vectors))
        some = np.flatnonzero(ways == OPEN)
        if self.model.multiclass and len(some):
            # Two classes may be too close to tell apart, and both above the label.
            rest = vectors[some]
            guessed = self.guessed(letters, rest)
            shown = self.shown(letters, rest, rest, guessed)
            ways[some[shown]] = guessed[shown]
        return ways

    def beats(
        self, letters: Support, low: Integers, high: Integers, winner: Integers, wanted: Flags,
        group: Integers | None = None,
    ) -> Flags:  # fmt: skip
        """In which boxes a class is shown to beat each wanted one."""
        return self.model.shown(letters, low, high, winner, wanted, None, group)

    def _corners(
        self, letters: Support, low: Integers, high: Integers
    ) -> tuple[Integers, Integers]:
        """The label of each box, -1 if it may differ, and about what its low corner is answered."""
        labels = class_range(self.config, letters, low, high)
        return labels, self.model.guess.answers(letters, low)

    def _wanted(self, winner: Integers, labels: Integers) -> Flags:
        """Right beats every other class, and wrong beats the label."""
        classes = np.arange(self.model.n_classes)
        right, label = (winner == labels)[:, None], labels[:, None]
        return np.asarray(np.where(right, classes != label, classes == label))

    def _ways(self, answers: Integers, labels: Integers) -> Integers:
        mistakes = labels if self.wrong == 2 else np.zeros_like(labels)
        ways = np.where(answers == labels, self.wrong, mistakes)
        return np.where((answers < 0) | (labels < 0), OPEN, ways)


class FloatWays(TaskWays):
    """Right is: right in float32, whatever the order of sums. What is not is wrong, or may be.

    Args:
        model: The model.
        form: How strings are given to it.
    """

    def __init__(self, model: CountModel, form: str) -> None:
        super().__init__(model)
        self.wrong, self.form = 1, form
        self._errors: dict[tuple[Support, int], float] = {}

    @property
    def exact_work(self) -> int:
        return 1 << 60

    def guessed(self, letters: Support, vectors: Integers) -> Integers:
        return self._safe(letters, vectors, vectors, classes_of(self.config, letters, vectors))

    def likely(self, letters: Support, low: Integers, high: Integers) -> Integers:
        labels, _ = self._corners(letters, low, high)
        safe = self._safe(letters, low, high, np.maximum(labels, 0))
        return np.where((labels >= 0) & (safe > 0), safe, OPEN)

    def decided(self, letters: Support, vectors: Integers) -> Integers:
        labels = classes_of(self.config, letters, vectors)
        wanted = self.model.others(labels)
        return self.beats(letters, vectors, vectors, labels, wanted).astype(np.int64)

    def beats(
        self, letters: Support, low: Integers, high: Integers, winner: Integers, wanted: Flags,
        group: Integers | None = None,
    ) -> Flags:  # fmt: skip
        return self.model.shown(letters, low, high, winner, wanted, self.form, group)

    def error(self, letters: Support, vector: Sequence[int], label: int) -> float:
        """How much of a margin float32 may lose on a vector."""
        point, winner = np.array([vector]), np.array([label])
        wanted = self.model.others(winner)
        real, least = (
            self.model.gaps(letters, point, point, winner, wanted, form)[wanted]
            for form in (None, self.form)
        )
        return float((real - least).max())

    def _safe(self, letters: Support, low: Integers, high: Integers, labels: Integers) -> Integers:
        """1 where the margin is likely above what float32 may lose of it."""
        gaps = self.model.guess.gaps(letters, low.astype(float), high.astype(float), labels)
        margins = np.where(self.model.others(labels), gaps, np.inf).min(1)
        lengths = high.sum(1)
        reach = [rounded_up(int(n)) for n in lengths.tolist()]
        errors = np.array([self._error(letters, n) for n in reach])
        return np.asarray(margins > errors, dtype=np.int64)

    def _error(self, letters: Support, length: int) -> float:
        """About the same of all vectors of a length."""
        if (letters, length) not in self._errors:
            vector = [max(1, length // len(letters))] * len(letters)
            self._errors[letters, length] = self.error(letters, vector, 0)
        return self._errors[letters, length]


class TwoModels:
    """Right is: two models answer alike. Wrong: the first alone, or the second alone, says yes."""

    wrong = 2

    def __init__(self, first: CountModel, second: CountModel) -> None:
        for model in (first, second):
            require_two_classes(model.config)
        self.first, self.second, self.config = first, second, first.config

    @property
    def exact_work(self) -> int:
        return min(self.first.exact_work, self.second.exact_work)

    def label(self, letters: Support) -> int | None:
        return None

    def cost(self, letters: Support) -> int:
        return self.first.cost(letters) + self.second.cost(letters)

    def guessed(self, letters: Support, vectors: Integers) -> Integers:
        return _apart(*(model.guess.answers(letters, vectors) for model in self._models))

    def likely(self, letters: Support, low: Integers, high: Integers) -> Integers:
        ways, ends = self.guessed(letters, low), (low.astype(float), high.astype(float))
        for model in self._models:
            answers = model.guess.answers(letters, low)
            won = model.judge.margins.won(model.guess.gaps(letters, *ends, answers), answers)
            ways = np.where((won | ~model.others(answers)).all(1), ways, OPEN)
        return ways

    def shown(
        self, letters: Support, low: Integers, high: Integers, ways: Integers,
        group: Integers | None = None,
    ) -> Flags:  # fmt: skip
        answers = [model.guess.answers(letters, low) for model in self._models]
        sure = (ways >= 0) & (_apart(*answers) == ways)
        for model, winner in zip(self._models, answers, strict=True):
            sure &= model.shown(letters, low, high, winner, model.others(winner), None, group)
        return np.asarray(sure)

    def decided(self, letters: Support, vectors: Integers) -> Integers:
        return _apart(*(model.answers(letters, vectors) for model in self._models))

    def see_the_same(self) -> bool:
        """Whether one box of ratios gives both models the same weights."""
        return self.first.config.attend_cls == self.second.config.attend_cls

    @property
    def _models(self) -> tuple[CountModel, CountModel]:
        return self.first, self.second


def _apart(first: Array | Integers, second: Array | Integers) -> Integers:
    ways = np.where(first == second, 2, np.where(first == 1, 0, 1))
    return np.where((first < 0) | (second < 0), OPEN, ways)
