"""What the atlas measures: the first error of every set of letters, and curves of two letters."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tsc_interp.results.base import LabeledArray, ProbeResult, Record, Table

PAIR_POINTS = 161
RAREST = 10
"""How often the rarer letter of a string occurs: ratios then come out to within 5 %."""
_GONE = ("lens", "plane_reach", "triangle", "edges", "corners", "plane",
         "triangle_wrong", "edges_wrong", "corners_wrong", "plane_wrong")  # fmt: skip
"""The sampled maps that reports of version 0.1 hold; pages draw `failure_map` instead."""


class LetterSet(Record):
    """The strings over exactly these letters."""

    letters: str
    label: int | None
    first_error: str | None
    length: int | None
    logit: float | None
    verified_length: int
    """Proved right up to this length."""
    always_right: bool
    """Proved right at every length."""

    @property
    def kind(self) -> str | None:
        """What its first error is, if it has one."""
        if self.logit is None:
            return None
        return "false positive" if self.logit > 0 else "false negative"


class Marked(Record):
    """A first error, or a string that was given."""

    string: str
    counts: tuple[int, ...]
    logit: float
    wrong: bool
    given: bool


class AtlasResult(ProbeResult):
    probe: ClassVar[str] = "atlas"

    task: str = ""
    """The question each string is asked."""
    letters: str
    length_matters: bool
    horizon: int | None
    verified_length: int
    infinite: bool
    limit: int = 10**6
    """Errors were looked for up to this length."""
    sets: tuple[LetterSet, ...]
    pair_reach: int
    """Ratios of two letters go from 10^-reach to 10^reach."""
    pairs: LabeledArray | None = None
    """`[pair ratio]`: logits of the two-letter strings of `pair_counts`."""
    pairs_wrong: LabeledArray | None = None
    """1 where the string is wrong, 0 where it is right."""
    marked: tuple[Marked, ...] = ()

    @property
    def shortest(self) -> LetterSet | None:
        """The set with the shortest error of all; of several as long, the first in the alphabet."""
        return self.shortest_of(None)

    def shortest_of(self, kind: str | None) -> LetterSet | None:
        """The same among false positives, or among false negatives."""
        counts = {marked.string: marked.counts for marked in self.marked}

        def order(letter_set: LetterSet) -> tuple[int, tuple[int, ...]]:
            return letter_set.length or 0, tuple(
                -count for count in counts[letter_set.first_error or ""]
            )

        failing = [s for s in self.sets if s.first_error and kind in (None, s.kind)]
        return min(failing, key=order, default=None)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read back what `to_dict` wrote, now or in version 0.1."""
        return super().from_dict({name: x for name, x in data.items() if name not in _GONE})

    def tables(self) -> tuple[Table, ...]:
        columns = ("letters", "label", "first error", "length", "logit", "proved right up to",
                   "right at every length")  # fmt: skip
        rows = [
            (s.letters, s.label, s.first_error, s.length, s.logit, s.verified_length,
             s.always_right) for s in self.sets
        ]  # fmt: skip
        return (Table.from_rows("The first error of every set of letters", columns, rows),)


def pair_counts(reach: int) -> NDArray[np.int64]:
    """Counts `[ratio letter]` of two letters, from 10^reach : 1 to 1 : 10^reach."""
    steps = np.linspace(-reach, reach, PAIR_POINTS)
    powers = np.stack([np.maximum(-steps, 0), np.maximum(steps, 0)], axis=1)
    return np.asarray(np.rint(RAREST * 10**powers), dtype=np.int64)
