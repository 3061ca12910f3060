"""Tasks compared with themselves, before anybody believes them.

A claim about all inputs of a length speaks of the paths of a trellis. `inputs_of` makes it, and
refuses a trellis with letters that do not exist, with more or fewer paths than there are inputs, or
with other labels than the task gives: on every input where there are few, else on random ones.

A proof about every length believes `label_of_support`: "all strings over exactly these letters have
this label". No finite number of strings shows that it is true, but one string whose label differs
shows that it is false. `check_supports` looks for such a string, and refuses the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import combinations, product
from math import comb, prod

import numpy as np

from tsc_interp.errors import UsageError
from tsc_interp.frames.frame import Frame
from tsc_interp.strings import LETTERS, Counts
from tsc_interp.tasks.base import Task, is_shipped, trellis_of
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Index, Trellis

EVERY = 20_000
"""Up to so many inputs are all compared."""
DRAWN, OF_LABELS = 2000, 256
"""Of more, so many random ones, and so many of its labels' own where the trellis is small."""
_SMALL = 20_000


def inputs_of(task: Task, n_letters: int, number: int) -> Trellis:
    """Return all inputs of a length, or of a step of a task that writes, with their labels.

    Args:
        task: Which.
        n_letters: The size of the alphabet.
        number: The letters of each string, or the step.

    Raises:
        UsageError: The task's inputs contradict its labels; the message names one of them.

    Example:
        >>> from tsc_interp.tasks import Parity
        >>> inputs_of(Parity(letter="b"), n_letters=3, number=4).sizes
        (1, 2, 2, 2, 2)
    """
    if misfit := task.misfit(n_letters):
        raise UsageError(misfit)
    if isinstance(task, Writing):
        trellis = task.step_trellis(number)
    else:
        trellis = trellis_of(task, n_letters, number)
    _require_letters(task, trellis, n_letters)
    paths, wanted = Regions.whole(trellis).counts()[0], _count(task, n_letters, number)
    if paths > wanted or (paths < wanted and not task.partial):
        raise UsageError(
            f"the task {task.kind!r} contradicts itself: its trellis has {paths:,} inputs, and "
            f"there are {wanted:,}"
        )
    own = type(task).trellis is not Task.trellis and not is_shipped(task)
    if task.partial and wanted > EVERY and own:
        raise UsageError(
            f"the task {task.kind!r} has no opinion on some of {wanted:,} inputs, too many to look "
            "at each; give it as a tsc.tasks.Automaton, whose label may be None"
        )
    if type(task).labels is not Writing.labels:  # which reads the labels off the trellis
        for rows in _compared(trellis, task.layout, n_letters, number, wanted):
            _require_labels(task, trellis, rows, n_letters)
    return trellis


def _require_letters(task: Task, trellis: Trellis, n_letters: int) -> None:
    placed = [letter for _, letter in trellis.fixed]
    placed += [int(stage.letters.max(initial=0)) for stage in trellis.stages]
    if max(placed) >= n_letters:
        raise UsageError(
            f"the task {task.kind!r} places letter {max(placed)}, and the alphabet has the letters "
            f"0 to {n_letters - 1}"
        )


def _count(task: Task, n_letters: int, number: int) -> int:
    """The number of inputs, without a look at the trellis (a table that writes is its own)."""
    frame = task.layout
    if isinstance(task, Writing):
        own = task.n_prompts if frame is None else frame.count(frame.places[1])
        return Regions.whole(task.step_trellis(0)).counts()[0] if own is None else own
    return prod([n_letters] * number) if frame is None else frame.count(number)


def _compared(
    trellis: Trellis, frame: Frame | None, n_letters: int, number: int, count: int
) -> list[Index]:
    rng = np.random.default_rng(0)
    if count <= EVERY:
        if frame is not None:
            return [frame.rows(letters) for letters in frame.every(number)]
        return [np.arange(count)[:, None] // n_letters ** np.arange(number)[::-1] % n_letters]
    if frame is not None:
        drawn = [frame.rows(frame.sample(DRAWN, rng, number))]
    else:
        drawn = [rng.integers(0, n_letters, size=(DRAWN, number))]
    if trellis.n_edges <= _SMALL:  # a rare label is not met by chance
        of_each = max(1, OF_LABELS // len(trellis.labels))
        some = rng.permutation(trellis.labels)[:OF_LABELS].tolist()
        drawn += [Regions.whole(trellis.of_label(label)).sample(of_each) for label in some]
    return drawn


def _require_labels(task: Task, trellis: Trellis, rows: Index, n_letters: int) -> None:
    on_trellis = trellis.labels_of(rows)
    classes = task.classes(rows if task.ordered else _counted(rows, n_letters))
    wrong = np.flatnonzero(on_trellis != classes)
    if len(wrong):
        first = wrong[0]
        said = f"labels it {on_trellis[first]}" if on_trellis[first] >= 0 else "lacks it"
        raise UsageError(
            f"the task {task.kind!r} contradicts itself: its labels say {classes[first]} of "
            f"{''.join(LETTERS[letter] for letter in rows[first])}, and its trellis {said}"
        )


def _counted(rows: Index, n_letters: int) -> Index:
    return np.stack([(rows == letter).sum(1) for letter in range(n_letters)], axis=1)


# -- supports ------------------------------------------------------------------------------------

MOST_ROWS = 20_000
"""Count vectors, or strings, compared: with three letters, all counts up to 47 letters."""
MOST_SUPPORTS = 4096
"""Sets of letters compared: as many as exact verification decides, so all that it asks for."""
LONGEST = 1000
"""The count of a letter that stands for long strings."""


def labels_digest(task: Task, n_letters: int) -> str:
    """Return SHA-256 of what a task of counts says of strings and of supports.

    A task of one's own is named by its kind in a configuration, which says nothing of its code;
    what is kept of such a task is kept for these labels.

    Example:
        >>> from tsc_interp.tasks import ContainsAll, Parity
        >>> labels_digest(ContainsAll(letters="a"), 2) == labels_digest(Parity(), 2)
        False
    """
    classes = task.classes(_counts(n_letters).copy())
    shared = [_shared(task, frozenset(LETTERS[i] for i in s)) for s in _supports(n_letters)]
    return sha256(classes.tobytes() + repr(shared).encode()).hexdigest()


def check_supports(task: Task, n_letters: int) -> None:
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
        >>> from tsc_interp.tasks import ContainsAll
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


def _shared(task: Task, letters: frozenset[str]) -> int:
    """The class all strings over these letters are said to have; -1 if none is said."""
    label = task.label_of_support(letters)
    if label is not None and int(label) < 0:
        raise ValueError(
            f"the task {task.kind!r} says {label!r} of all strings over "
            f"{''.join(sorted(letters, key=LETTERS.index))}; classes are 0 or more"
        )
    return -1 if label is None else int(label)


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
