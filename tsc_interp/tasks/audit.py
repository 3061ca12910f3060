"""The inputs of a claim about order, compared with the task before anybody believes them.

A claim about all inputs of a length speaks of the paths of a trellis. `inputs_of` makes it, and
refuses a trellis with letters that do not exist, with more or fewer paths than there are inputs, or
with other labels than the task gives: on every input where there are few, else on random ones.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tsc_interp.errors import UsageError
from tsc_interp.frames.frame import Frame
from tsc_interp.rules import Rule
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.tasks.unrolling import trellis_of

EVERY = 20_000
"""Up to so many inputs are all compared."""
DRAWN, OF_LABELS = 2000, 256
"""Of more, so many random ones, and so many of its labels' own where the trellis is small."""
_SMALL = 20_000


def inputs_of(rule: Rule, n_letters: int, number: int) -> Trellis:
    """Return all inputs of a length, or of a step of a task that writes, with their labels.

    Args:
        rule: A task.
        n_letters: The size of the alphabet.
        number: The letters of each string, or the step.

    Raises:
        UsageError: The task's inputs contradict its labels; the message names one of them.

    Example:
        >>> from tsc_interp.tasks import Parity
        >>> inputs_of(Parity(letter="b"), n_letters=3, number=4).sizes
        (1, 2, 2, 2, 2)
    """
    if misfit := rule.misfit(n_letters):
        raise UsageError(misfit)
    if isinstance(rule, Writing):
        trellis = rule.step_trellis(number)
    else:
        trellis = trellis_of(rule, n_letters, number)
    _require_letters(rule, trellis, n_letters)
    frame: Frame | None = getattr(rule, "layout", None)
    paths, wanted = Regions.whole(trellis).counts()[0], _count(rule, frame, n_letters, number)
    if paths != wanted:
        raise UsageError(
            f"the task {rule.kind!r} contradicts itself: its trellis has {paths:,} inputs, and "
            f"there are {wanted:,}"
        )
    if type(rule).labels is not Writing.labels:  # which reads the labels off the trellis
        for rows in _compared(trellis, frame, n_letters, number, wanted):
            _require_labels(rule, trellis, rows, n_letters)
    return trellis


def _require_letters(rule: Rule, trellis: Trellis, n_letters: int) -> None:
    placed = [letter for _, letter in trellis.fixed]
    placed += [int(stage.letters.max(initial=0)) for stage in trellis.stages]
    if max(placed) >= n_letters:
        raise UsageError(
            f"the task {rule.kind!r} places letter {max(placed)}, and the alphabet has the letters "
            f"0 to {n_letters - 1}"
        )


def _count(rule: Any, frame: Frame | None, n_letters: int, number: int) -> int:
    """The number of inputs, without a look at the trellis (a table that writes is its own)."""
    if isinstance(rule, Writing):
        own = rule.n_prompts if frame is None else frame.count(frame.places[1])
        return Regions.whole(rule.step_trellis(0)).counts()[0] if own is None else own
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


def _require_labels(rule: Rule, trellis: Trellis, rows: Index, n_letters: int) -> None:
    on_trellis = trellis.labels_of(rows)
    classes = rule.classes(rows if rule.ordered else _counts(rows, n_letters))
    wrong = np.flatnonzero(on_trellis != classes)
    if len(wrong):
        first = wrong[0]
        said = f"labels it {on_trellis[first]}" if on_trellis[first] >= 0 else "lacks it"
        raise UsageError(
            f"the task {rule.kind!r} contradicts itself: its labels say {classes[first]} of "
            f"{''.join(LETTERS[letter] for letter in rows[first])}, and its trellis {said}"
        )


def _counts(rows: Index, n_letters: int) -> Index:
    return np.stack([(rows == letter).sum(1) for letter in range(n_letters)], axis=1)
