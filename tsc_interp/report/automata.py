"""A task on order as a table: the states of its automaton, where each letter leads, the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tsc_interp.results.base import Table
from tsc_interp.strings import LETTERS
from tsc_interp.tasks import AtLeast, ContainsAll, Maximum, Parity
from tsc_interp.tasks.machine import Machine, explore

MOST_STATES = 60
_COUNTED = (ContainsAll, AtLeast, Parity, Maximum)


def automaton_table(
    task: Any, n_letters: int, names: Sequence[str] = (), classes: Sequence[str] = ()
) -> Table | None:
    """Return the automaton of a task, a row for each state that can be reached.

    States of no name of their own are named by a shortest string that leads there.

    Args:
        task: A rule of `tsc.tasks`.
        n_letters: The size of the alphabet.
        names: What letters are called, if not a, b, c.
        classes: What classes are called, if not by their numbers.

    Returns:
        None where the task is no automaton of up to 60 states, the same at every length.

    Example:
        >>> from tsc_interp.tasks import Regex
        >>> table = automaton_table(Regex("(a|b)*c"), 3, classes=("no", "yes"))
        >>> for row in table.rows:
        ...     print(*row)
        start start start c no
        c c a c a c a yes
    """
    machine = _machine(task, n_letters)
    letters = tuple(names) or tuple(LETTERS[:n_letters])
    if machine is None:
        return None
    words = _shortest(machine, letters if max(map(len, letters)) == 1 else LETTERS)
    stated: Sequence[str] = getattr(task, "states", ())
    if len(words) > MOST_STATES:
        return None
    called = {state: stated[state] if stated else word for state, word in words.items()}
    rows = []
    for state, name in called.items():
        label = int(machine.label[state])
        answer = classes[label] if 0 <= label < len(classes) else f"class {label}"
        answer = "no input" if label < 0 else answer
        rows.append((name, *(called[to] for to in machine.step[state].tolist()), answer))
    return Table.from_rows(task.describe(), ("state", *letters, "answer"), rows)


def _machine(task: Any, n_letters: int) -> Machine | None:
    if isinstance(task, _COUNTED):
        start, step, labels = task.walk(n_letters, 1)
        # Before the first letter a maximum has no class.
        return explore(start, step, lambda s: max(0, int(labels([s])[0])), n_letters)[0]
    if not hasattr(task, "machine"):
        return None
    machine: Machine = task.machine(n_letters, 2)
    # A machine that grows with the length (a sum) is not one automaton.
    return machine if len(machine) == len(task.machine(n_letters, 3)) else None


def _shortest(machine: Machine, letters: Sequence[str]) -> dict[int, str]:
    """Every reachable state and a shortest string that leads there, the start first."""
    words, order = {machine.start: ""}, [machine.start]
    for state in order:  # grows while it is read
        for letter, to in enumerate(machine.step[state].tolist()):
            if to not in words:
                words[to] = words[state] + letters[letter]
                order.append(to)
    return {**words, machine.start: "start"}
