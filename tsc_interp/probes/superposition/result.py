"""What the superposition probe measures: how near the others come to each letter."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.probes.wording import write_mixture, write_vector
from tsc_interp.results.base import HeadsResult, LabeledArray, Number, Record, Table

ALL_HEADS = "all"


class Imitation(Record):
    """A false positive: in one head, a letter that is there is taken for one that is missing."""

    string: str
    logit: float
    head: int
    """The head whose value reads most like a missing letter's."""
    missing: str
    by: str
    """The letter with a share of the weight whose value is nearest to the missing one's."""
    weight: float
    """What the head gives to it."""
    reads_as: tuple[float, ...]
    """The mixture of the letters the task names that is nearest to the head's output."""


class SuperpositionResult(HeadsResult):
    probe: ClassVar[str] = "superposition"

    values: LabeledArray | None
    """`[layer head letter component]`: each letter's value; None for a large model."""
    reads: tuple[tuple[str, ...], ...]
    """`[layer][head]`: the letter each head scores highest."""
    hull_distance: LabeledArray
    """`[layer head letter]`, the head `all` being the stacked values."""
    cone_distance: LabeledArray
    """`[layer head letter]`."""
    spread: LabeledArray
    """`[layer head]`: the largest distance between two letters, what distances are relative to."""
    mixture: LabeledArray
    """`[layer head letter other]`: the mixture of others that comes nearest (hull)."""
    string_values: LabeledArray | None
    """`[layer string head component]`: what each head returns; None for a large model."""
    string_weights: LabeledArray
    """`[layer string head letter]`."""
    chance_distance: tuple[Number, ...] | None = None
    """Of shuffled heads: the distance of the token they score highest, relative to the range."""
    imitations: tuple[Imitation, ...] = ()
    """The given strings that are false positives because a letter is mistaken for another."""
    other_false_positives: tuple[str, ...] = ()
    """Given strings that are false positives for another reason."""

    @property
    def relative(self) -> NDArray[np.float64]:
        """Hull distances as a fraction of the values' range: `[layer head letter]`."""
        spread = self.spread.array[:, :, None]
        return np.asarray(self.hull_distance.array / np.where(spread > 0, spread, 1.0))

    def tables(self) -> tuple[Table, ...]:
        hull, cone, mixture = self.hull_distance, self.cone_distance.array, self.mixture.array
        letters = hull.labels["letter"]
        rows = [
            (*(hull.labels[dim][i] for dim, i in zip(hull.dims, at, strict=True)), self._value(at),
             self._same_sign(at), float(hull.array[at]), float(self.relative[at]), float(cone[at]),
             write_mixture(mixture[at], letters))
            for at in self._places()
        ]  # fmt: skip
        columns = ("layer", "head", self.unit, "value", "same sign", "hull distance",
                   "of the range", "cone distance", "nearest mixture")  # fmt: skip
        title = f"How near the others come to each {self.unit}{self.of_all_heads()}"
        return (Table.from_rows(title, columns, rows),)

    def _places(self) -> list[tuple[int, ...]]:
        """Every `(layer, head, letter)`; of many heads the letter each reads."""
        letters = self.hull_distance.labels["letter"]
        if not self.many_heads:
            return list(np.ndindex(self.hull_distance.shape))
        return [(i, h, letters.index(self.reads[i][h])) for i, h in self.heads_to_show()]

    def _value(self, at: tuple[int, ...]) -> str | None:
        layer, head, letter = at
        if self.values is None:
            return None
        heads = self.values.array[layer, :, letter]
        return write_vector(heads[head] if head < len(heads) else heads)

    def _same_sign(self, at: tuple[int, ...]) -> str | None:
        """The other letters on its side of zero, for one head of size one."""
        layer, head, letter = at
        if self.values is None or self.values.shape[-1] != 1 or head == self.values.shape[1]:
            return None
        sides = np.sign(self.values.array[layer, head, :, 0])
        same = np.flatnonzero(sides == sides[letter])
        letters = self.values.labels["letter"]
        return ", ".join(letters[t] for t in same if t != letter) or "none"
