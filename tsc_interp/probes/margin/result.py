"""What the margin probe measures: scores and margins, families that flip, letters that are lost."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsc_interp.results.base import Cell, HeadsResult, LabeledArray, Record, Table

EVERY = 10_000
"""Every n up to here is evaluated; larger ones in steps."""


class Family(Record):
    """All strings with these counts, except that `letter` occurs n times."""

    name: str
    letter: str
    counts: tuple[int, ...]
    """Of every letter of the alphabet; the varied one's entry is the given string's, or 1."""
    cap: int
    first_error: int | None = None
    """The smallest n at which the prediction is wrong, or None if there is none up to the cap."""
    predicted: int | None = None
    """What the scores and values predict for it."""
    start: float = 0.0
    """The logit at n = 1."""
    limit: float | None = None
    """The logit as n grows without end."""

    @property
    def exact(self) -> bool:
        """Whether every smaller n was evaluated."""
        return self.first_error is None or self.first_error <= EVERY

    def string(self, n: int | str) -> str:
        return self.name.replace("{n}", "" if n == 1 else f"{{{n}}}")


class Reduced(Record):
    """A string without the letters its label does not depend on."""

    left_out: str
    string: str
    logit: float


class LostLetter(Record):
    """A given false negative, and which head lost its letter."""

    string: str
    logit: float
    head: int | None = None
    """The head whose weight on its letter falls most, from a string with each letter once."""
    kept: float | None = None
    rival: str | None = None
    """The letter that takes most of the weight instead."""
    reduced: Reduced | None = None


class Prediction(Record):
    """The first error of all: by the formula (formula.py), and by the exact search."""

    predicted: str | None
    predicted_length: int | None
    """None: the formula expects no error."""
    exact: str | None
    exact_length: int | None
    """None: there is none up to `searched` letters."""
    searched: int


class MarginResult(HeadsResult):
    probe: ClassVar[str] = "margin"

    scores: LabeledArray
    """`[layer head letter]`: q·k / sqrt(d_head)."""
    margins: LabeledArray
    """`[layer head letter]`: the highest score minus this letter's."""
    half_weight: LabeledArray
    """`[layer head letter]`: how many of it per letter read halve the latter's weight."""
    sign_change: LabeledArray | None
    """`[layer head letter]`: how many of it per letter read turn the head's effect around."""
    families: tuple[Family, ...] = ()
    logits: LabeledArray | None = None
    """`[family n]`."""
    weights: LabeledArray | None = None
    """`[layer family head n]`: the weight of the letter the head reads."""
    lost: tuple[LostLetter, ...] = ()
    predicted: Prediction | None = None

    @property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """The letter each head reads, `[layer][head]`."""
        letters = self.scores.labels["letter"]
        return tuple(tuple(letters[t] for t in row) for row in self.scores.array.argmax(axis=-1))

    def tables(self) -> tuple[Table, ...]:
        labels = self.scores.labels
        measured = (self.scores, self.margins, self.half_weight)
        rows: list[tuple[Cell, ...]] = [
            (labels["layer"][i], labels["head"][h], self.reads[i][h], labels["letter"][t],
             *(float(array.array[i, h, t]) for array in measured))
            for i, h, t in self._places()
        ]  # fmt: skip
        columns: tuple[str, ...]
        columns = ("layer", "head", "reads", self.unit, "score", "margin", "halves its weight")
        scores = Table.from_rows(f"Scores and margins{self.of_all_heads()}", columns, rows)
        flips = [
            (f.name, f.predicted, f.first_error, f.exact, f.start, f.limit) for f in self.families
        ]
        columns = ("family", "predicted first error", "measured first error",
                   "every smaller n evaluated", "logit at n = 1", "logit in the limit")  # fmt: skip
        if not flips:
            return (scores,)
        return (scores, Table.from_rows("When families of strings flip", columns, flips))

    def _places(self) -> list[tuple[int, ...]]:
        """Every `(layer, head, letter)`; of many heads the three letters scored highest."""
        if not self.many_heads:
            return list(np.ndindex(self.scores.shape))
        best = np.argsort(-self.scores.array, axis=-1, kind="stable")[:, :, :3]
        return [(i, h, int(t)) for i, h in self.heads_to_show() for t in best[i, h]]
