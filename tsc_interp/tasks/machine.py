"""A finite automaton as a table, and its inputs of one length as a trellis.

This is a Moore machine: `step[state, letter]` is the next state, and `label[state]` the class of a
string that ends there, or -1 where such a string has none. Machines are plain arrays. The tasks
that make them say what states mean.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.base import Classes, Task
from tsc_interp.tasks.layers import MOST_STATES, labelled
from tsc_interp.tasks.trellis import Index, Trellis, letter_stage


@dataclass(frozen=True, eq=False)
class Machine:
    """`step [state letter]` and `label [state]`; state numbers below the number of rows."""

    start: int
    step: Index
    label: Index

    def __len__(self) -> int:
        return len(self.step)

    def classes(self, letters: Index) -> Index:
        """The class of each string, `[string position]` with -1 behind its end."""
        state = np.full(len(letters), self.start, dtype=np.int64)
        for column in letters.T:
            state = np.where(column >= 0, self.step[state, np.maximum(column, 0)], state)
        return self.label[state]

    def reachable(self) -> Index:
        """The states some string leads to, the start's included, in ascending order."""
        reached = np.zeros(len(self), dtype=bool)
        reached[self.start] = True
        while True:
            more = reached.copy()
            more[self.step[reached]] = True
            if (more == reached).all():
                return np.flatnonzero(reached)
            reached = more

    def minimised(self) -> Machine:
        """The smallest machine with the same classes: Moore's partition refinement."""
        reached = self.reachable()
        number = np.full(len(self), -1)
        number[reached] = np.arange(len(reached))
        step, label = number[self.step[reached]], self.label[reached]
        block = np.unique(label, return_inverse=True)[1].reshape(-1)
        while True:
            rows = np.column_stack([block, block[step]])
            _, first, finer = np.unique(rows, axis=0, return_index=True, return_inverse=True)
            finer = finer.reshape(-1)
            if len(first) == block.max() + 1:
                return Machine(int(finer[number[self.start]]), finer[step[first]], label[first])
            block = finer

    def unrolled(self, length: int) -> Trellis:
        """Every string of this length: one stage per letter, the last state has the label."""
        if length < 1:
            raise UsageError(f"a string has one letter or more, got length {length}")
        states, stages = np.array([self.start]), []
        for place in range(length):
            after = self.step[states]
            states = np.unique(after)
            stages.append(letter_stage(place, np.searchsorted(states, after)))
        labels = self.label[states][stages[-1].target]
        return labelled(Trellis(length, (), tuple(stages), length - 1, labels))


class MachineTask(Task):
    """A task on the order of letters that is a finite automaton at each length."""

    ordered: ClassVar[bool] = True

    def machine(self, n_letters: int, length: int) -> Machine:
        """The automaton over this alphabet, as far as strings of `length` letters need it."""
        raise UnsupportedError(f"{type(self).__name__} is no automaton that reads letters in order")

    def trellis(self, n_letters: int, length: int) -> Trellis:
        return self.machine(n_letters, length).unrolled(length)

    def labels(self, letters: Classes) -> Classes:
        """`[string position]`, -1 behind a string's end, to classes `[string]`."""
        used = max([int(letters.max(initial=0)), *map(LETTERS.index, self.needs)]) + 1
        return self.machine(used, letters.shape[1]).classes(letters)


def explore(
    start: Hashable,
    step: Callable[[Hashable, int], Hashable],
    label: Callable[[Hashable], int],
    n_letters: int,
) -> tuple[Machine, list[Hashable]]:
    """The machine of a `step` function, and the states it found in the order of their numbers.

    Raises:
        UsageError: where there are more than `MOST_STATES`.
    """
    number: dict[Hashable, int] = {start: 0}
    order, rows = [start], []
    for state in order:  # grows while it is read
        row = []
        for letter in range(n_letters):
            following = step(state, letter)
            if following not in number:
                if len(order) >= MOST_STATES:
                    raise UsageError(
                        f"this task has more than {MOST_STATES:,} states; a finite automaton "
                        "needs a bound (a depth, a length), or fewer states"
                    )
                number[following] = len(order)
                order.append(following)
            row.append(number[following])
        rows.append(row)
    labels = np.array([label(state) for state in order], dtype=np.int64)
    return Machine(0, np.array(rows, dtype=np.int64).reshape(len(order), n_letters), labels), order
