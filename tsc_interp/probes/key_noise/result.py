"""What the key-noise probe measures: how many answers change when a key is moved."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsc_interp.probes.base import Cell, HeadsResult, LabeledArray, Table


class KeyNoiseResult(HeadsResult):
    probe: ClassVar[str] = "key-noise"

    over: str
    """Which strings answers are counted on, in words."""
    strings: int
    draws: int
    sizes: tuple[float, ...]
    scores: LabeledArray
    """`[head letter]`."""
    flips: LabeledArray
    """`[along head letter size]`: the share of answers that change, over all draws."""
    possible: LabeledArray
    """`[along head letter size]`: the share of strings in which a move of that size, the wrong way,
    gives another letter the most weight."""

    def first_flip(self, along: str, head: str, letter: str) -> float | None:
        """The smallest size tried at which an answer changed."""
        flipped = np.flatnonzero(self.flips.at(along=along, head=head, letter=letter))
        return self.sizes[int(flipped[0])] if len(flipped) else None

    def tables(self) -> tuple[Table, ...]:
        labels = self.flips.labels
        rows = tuple(
            self._row(along, head, letter)
            for along in labels["along"]
            for head in labels["head"]
            for letter in labels["letter"]
        )
        columns = ("along", "head", "key of", "score", *(f"size {size:g}" for size in self.sizes))
        title = "Answers that change (strings in which margins allow it)"
        return (Table(title=title, columns=columns, rows=rows),)

    def _row(self, along: str, head: str, letter: str) -> tuple[Cell, ...]:
        flips, possible = (
            rates.at(along=along, head=head, letter=letter).tolist()
            for rates in (self.flips, self.possible)
        )
        shares = [f"{flip:.1%} ({may:.1%})" for flip, may in zip(flips, possible, strict=True)]
        return (along, head, letter, float(self.scores.at(head=head, letter=letter)), *shares)
