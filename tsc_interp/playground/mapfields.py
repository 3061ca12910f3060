"""What the failure map shows at each of its points: the logit, and whether the answer is wrong.

The same numbers as in the page's `assets/drawmap.mjs`. They are what the
verifier guesses in float64; what is too close to zero is not called wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.playground import geometry
from tsc_interp.playground.geometry import Array
from tsc_interp.tasks.counts import Majority
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.labels import class_of_support, labels_of

DEFAULT_LENGTH = 1000
Support = tuple[int, ...]

_CLOSE = 1e-9
"""Logits this close to zero are rounding as likely as errors: a picture leaves them out."""


@dataclass(frozen=True)
class SupportField:
    """One support at its points: the logit, and a number that is positive where it is wrong."""

    places: Support
    """Which corners of the map: three for the inside, two for a band, one for a disc."""
    logits: Array
    wrong: Array


@dataclass(frozen=True)
class MapView:
    """What is drawn: up to three letters, the lens, and the length where the answer needs one."""

    config: ClassifierConfig
    letters: Support
    lens: float
    length: int | None

    @property
    def names(self) -> list[str]:
        return [self.config.alphabet.letters[letter] for letter in self.letters]

    def fields(self, model: CountModel) -> list[SupportField]:
        """Every support that has strings, the one with most letters first."""
        corners = range(len(self.letters))
        edges = geometry.EDGES if len(self.letters) == 3 else ()
        shown: list[Support] = [tuple(corners), *edges, *((place,) for place in corners)]
        longest = len(self.letters) if self.length is None else self.length
        return [self._field(model, places) for places in shown if len(places) <= longest]

    def _field(self, model: CountModel, places: Support) -> SupportField:
        shares = {1: np.ones((1, 1)), 2: geometry.edge_shares(), 3: geometry.triangle_shares()}
        ratios = geometry.through_lens(shares[len(places)], self.lens)
        counts = ratios if self.length is None else nearest_strings(ratios, self.length)
        support = tuple(self.letters[place] for place in places)
        # The verifier's sets list their letters in the order of the alphabet.
        counts = counts[:, np.argsort(support)]
        logits = model.guess.logits(tuple(sorted(support)), counts)
        labels, margin = self._labels(tuple(sorted(support)), counts)
        wrong = (
            (np.sign(logits) > 0) != labels if labels is not None else np.zeros(len(logits), bool)
        )
        wrong &= np.abs(logits) > _CLOSE
        size = np.minimum(np.maximum(np.abs(logits), 1e-9), margin)
        logits = np.clip(np.nan_to_num(logits), -1e6, 1e6)
        return SupportField(places, logits, np.where(wrong, size, -size))

    def _labels(
        self, support: Support, counts: NDArray[Any]
    ) -> tuple[NDArray[np.bool_] | None, Array]:
        """The labels, and how far each point is from where the label changes along a line."""
        anywhere = np.full(len(counts), np.inf)
        task, known = self.config.task, class_of_support(self.config, support)
        if known is not None:
            return np.full(len(counts), bool(known)), anywhere
        if isinstance(task, Majority) and self.length is None:
            own = support.index(self.config.alphabet.letters.index(task.letter))
            margin = 2 * counts[:, own] - 1
            return margin > 0, 40 * np.abs(margin)
        if task.kind == "parity":
            return None, anywhere  # neighbours alternate
        # At least one of a letter that is there, or whole counts.
        return labels_of(self.config, support, np.ceil(counts).astype(np.int64)), anywhere


def map_length(config: ClassifierConfig, length: int | None) -> int | None:
    """None where ratios alone decide answer and label, so that one map holds for every length."""
    ratios_decide = not config.attend_cls and not config.log_n
    by_count = config.task.kind == "parity" or getattr(config.task, "k", 1) > 1
    if ratios_decide and not by_count:
        return None
    return DEFAULT_LENGTH if length is None else length


def nearest_strings(ratios: Array, length: int) -> NDArray[np.int64]:
    """Counts `[string letter]` of about these ratios: every letter occurs, `length` in all."""
    # Whole millionths, so that equal shares stay equal whatever the rounding.
    wanted = np.floor(ratios * length * 1e6 + 0.5) / 1e6
    counts = np.maximum(1, np.floor(wanted)).astype(np.int64)
    rows = np.arange(len(counts))
    for _ in range(ratios.shape[1]):
        short = length - counts.sum(axis=1)
        # The letter that is furthest below what it should have gets one more.
        most = np.argmax(wanted - counts, axis=1)
        counts[rows, most] += short > 0
    # Letters raised to one are paid for by the most frequent one.
    counts[rows, np.argmax(counts, axis=1)] += length - counts.sum(axis=1)
    return counts
