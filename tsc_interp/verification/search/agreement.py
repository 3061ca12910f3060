"""Where two classifiers first answer differently, and what proves that they do not.

The search is the one for a first error (search.py), with another model in the place of the task. It
asks for an *agreement margin*: the larger of "both say yes" (the smaller of the two logits) and
"both say no" (the smaller of their negatives; zero says no). Above zero, the two answer alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.bounds.exact import require_two_classes
from tsc_interp.verification.bounds.supports import Supports, count_box_bounds
from tsc_interp.verification.search.search import (
    RIGHT,
    UNDECIDED,
    WRONG,
    Flags,
    Integers,
    answered,
)


@dataclass(frozen=True)
class TwoModels:
    """A judge (search.py) to whom `right` means that both models answer alike."""

    first: Supports
    second: Supports

    def __post_init__(self) -> None:
        for supports in (self.first, self.second):
            require_two_classes(supports.config)

    @property
    def config(self) -> ClassifierConfig:
        return self.first.config

    def label(self, letters: tuple[int, ...]) -> int | None:
        return None

    def cost(self, letters: tuple[int, ...]) -> int:
        return self.first.cost(letters) + self.second.cost(letters)

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        first_only, second_only, undecided = self.failures(letters, vectors)
        return np.where(undecided, UNDECIDED, np.where(first_only | second_only, WRONG, RIGHT))

    def failures(self, letters: tuple[int, ...], vectors: Integers) -> Sequence[Flags]:
        """To which vectors only the first model says yes, only the second, and undecided ones."""
        first, second = (answered(s, letters, vectors, 1) for s in (self.first, self.second))
        yes, other_yes, no, other_no = first > 0, second > 0, first < 0, second < 0
        return yes & other_no, no & other_yes, (first == UNDECIDED) | (second == UNDECIDED)

    def decided(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Sequence[Flags]:
        (yes, no), (other_yes, other_no) = (
            (least > 0, most <= 0)
            for least, most in (
                count_box_bounds(supports[letters], low.astype(float), high.astype(float))
                for supports in (self.first, self.second)
            )
        )
        return yes & other_no, no & other_yes, (yes & other_yes) | (no & other_no)

    def exact_left(self) -> int:
        return min(self.first.exact.budget, self.second.exact.budget)

    def see_the_same(self) -> bool:
        """Whether one box of ratios gives both models the same weights."""
        return self.first.config.attend_cls == self.second.config.attend_cls
