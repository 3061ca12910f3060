"""What claims are about: labels of boxes, and who bounds what makes them right.

Part of the checker (checker.py): nothing here is taken from the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification import kernel
from tsc_interp.verification.box_claims import BoxClaims, Face, require
from tsc_interp.verification.checker_model import BoxModel
from tsc_interp.verification.kernel import Ball


class LabelledClaims(BoxClaims):
    """Claims about one model and its task."""

    def __init__(self, config: ClassifierConfig, model: BoxModel, pay: Callable[[], None]) -> None:
        super().__init__(config, pay)
        self.model, self.several = model, config.n_outputs > 2

    # -- what is asked of the model --------------------------------------------------------------

    def asked(self, label: int) -> BoxModel:
        """Who bounds what makes this label right: the logit, or of several classes its margin."""
        return self.model.of_class(label) if self.several else self.model

    def is_right(self, label: int | None, bound: Callable[[BoxModel], Ball]) -> bool:
        """Whether what the model is asked to bound proves this label the answer."""
        if label is None:
            return False
        return is_right(bound(self.asked(label)), self.above(label))

    def above(self, label: int) -> bool:
        """On which side of zero that has to be: the margin of a class always above."""
        return bool(label) or self.several

    # -- what claims are about -----------------------------------------------------------------

    def shared_label(self, letters: str) -> int:
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
            return int(task.classes(np.array(self.full(face, low))))
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
            labels.add(int(task.classes(np.array(self.full(face, counts)))))
        return labels.pop() if len(labels) == 1 else None

    def full(self, face: Face, counts: Sequence[int]) -> list[int]:
        """Counts of some letters among zeros for the others."""
        full = [0] * self.config.alphabet.size
        for letter, count in zip(face, counts, strict=True):
            full[letter] = count
        return full


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
