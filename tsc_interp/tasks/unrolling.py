"""`trellis_of`: all strings of one length with their labels, for every task.

Tasks on order bring a machine or a trellis of their own. Tasks on counts become a machine here: a
set of letters seen, a counter, a parity. Majority and the most frequent letter need a counter that
is as large as the string, so they are an automaton at each length and not for all lengths at once.
A task of one's own on counts is a counter of every letter, and one on order the tree of all
strings: right for any rule, and small only for short strings.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tsc_interp.errors import UsageError
from tsc_interp.rules import (
    AtLeast,
    Before,
    ContainsAll,
    Majority,
    Maximum,
    MostFrequent,
    Parity,
    Rule,
)
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.machine import MOST_STATES
from tsc_interp.tasks.trellis import Index, Trellis, letter_stage

Step = Callable[[Any, int], Hashable]
LabelsOf = Callable[[list[Any]], Index]


def trellis_of(rule: Rule, n_letters: int, length: int) -> Trellis:
    """Return a trellis of every string of one length, labelled by a rule.

    Args:
        rule: A task.
        n_letters: The size of the alphabet.
        length: The number of letters of each string.

    Returns:
        The trellis. Its paths are the strings, and its last nodes hold the answers.

    Raises:
        UsageError: The rule needs more states than can be held.

    Example:
        >>> from tsc_interp.tasks import Parity, trellis_of
        >>> trellis_of(Parity(letter="b"), n_letters=3, length=4).sizes
        (1, 2, 2, 2, 2)
    """
    if length < 1:
        raise UsageError(f"a string has one letter or more, got length {length}")
    own: Any = getattr(rule, "trellis", None)
    if own is not None:
        trellis: Trellis = own(n_letters, length)
        return trellis
    machine: Any = getattr(rule, "machine", None)
    if machine is not None:
        unrolled: Trellis = machine(n_letters, length).unrolled(length)
        return unrolled
    start, step, labels = _parts(rule, n_letters, length)
    return _layered(start, step, labels, n_letters, length)


def _parts(rule: Any, n_letters: int, length: int) -> tuple[Hashable, Step, LabelsOf]:
    """A start, a step function, and the labels of the states after the last letter."""
    zero = (0,) * n_letters
    if isinstance(rule, ContainsAll):
        needed = {LETTERS.index(letter): 1 << i for i, letter in enumerate(rule.letters)}
        full = (1 << len(needed)) - 1
        return 0, lambda seen, x: seen | needed.get(x, 0), _each(lambda seen: int(seen == full))
    if isinstance(rule, AtLeast | Parity | Majority):
        return _of_one_letter(rule, length)
    if isinstance(rule, Maximum):
        return -1, max, _each(int)
    if isinstance(rule, Before):
        first, second = LETTERS.index(rule.first), LETTERS.index(rule.second)
        return 0, lambda s, x: s or (x == first) + 2 * (x == second), _each(lambda s: int(s == 1))
    counted = isinstance(rule, MostFrequent) or not rule.ordered
    if counted:
        return zero, _one_more, lambda counts: rule.classes(np.array(counts))
    if n_letters**length > MOST_STATES:
        raise UsageError(
            f"the task {rule.kind!r} says the class of single strings only, and there are "
            f"{n_letters}^{length} of them; give it as a tsc.tasks.Automaton"
        )
    return (), lambda s, x: (*s, x), lambda strings: rule.classes(np.array(strings))


def _of_one_letter(rule: Any, length: int) -> tuple[Hashable, Step, LabelsOf]:
    letter = LETTERS.index(rule.letter)
    if isinstance(rule, Parity):
        odd = int(rule.odd)
        return 0, lambda s, x: s ^ (x == letter), _each(lambda s: int(s == odd))
    if isinstance(rule, AtLeast):
        most = rule.k
        return 0, lambda n, x: min(most, n + (x == letter)), _each(lambda n: int(n == most))
    return 0, lambda n, x: n + (x == letter), _each(lambda n: int(2 * n > length))


def _one_more(counts: Any, letter: int) -> tuple[int, ...]:
    return (*counts[:letter], counts[letter] + 1, *counts[letter + 1 :])


def _each(label: Callable[[Any], int]) -> LabelsOf:
    return lambda states: np.array([label(state) for state in states], dtype=np.int64)


def _layered(start: Hashable, step: Step, labels: LabelsOf, n_letters: int, length: int) -> Trellis:
    """Layer by layer, so that states may count letters without bound."""
    states: list[Hashable] = [start]
    stages = []
    for place in range(length):
        number: dict[Hashable, int] = {}
        target = [
            [number.setdefault(step(state, letter), len(number)) for letter in range(n_letters)]
            for state in states
        ]
        if len(number) > MOST_STATES:
            raise UsageError(
                f"this task needs more than {MOST_STATES:,} states for strings of {length} letters"
            )
        stages.append(letter_stage(place, np.array(target)))
        states = list(number)
    of_state = labels(states)
    return Trellis(length, (), tuple(stages), length - 1, of_state[stages[-1].target])
