"""What the atlas measures: the first error of every set of letters, and maps of all ratios."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.results.base import LabeledArray, ProbeResult, Record, Table

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

TRIANGLE_COLUMNS, TRIANGLE_ROWS = 81, 71
EDGE_POINTS = 161
LENS = 4.0
"""What the map is drawn through: fourth roots of shares, so that one letter in 10,000 shows."""
ANY_LENGTH = "any"
"""The label of the one slice of a model to which length does not matter."""
PLANE = 81
PAIR_POINTS = 161
RAREST = 10
"""How often the rarest letter of a map's string occurs: ratios then come out to within 5 %."""
MOST = 10**9
"""Of one letter in a string."""


class LetterSet(Record):
    """The strings over exactly these letters."""

    letters: str
    label: int | None
    first_error: str | None
    length: int | None
    logit: float | None
    right_through: int
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
    """A string to be marked on the maps: a first error, or one that was given."""

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
    right_through: int
    infinite: bool
    limit: int = 10**6
    """Errors were looked for up to this length."""
    sets: tuple[LetterSet, ...]
    pair_reach: int
    plane_reach: int
    """Maps of ratios go from 10^-reach to 10^reach."""
    lens: float = 1.0
    """What the map is drawn through; 1 is no lens."""
    triangle: LabeledArray | None = None
    """`[length row column]`: logits of the strings of `triangle_counts`, NaN outside."""
    triangle_wrong: LabeledArray | None = None
    """1 where the string is wrong, 0 where it is right; likewise below."""
    edges: LabeledArray | None = None
    """`[length edge place]`: logits of the strings of two letters of `edge_counts`."""
    edges_wrong: LabeledArray | None = None
    corners: LabeledArray | None = None
    """`[length letter]`: logits of the strings of one letter."""
    corners_wrong: LabeledArray | None = None
    plane: LabeledArray | None = None
    """`[row column]`: logits of the strings of `plane_counts`."""
    plane_wrong: LabeledArray | None = None
    pairs: LabeledArray | None = None
    """`[pair ratio]`: logits of the two-letter strings of `pair_counts`."""
    pairs_wrong: LabeledArray | None = None
    marked: tuple[Marked, ...] = ()

    @property
    def shortest(self) -> LetterSet | None:
        """The set with the shortest error of all; of several as long, the first in the alphabet."""
        return self.shortest_of(None)

    def shortest_of(self, kind: str | None) -> LetterSet | None:
        """The same among false positives, or among false negatives."""
        counts = {one.string: one.counts for one in self.marked}

        def order(one: LetterSet) -> tuple[int, tuple[int, ...]]:
            return one.length or 0, tuple(-count for count in counts[one.first_error or ""])

        failing = [one for one in self.sets if one.first_error and kind in (None, one.kind)]
        return min(failing, key=order, default=None)

    def tables(self) -> tuple[Table, ...]:
        columns = ("letters", "label", "first error", "length", "logit", "proved right up to",
                   "right at every length")  # fmt: skip
        rows = tuple(
            (s.letters, s.label, s.first_error, s.length, s.logit, s.right_through, s.always_right)
            for s in self.sets
        )
        return (Table(title="The first error of every set of letters", columns=columns, rows=rows),)


# -- maps: which string stands where -----------------------------------------------------------


def triangle_counts(length: int | None, lens: float = LENS) -> tuple[Counts, NDArray[np.bool_]]:
    """Counts `[row column letter]` of each cell's string, and which cells lie inside.

    Corners: first letter bottom left, second bottom right, third on top.
    """
    x = np.linspace(0, 1, TRIANGLE_COLUMNS)
    third = np.linspace(0, 1, TRIANGLE_ROWS)[:, None]
    second = x - third / 2
    places = np.stack(np.broadcast_arrays(1 - second - third, second, third), axis=-1)
    inside = np.asarray((places > -1e-9).all(axis=-1))
    # Through a lens the very edge would be infinitely far: cells there stand half a cell inside.
    nearest = 0.5 / TRIANGLE_COLUMNS if lens > 1 else 0.0
    return strings_at(np.maximum(places, nearest), length, lens), inside


def edge_counts(length: int | None, lens: float = LENS) -> Counts:
    """Counts `[place letter]` of two letters, along an edge from the first to the second."""
    second = np.linspace(0, 1, EDGE_POINTS).clip(0.5 / EDGE_POINTS, 1 - 0.5 / EDGE_POINTS)
    return strings_at(np.stack([1 - second, second], axis=1), length, lens)


def strings_at(places: Floats, length: int | None, lens: float) -> Counts:
    """The string whose ratios belong to places between corners, of that length if one matters.

    A place is a share after the lens: letters' shares are as places to the power of `lens`.
    """
    shares = places**lens
    if length is None:
        return _whole(RAREST * shares / shares.min(axis=-1, keepdims=True))
    return _whole(length * shares / shares.sum(axis=-1, keepdims=True))


def plane_counts(reach: int) -> Counts:
    """Counts `[row column letter]`, the rarest letter `RAREST` times.

    Columns go through second : first, rows through third : first, both from 10^-reach up.
    """
    steps = np.linspace(-reach, reach, PLANE)
    logs = np.stack(np.broadcast_arrays(0.0, steps[None, :], steps[:, None]), axis=-1)
    logs = logs - logs.min(axis=-1, keepdims=True)
    return _whole(RAREST * 10**logs)


def pair_counts(reach: int) -> Counts:
    """Counts `[ratio letter]` of two letters, from 10^reach : 1 to 1 : 10^reach."""
    steps = np.linspace(-reach, reach, PAIR_POINTS)
    powers = np.stack([np.maximum(-steps, 0), np.maximum(steps, 0)], axis=1)
    return _whole(RAREST * 10**powers)


def _whole(counts: Floats) -> Counts:
    """The nearest counts with every letter there."""
    return np.asarray(np.rint(counts).clip(1, MOST), dtype=np.int64)
