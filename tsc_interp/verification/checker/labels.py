"""Gives the labels of boxes of counts, and says where the model is proved to answer with them.

Part of the checker (check.py): nothing here is taken from the search.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.checker.box_claims import Claim, Support, whole
from tsc_interp.verification.checker.budget import require
from tsc_interp.verification.checker.model import BoxModel


class Labels:
    """The classes of a task's strings, and whether the model is proved to answer with them."""

    def __init__(self, config: ClassifierConfig, model: BoxModel) -> None:
        self.config, self.model, self.multiclass = config, model, config.n_outputs > 2

    def are_right(self, support: Support, low: Sequence[int], high: Sequence[int]) -> bool:
        """Whether every string in a box of counts is proved right."""
        label = self.label(support, low, high)
        if label is None:
            return False
        model = self.model.of_class(label)
        return model.answers(model.count_box(support, low, high))

    def shared_label(self, letters: str) -> int:
        label = self.config.task.class_of_support(frozenset(letters))
        require(label is not None, f"strings over {letters} do not share a label")
        return int(label or 0)

    def of_string(self, support: Support, counts: Sequence[int]) -> int:
        """The class of one string."""
        return int(self.config.task.classes(np.array(self.full(support, counts))))

    def answer(self, claim: Claim, label: int) -> int:
        """The class with which a claim says a string of this label is answered."""
        if not self.multiclass:
            return 1 - label
        answer = whole(claim["answer"])
        require(answer < self.config.n_outputs, "a class the model has no output for")
        return answer

    def label(self, support: Support, low: Sequence[int], high: Sequence[int]) -> int | None:
        """The class of every string in a box of counts, None if they may differ."""
        alphabet, task = self.config.alphabet, self.config.task
        shared = task.class_of_support(frozenset(alphabet.letters[i] for i in support))
        if shared is not None:
            return shared
        if task.kind == "most_frequent":
            return _leader(support, low, high)
        if task.kind not in ("parity", "at_least", "majority"):
            # A rule of which nothing is known but the labels of single strings.
            if list(low) != list(high):
                return None
            return self.of_string(support, low)
        column = support.index(alphabet.index(task.needs))
        if task.kind == "parity":
            # Only the one letter's number counts, and it must be known.
            ends = [low, low] if low[column] == high[column] else []
        else:
            # at_least and majority rise with their own letter, and fall or stay with the others.
            least, most = [*high], [*low]
            least[column], most[column] = low[column], high[column]
            ends = [least, most]
        labels = {self.of_string(support, counts) for counts in ends}
        return labels.pop() if len(labels) == 1 else None

    def full(self, support: Support, counts: Sequence[int]) -> list[int]:
        """Counts of some letters among zeros for the others."""
        full = [0] * self.config.alphabet.size
        for letter, count in zip(support, counts, strict=True):
            full[letter] = count
        return full


def _leader(support: Support, low: Sequence[int], high: Sequence[int]) -> int | None:
    """The letter that occurs most often throughout a box, ties going to the earlier one."""
    for i, letter in enumerate(support):
        ahead = (
            low[i] > high[j] if j < i else low[i] >= high[j] for j in range(len(support)) if j != i
        )
        if all(ahead):
            return letter
    return None
