"""The true class over a set of letters, of count vectors, and over whole boxes of counts.

Classes are whole numbers; of two, 1 is the positive one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError

Flags = NDArray[np.bool_]
Boxes = NDArray[np.int64]

MAX_SUPPORTS = 4096


def all_supports(config: ClassifierConfig, max_length: int | None = None) -> list[tuple[int, ...]]:
    """Every non-empty set of letters a string can have, small sets first, then alphabetical."""
    letters = config.n_letters
    largest = letters if max_length is None else min(letters, max_length)
    numbers = list(accumulate(comb(letters, size) for size in range(1, largest + 1)))
    if numbers[-1] > MAX_SUPPORTS:
        shortest = sum(number <= MAX_SUPPORTS for number in numbers)
        raise UnsupportedError(
            f"an alphabet of {letters} letters has {numbers[-1]:,} sets of letters to decide; "
            f"exact verification goes up to {MAX_SUPPORTS:,}, that is 12 letters. Strings of at "
            f"most {shortest} letters can be counted: verify with max_length={shortest}"
        )
    return [s for size in range(1, largest + 1) for s in combinations(range(letters), size)]


def support_name(config: ClassifierConfig, support: tuple[int, ...]) -> str:
    return "".join(config.alphabet.letters[letter] for letter in support)


def class_of_support(config: ClassifierConfig, support: tuple[int, ...]) -> int | None:
    label = config.task.label_of_support(frozenset(support_name(config, support)))
    return None if label is None else int(label)


def full_counts(config: ClassifierConfig, support: tuple[int, ...], counts: Boxes) -> Boxes:
    """Counts of a support's letters `[vector letter]` among zeros for the other letters."""
    full = np.zeros((*counts.shape[:-1], config.n_letters), dtype=np.int64)
    full[..., list(support)] = counts
    return full


def classes_of(config: ClassifierConfig, support: tuple[int, ...], counts: Boxes) -> Boxes:
    known = class_of_support(config, support)
    if known is not None:
        return np.full(counts.shape[:-1], known)
    return config.task.classes(full_counts(config, support, counts))


def labels_of(config: ClassifierConfig, support: tuple[int, ...], counts: Boxes) -> Flags:
    """Of two classes: which vectors are positive."""
    return np.asarray(classes_of(config, support, counts) == 1)


def by_class(
    config: ClassifierConfig, support: tuple[int, ...], vectors: Boxes
) -> Iterator[tuple[int, Flags | slice]]:
    """Each class that occurs among the vectors, and where."""
    known = class_of_support(config, support)
    if known is not None:
        yield known, slice(None)
        return
    classes = classes_of(config, support, vectors)
    for label in range(config.task.n_classes(config.n_letters)):
        member = classes == label
        if member.any():
            yield label, member


def class_range(
    config: ClassifierConfig, support: tuple[int, ...], low: Boxes, high: Boxes
) -> Boxes:
    """The class of all vectors of each box, -1 where they differ or may."""
    known, kind = class_of_support(config, support), config.task.kind
    if known is not None:
        return np.full(len(low), known)
    if kind == "most_frequent":
        return _most_frequent(support, low, high)
    if kind in ("at_least", "majority"):
        # Both rise with their own letter and do not rise with the others.
        column = support.index(config.alphabet.letters.index(config.task.needs))
        least, most = high.copy(), low.copy()
        least[:, column], most[:, column] = low[:, column], high[:, column]
        classes = classes_of(config, support, least)
        return np.where(classes == classes_of(config, support, most), classes, -1)
    if kind == "parity":
        column = support.index(config.alphabet.letters.index(config.task.needs))
        fixed = low[:, column] == high[:, column]
    else:  # A rule of which nothing is known but the labels of single strings.
        fixed = (low == high).all(axis=1)
    return np.where(fixed, classes_of(config, support, low), -1)


def _most_frequent(support: tuple[int, ...], low: Boxes, high: Boxes) -> Boxes:
    """The letter that leads throughout: even at its fewest it leads the others at their most."""
    leader = np.full(len(low), -1)
    for column, letter in enumerate(support):
        rivals = high.copy()
        rivals[:, column] = low[:, column]
        leads = rivals.argmax(axis=1) == column  # of equals the first, as the task has it
        leader[leads] = letter
    return leader
