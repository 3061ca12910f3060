"""Whether a task that is not shipped agrees with itself: its supports against its labels.

A proof about every length believes `label_of_support`: "all strings over exactly these letters have
this label". No finite number of strings shows that it is true, but one string whose label differs
shows that it is false. `check_supports` looks for such a string, and refuses the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import combinations, product
from math import comb

import numpy as np

from tsc_interp.rules import Rule
from tsc_interp.strings import LETTERS, Counts

MOST_ROWS = 20_000
"""Count vectors, or strings, compared: with three letters, all counts up to 47 letters."""
MOST_SUPPORTS = 4096
"""Sets of letters compared: as many as exact verification decides, so all that it asks for."""
LONGEST = 1000
"""The count of a letter that stands for long strings."""


def labels_digest(task: Rule, n_letters: int) -> str:
    """Return SHA-256 of what a task of counts says of strings and of supports.

    A task of one's own is named by its kind in a configuration, which says nothing of its code;
    what is kept of such a task is kept for these labels.

    Example:
        >>> from tsc_interp.rules import ContainsAll, Parity
        >>> labels_digest(ContainsAll(letters="a"), 2) == labels_digest(Parity(), 2)
        False
    """
    classes = task.classes(_counts(n_letters).copy())
    shared = [_shared(task, frozenset(LETTERS[i] for i in s)) for s in _supports(n_letters)]
    return sha256(classes.tobytes() + repr(shared).encode()).hexdigest()


def check_supports(task: Rule, n_letters: int) -> None:
    """Refuse a task whose `label_of_support` contradicts its `labels`.

    All count vectors up to a length are compared, and for every set of letters those in which each
    occurs once, or a thousand times, or one of them a thousand times. Tasks on order are compared
    on all strings up to a length, and on each set of letters written forwards and backwards.

    Args:
        task: The task, whose labels are asked for here.
        n_letters: The size of the alphabet.

    Raises:
        ValueError: Two of the task's answers contradict each other; the message names the string.

    Example:
        >>> from tsc_interp.rules import ContainsAll
        >>> check_supports(ContainsAll(letters="ab"), 3)
    """
    rows = every_short_string(n_letters) if task.ordered else _counts(n_letters)
    counts = (rows[:, :, None] == np.arange(n_letters)).sum(1) if task.ordered else rows
    packed = np.packbits(counts > 0, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    supports = [frozenset(LETTERS[i] for i in np.flatnonzero(counts[row])) for row in first]
    shared = np.array([_shared(task, letters) for letters in supports])[which.reshape(-1)]
    if (shared < 0).all():
        return  # the task says nothing about supports
    classes = task.classes(rows.copy())  # `rows` is kept; a task may write into what it gets
    wrong = np.flatnonzero((shared >= 0) & (shared != classes))
    if len(wrong):
        worst = min(wrong, key=lambda row: int(counts[row].sum()))
        present = np.flatnonzero(counts[worst])
        raise ValueError(
            f"the task {task.kind!r} contradicts itself: label_of_support says "
            f"{int(shared[worst])} of all strings over {''.join(LETTERS[i] for i in present)}, and "
            f"labels says {int(classes[worst])} of "
            f"{''.join(f'{LETTERS[i]}{{{counts[worst, i]}}}' for i in present)}. "
            "label_of_support must be None where strings over the same letters differ"
        )


def _shared(task: Rule, letters: frozenset[str]) -> int:
    """The class all strings over these letters are said to have; -1 if none is said."""
    label, shared = task.label_of_support(letters), task.class_of_support(letters)
    if (None if label is None else int(label)) != shared or (shared or 0) < 0:
        raise ValueError(
            f"the task {task.kind!r} contradicts itself: of the strings over "
            f"{''.join(sorted(letters, key=LETTERS.index))} label_of_support says {label!r} and "
            f"class_of_support says {shared!r}"
        )
    return -1 if shared is None else shared


@cache
def _counts(n_letters: int) -> Counts:
    longest = 1
    while longest < LONGEST and comb(longest + 1 + n_letters, n_letters) <= MOST_ROWS:
        longest += 1
    short = np.zeros((1, 0), dtype=np.int64)
    for _ in range(n_letters):  # to each vector so far, every count for which there is room
        room = longest - short.sum(axis=1)
        following = np.concatenate([np.arange(left + 1) for left in room])
        short = np.column_stack([np.repeat(short, room + 1, axis=0), following])
    return np.concatenate([short[1:], _of_supports(n_letters)])


def _of_supports(n_letters: int) -> Counts:
    rows = []
    for support in _supports(n_letters):
        row = np.zeros(n_letters, dtype=np.int64)
        row[list(support)] = 1
        many = np.repeat(row[None], len(support), axis=0)
        many[np.arange(len(support)), list(support)] = LONGEST
        rows += [row, row * LONGEST, *many]
    return np.array(rows)


@cache
def every_short_string(n_letters: int) -> Counts:
    """All strings up to a length, and each set of letters forwards and backwards; then -1."""
    longest = 1
    while longest < 100 and sum(n_letters**n for n in range(1, longest + 2)) <= MOST_ROWS:
        longest += 1
    strings = [row for n in range(1, longest + 1) for row in product(range(n_letters), repeat=n)]
    strings += [way for support in _supports(n_letters) for way in (support, support[::-1])]
    rows = np.full((len(strings), max(map(len, strings))), -1, dtype=np.int64)
    for row, letters in zip(rows, strings, strict=True):
        row[: len(letters)] = letters
    return rows


def _supports(n_letters: int) -> Iterator[tuple[int, ...]]:
    """Small sets first; of a size all or none."""
    room = MOST_SUPPORTS
    for size in range(1, n_letters + 1):
        room -= comb(n_letters, size)
        if room < 0:
            return
        yield from combinations(range(n_letters), size)
