"""Where two classifiers first answer differently, and proofs that they do not.

The search is the one for a first error (search.py), with another model in the place of the task: a
box is settled when both logits are on one side of zero throughout. Over all lengths at once
(proofs.py has the argument) the same is asked of boxes of ratios.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tsc_interp.verification.cutting import Corner, halve_ratios
from tsc_interp.verification.faces import Face, Faces, count_box_bounds
from tsc_interp.verification.intervals import Array
from tsc_interp.verification.proofs import Chart, tail_bounds
from tsc_interp.verification.search import RIGHT, UNDECIDED, WRONG, Flags, Integers, answers

_BATCH = 64
_MOST_BOXES = 20_000


@dataclass(frozen=True)
class TwoModels:
    """A judge (search.py) to whom `right` means that both models answer alike."""

    first: Faces
    second: Faces

    def label(self, letters: tuple[int, ...]) -> bool | None:
        return None

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        one, known = answers(self.first, letters, vectors)
        other, sure = answers(self.second, letters, vectors)
        return np.where(known & sure, np.where(one == other, RIGHT, WRONG), UNDECIDED)

    def right(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Flags:
        ends = [
            count_box_bounds(faces[letters], low.astype(float), high.astype(float))
            for faces in (self.first, self.second)
        ]
        yes = [least > 0 for least, _ in ends]
        no = [most <= 0 for _, most in ends]
        return np.asarray((yes[0] & yes[1]) | (no[0] & no[1]))

    def exact_left(self) -> int:
        return min(self.first.exact.budget, self.second.exact.budget)


def agree_at_all_ratios(first: Face, second: Face) -> tuple[Chart, ...] | None:
    """Boxes of ratios that show two plain-softmax models to agree on a face, or None."""
    if first.log_n or second.log_n or first.attends_cls != second.attends_cls:
        return None
    letters, cls = first.letters, int(first.attends_cls)
    dims = len(letters) - 1 + cls
    waiting = [(column, (0.0,) * dims, (1.0,) * dims) for column in range(len(letters))]
    settled: list[tuple[int, Corner, Corner]] = []
    examined = 0
    while waiting:
        batch, waiting = waiting[:_BATCH], waiting[_BATCH:]
        examined += len(batch)
        if examined > _MOST_BOXES:
            return None
        low = np.array([_with_one(lows, column + cls) for column, lows, _ in batch])
        high = np.array([_with_one(highs, column + cls) for column, _, highs in batch])
        same = _same_side(first, second, low, high)
        # The heavy corner is a ratio of counts, or the limit of such ratios.
        if bool(_opposite(first, second, high).any()):
            return None
        for box, alike in zip(batch, same.tolist(), strict=True):
            if alike:
                settled.append(box)
                continue
            parts = halve_ratios(box[1], box[2])
            if not parts:
                return None
            waiting += [(box[0], *part) for part in parts]
    return tuple(
        Chart(
            letter,
            tuple(low for at, low, _ in settled if at == column),
            tuple(high for at, _, high in settled if at == column),
        )
        for column, letter in enumerate(letters)
    )


def agree_beyond(first: Face, second: Face, start: int) -> bool:
    """Whether the tail bounds of two log-n models are on one side of zero."""
    ends = [tail_bounds(face, start) for face in (first, second)]
    if ends[0] is None or ends[1] is None:
        return False
    return all(end[0][0] > 0 for end in ends if end) or all(end[1][0] <= 0 for end in ends if end)


def _with_one(free: Corner, at: int) -> Corner:
    return (*free[:at], 1.0, *free[at:])


def _same_side(first: Face, second: Face, low: Array, high: Array) -> Flags:
    one = np.ones(len(low))
    ends = [face.bounds(low, high, one, one) for face in (first, second)]
    yes = (ends[0][0] > 0) & (ends[1][0] > 0)
    return np.asarray(yes | ((ends[0][1] <= 0) & (ends[1][1] <= 0)))


def _opposite(first: Face, second: Face, at: Array) -> Flags:
    one = np.ones(len(at))
    ends = [face.bounds(at, at, one, one) for face in (first, second)]
    return np.asarray(((ends[0][0] > 0) & (ends[1][1] < 0)) | ((ends[0][1] < 0) & (ends[1][0] > 0)))
