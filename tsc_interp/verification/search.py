"""The shortest error on a face, by best-first branch and bound over boxes of counts.

Order of strings, here and everywhere in this package: shorter first; among strings of one length,
the one whose sorted form comes first in the alphabet, which is the lexicographically largest count
vector (`aab` before `abb`: 2,1 before 1,2). So "the shortest error" names exactly one count vector.

A box's first string in that order is its low corner, strictly. So a box is finished when its low
corner is wrong (a candidate), or when its bounds show every vector right; otherwise it is cut
in two at the geometric middle of its relatively longest side. Boxes are taken shortest corner
first, so when the search stops, for whatever reason, every shorter string is known to be right.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.verification.classes import AnyFaces, ClassFaces
from tsc_interp.verification.cutting import Box, Vector, halves
from tsc_interp.verification.faces import Faces, count_box_bounds
from tsc_interp.verification.intervals import Interval
from tsc_interp.verification.labels import (
    all_faces,
    class_of_face,
    class_range,
    classes_of,
    face_label,
    full_counts,
    label_range,
    labels_of,
)

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

RIGHT, WRONG, UNDECIDED, _UNKNOWN = 1, -1, 0, 2
Entry = tuple[int, Vector, Vector, int]
"""In the queue: length of the low corner, low, high, and what is known of the low corner."""

WORK = 600_000_000
"""For the boxes of all sets of letters, in microseconds of a 2020s processor: ten minutes."""
_FEWEST = 500
EXACT_WORK = 2_000_000
"""For the exact decisions on one set of letters: two seconds."""
MANY_UNDECIDED = 64
"""So many logits too close to zero for any precision end a search: there will be more."""
_BATCH = 48


class Judge(Protocol):
    """Who says what is right: the task (`TaskJudge`), or another model (agreement.py)."""

    def label(self, letters: tuple[int, ...]) -> int | None:
        """What all strings over exactly these letters should be called, if they share it."""

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        """RIGHT, WRONG or UNDECIDED, for each count vector."""

    def right(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Flags:
        """Which boxes hold nothing but right vectors, as far as bounds can tell."""

    def exact_left(self) -> int:
        """What is left for exact decisions, in microseconds of work."""


@dataclass(frozen=True)
class TaskJudge:
    faces: Faces

    def label(self, letters: tuple[int, ...]) -> bool | None:
        return face_label(self.faces.config, letters)

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        return corner_verdicts(self.faces, letters, vectors)

    def right(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Flags:
        face = self.faces[letters]
        least, most = count_box_bounds(face, low.astype(float), high.astype(float))
        surely, maybe = label_range(self.faces.config, letters, low, high)
        return np.asarray((surely & (least > 0)) | (~maybe & (most <= 0)))

    def exact_left(self) -> int:
        return self.faces.exact.budget


@dataclass(frozen=True)
class ClassJudge:
    """The same for a model of several outputs: a box is right where the margin is above zero."""

    faces: ClassFaces

    def label(self, letters: tuple[int, ...]) -> int | None:
        return class_of_face(self.faces.config, letters)

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        return corner_verdicts(self.faces, letters, vectors)

    def right(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Flags:
        return np.asarray(margin_bounds(self.faces, letters, low, high)[0] > 0)

    def exact_left(self) -> int:
        return self.faces.exact.budget


@dataclass
class FaceSearch:
    """What is known about one face: where it first fails, and up to which length that is proved."""

    letters: tuple[int, ...]
    label: int | None
    """False or True of two classes, the class of several."""
    counterexample: Vector | None = None
    """Counts of this face's letters, the first error in the order above."""
    right_through: int = 0
    """Every string of the face up to this length is right (proved over the reals)."""
    undecided: list[Vector] = field(default_factory=list)
    """Vectors whose logit could not be told from zero."""
    boxes: list[Box] = field(default_factory=list)
    """Boxes proved right, together covering all vectors up to `right_through`."""
    examined: int = 0


