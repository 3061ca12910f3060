"""The true label over a whole box of counts: always 0, always 1, or both occur; or its class.

Where a model tells two classes apart, a label is True or False; where it tells more, a whole number
(`class_of_face`, `classes_of`, `class_range`).
"""

from __future__ import annotations

from itertools import accumulate, combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError

Flags = NDArray[np.bool_]
Boxes = NDArray[np.int64]


MAX_FACES = 4096


def all_faces(config: ClassifierConfig, max_length: int | None = None) -> list[tuple[int, ...]]:
    """Every non-empty set of letters a string can have, small sets first, then alphabetical."""
    letters = config.n_letters
    largest = letters if max_length is None else min(letters, max_length)
    numbers = list(accumulate(comb(letters, size) for size in range(1, largest + 1)))
    if numbers[-1] > MAX_FACES:
        shortest = sum(number <= MAX_FACES for number in numbers)
        raise UnsupportedError(
            f"an alphabet of {letters} letters has {numbers[-1]:,} sets of letters to decide; "
            f"exact verification goes up to {MAX_FACES:,}, that is 12 letters. Strings of at most "
            f"{shortest} letters can be counted: verify with max_length={shortest}"
        )
    return [f for size in range(1, largest + 1) for f in combinations(range(letters), size)]


def face_name(config: ClassifierConfig, face: tuple[int, ...]) -> str:
    return "".join(config.alphabet.letters[letter] for letter in face)


def face_label(config: ClassifierConfig, face: tuple[int, ...]) -> bool | None:
    """The label shared by all strings over exactly these letters, if they share one."""
    shared = config.task.label_of_support(frozenset(face_name(config, face)))
    return None if shared is None else bool(shared)


def class_of_face(config: ClassifierConfig, face: tuple[int, ...]) -> int | None:
    return config.task.class_of_support(frozenset(face_name(config, face)))


def full_counts(config: ClassifierConfig, face: tuple[int, ...], counts: Boxes) -> Boxes:
    """Counts of a face's letters `[vector letter]` among zeros for the other letters."""
    full = np.zeros((*counts.shape[:-1], config.n_letters), dtype=np.int64)
    full[..., list(face)] = counts
    return full


def labels_of(config: ClassifierConfig, face: tuple[int, ...], counts: Boxes) -> Flags:
    known = face_label(config, face)
    if known is not None:
        return np.full(counts.shape[:-1], known)
    return np.asarray(config.task.labels(full_counts(config, face, counts)), dtype=bool)


def classes_of(config: ClassifierConfig, face: tuple[int, ...], counts: Boxes) -> Boxes:
    known = class_of_face(config, face)
    if known is not None:
        return np.full(counts.shape[:-1], known)
    return config.task.classes(full_counts(config, face, counts))


def class_range(config: ClassifierConfig, face: tuple[int, ...], low: Boxes, high: Boxes) -> Boxes:
    """The class of all vectors of each box, -1 where they differ or may."""
    known = class_of_face(config, face)
    if known is not None:
        return np.full(len(low), known)
    if config.task.kind == "most_frequent":
        return _most_frequent(face, low, high)
    surely, maybe = label_range(config, face, low, high)
    if config.task.n_classes(config.n_letters) == 2:
        return np.where(surely, 1, np.where(maybe, -1, 0))
    fixed = (low == high).all(axis=1)
    return np.where(fixed, classes_of(config, face, low), -1)


def _most_frequent(face: tuple[int, ...], low: Boxes, high: Boxes) -> Boxes:
    """The letter that leads throughout: even at its fewest it leads the others at their most."""
    found = np.full(len(low), -1)
    for column, letter in enumerate(face):
        rivals = high.copy()
        rivals[:, column] = low[:, column]
        leads = rivals.argmax(axis=1) == column  # of equals the first, as the task has it
        found[leads] = letter
    return found


def label_range(
    config: ClassifierConfig, face: tuple[int, ...], low: Boxes, high: Boxes
) -> tuple[Flags, Flags]:
    """Whether every vector of each box is positive, and whether any may be."""
    known = face_label(config, face)
    if known is not None:
        flags = np.full(len(low), known)
        return flags, flags
    if config.task.kind == "most_frequent":
        classes = _most_frequent(face, low, high)
        return classes == 1, classes != 0
    if config.task.kind not in ("at_least", "majority", "parity"):
        # A rule of which nothing is known but the labels of single strings.
        fixed = (low == high).all(axis=1)
        labels = labels_of(config, face, low)
        return labels & fixed, labels | ~fixed
    column = face.index(config.alphabet.letters.index(config.task.needs))
    if config.task.kind in ("at_least", "majority"):
        # Both rise with their own letter and do not rise with the others.
        least, most = high.copy(), low.copy()
        least[:, column], most[:, column] = low[:, column], high[:, column]
        return labels_of(config, face, least), labels_of(config, face, most)
    fixed = low[:, column] == high[:, column]
    labels = labels_of(config, face, low)
    return labels & fixed, labels | ~fixed
