"""Where two classifiers first answer differently, and what proves that they do not.

The search is the one for a first error (search.py), with another model in the place of the task. It
asks for an *agreement margin*: the larger of "both say yes" (the smaller of the two logits) and
"both say no" (the smaller of their negatives; zero says no). Above zero, the two answer alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsc_interp.verification.bounds.exact import require_two_classes
from tsc_interp.verification.bounds.intervals import Array, Interval
from tsc_interp.verification.bounds.supports import TIE, Support, Supports, count_box_bounds
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

    def label(self, letters: tuple[int, ...]) -> int | None:
        return None

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        first, second = (answered(s, letters, vectors, 1) for s in (self.first, self.second))
        unknown = (first == UNDECIDED) | (second == UNDECIDED)
        return np.where(unknown, UNDECIDED, np.where(first == second, RIGHT, WRONG))

    def right(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Flags:
        margin = self.margin(letters)
        ends = [count_box_bounds(s, low.astype(float), high.astype(float)) for s in margin.parts]
        return np.asarray(margin.combined(ends)[0] > 0)

    def exact_left(self) -> int:
        return min(self.first.exact.budget, self.second.exact.budget)

    def margin(self, letters: tuple[int, ...]) -> AgreementSupport:
        return AgreementSupport(self.first[letters], self.second[letters])

    def see_the_same(self) -> bool:
        """Whether one box of ratios gives both models the same weights."""
        return self.first.config.attend_cls == self.second.config.attend_cls


class AgreementSupport:
    """The agreement margin of two logits, for models that both attend to CLS or both do not."""

    def __init__(self, first: Support, second: Support) -> None:
        self.letters, self.parts = first.letters, [first, second]
        self.attends_cls, self.log_n = first.attends_cls, first.log_n or second.log_n
        self.cost = first.cost + second.cost

    def logits(self, counts: Array) -> tuple[Array, Array | float]:
        (one, error), (other, wider) = (support.logits(counts) for support in self.parts)
        return _agreement(one, other, TIE - one, TIE - other), np.maximum(error, wider)

    def bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        return self.combined([part.bounds(light, heavy, shortest, longest) for part in self.parts])

    def combined(self, ends: Sequence[Interval]) -> Interval:
        """The margin's range, given that of each logit."""
        (low, high), (other_low, other_high) = ends
        return (
            _agreement(low, other_low, TIE - high, TIE - other_high),
            _agreement(high, other_high, TIE - low, TIE - other_low),
        )


def _agreement(yes: Array, other_yes: Array, no: Array, other_no: Array) -> Array:
    return np.maximum(np.minimum(yes, other_yes), np.minimum(no, other_no))