def search_faces(
    faces: AnyFaces, limit: int, budget: int, *, first_only: bool = False
) -> list[FaceSearch]:
    """`search_face` for every set of letters, `budget` boxes each while all cost `WORK` or less.

    What one set does not use is there for the next. Work is estimated, not timed, so the answer is
    the same on every machine. With `first_only` no set is searched beyond the shortest error of
    those before it: of all errors together the first one is found all the same.
    """
    every = all_faces(faces.config)
    costs = [faces[letters].cost for letters in every]
    least = sum(costs) * min(budget, _FEWEST)
    if least > WORK:
        raise UnsupportedError(
            f"searching {len(every):,} sets of letters, {min(budget, _FEWEST)} boxes each, would "
            f"take about {least / 3.6e9:,.1f} hours for a model of this size. Count the errors of "
            f"short strings instead (verify with a small length), or search fewer boxes: "
            f"horizon(model, budget={int(WORK / sum(costs))})"
        )
    searches, left = [], WORK
    for done, (letters, cost) in enumerate(zip(every, costs, strict=True)):
        share = min(budget, left // (len(every) - done) // cost)
        searches.append(search_face(faces, letters, limit, share))
        left -= searches[-1].examined * cost
        found = searches[-1].counterexample
        if first_only and found is not None:
            limit = sum(found)
    return searches


def search_face(
    faces: AnyFaces, letters: tuple[int, ...], limit: int, budget: int = 200_000
) -> FaceSearch:
    """The first error among strings of at most `limit` letters, within a budget of boxes."""
    judge = ClassJudge(faces) if isinstance(faces, ClassFaces) else TaskJudge(faces)
    return first_failure(judge, letters, limit, budget)


def first_failure(
    judge: Judge, letters: tuple[int, ...], limit: int, budget: int = 200_000
) -> FaceSearch:
    """The first vector that the judge calls wrong.

    Ends early when `MANY_UNDECIDED` vectors could not be told from zero, or when exact decisions
    have taken `EXACT_WORK`. What is found then is as sound as ever, but may not be all there is.
    """
    found = FaceSearch(letters, judge.label(letters))
    size = len(letters)
    if limit < size:
        found.right_through = limit
        return found
    heap: list[Entry] = [(size, (1,) * size, (limit - size + 1,) * size, _UNKNOWN)]
    best: tuple[int, Vector] | None = None
    least_left = judge.exact_left() - EXACT_WORK
    while heap and found.examined < budget and len(found.undecided) < MANY_UNDECIDED:
        if judge.exact_left() < least_left:
            break
        batch: list[Entry] = []
        longest = limit if best is None else best[0]
        while heap and len(batch) < _BATCH and heap[0][0] <= longest:
            batch.append(heapq.heappop(heap))
        if not batch:
            break
        found.examined += len(batch)
        wrong, pending = _examine(judge, found, batch)
        for vector in wrong:
            # Negated counts: the lexicographically largest vector is the smallest key.
            key = (sum(vector), tuple(-count for count in vector))
            best = key if best is None else min(best, key)
        for length, low, high, corner in pending:
            lower, upper = halves(low, high)
            heapq.heappush(heap, (length, *lower, corner))
            if sum(upper[0]) <= limit:
                heapq.heappush(heap, (sum(upper[0]), *upper, _UNKNOWN))
    doubtful = [*(entry[0] for entry in heap[:1]), *map(sum, found.undecided)]
    if best is not None:
        found.counterexample = tuple(-count for count in best[1])
        doubtful.append(best[0])
    found.right_through = min([limit, *(length - 1 for length in doubtful)])
    return found


def _examine(
    judge: Judge, found: FaceSearch, batch: list[Entry]
) -> tuple[list[Vector], list[Entry]]:
    """Wrong low corners, and boxes still to be cut; what is proved right goes into `found`."""
    low = np.array([entry[1] for entry in batch], dtype=np.int64)
    high = np.array([entry[2] for entry in batch], dtype=np.int64)
    corner = np.array([entry[3] for entry in batch])
    new = corner == _UNKNOWN
    corner[new] = judge.corners(found.letters, low[new])
    found.undecided += [tuple(vector) for vector in low[new & (corner == UNDECIDED)].tolist()]
    right = judge.right(found.letters, low, high)
    right |= (low == high).all(axis=1) & (corner == RIGHT)
    wrong, pending = [], []
    for i, (length, lowest, highest, _) in enumerate(batch):
        if corner[i] == WRONG:
            wrong.append(lowest)
        elif right[i]:
            found.boxes.append((lowest, highest))
        elif lowest != highest:
            pending.append((length, lowest, highest, int(corner[i])))
    return wrong, pending


def corner_verdicts(faces: AnyFaces, letters: tuple[int, ...], vectors: Integers) -> Integers:
    """RIGHT, WRONG or UNDECIDED, for each count vector of a face."""
    if isinstance(faces, ClassFaces):
        return _class_verdicts(faces, letters, vectors)
    positive, known = answers(faces, letters, vectors)
    labels = labels_of(faces.config, letters, vectors)
    return np.where(known, np.where(positive == labels, RIGHT, WRONG), UNDECIDED)


def answers(faces: Faces, letters: tuple[int, ...], vectors: Integers) -> tuple[Flags, Flags]:
    """Which count vectors of a face the model calls positive, and of which that is known."""
    logits, error = faces[letters].logits(vectors.astype(float))
    positive = logits > 0
    # Written so that what overflowed to NaN counts as close, and is decided exactly.
    known = np.abs(logits) > error
    if faces.exact.budget <= 0:
        return positive, known
    for i in np.flatnonzero(~known):
        counts = full_counts(faces.config, letters, vectors[i])
        sign = faces.exact.sign(counts.tolist())
        positive[i], known[i] = sign is not None and sign > 0, sign is not None
    return positive, known


def _class_verdicts(faces: ClassFaces, letters: tuple[int, ...], vectors: Integers) -> Integers:
    labels = classes_of(faces.config, letters, vectors)
    found = np.full(len(vectors), UNDECIDED)
    for label in np.unique(labels).tolist():
        of_class = np.flatnonzero(labels == label)
        margin, error = faces.margin(letters, label).logits(vectors[of_class].astype(float))
        known = np.abs(margin) > error
        found[of_class] = np.where(known, np.where(margin > 0, RIGHT, WRONG), UNDECIDED)
        for i in of_class[~known]:
            if faces.exact.budget <= 0:
                break
            counts = full_counts(faces.config, letters, vectors[i])
            right = faces.exact.right(counts.tolist(), label)
            if right is not None:
                found[i] = RIGHT if right else WRONG
    return found


def margin_bounds(
    faces: ClassFaces, letters: tuple[int, ...], low: Integers, high: Integers
) -> Interval:
    """The range of the class's margin over each box; anything where a box has several classes."""
    labels = class_range(faces.config, letters, low, high)
    least, most = np.full(len(low), -np.inf), np.full(len(low), np.inf)
    for label in np.unique(labels[labels >= 0]).tolist():
        member = labels == label
        face = faces.margin(letters, label)
        ends = count_box_bounds(face, low[member].astype(float), high[member].astype(float))
        least[member], most[member] = ends
    return least, most
