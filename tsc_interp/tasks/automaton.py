"""`tsc.tasks.Automaton`: a task on the order of letters, given as a finite automaton.

`step` and `label` may be functions, which are explored once, or tables. What is kept is always the
table, so a checkpoint can name the task without any code of the person who wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import field_validator, model_validator

from tsc_interp.errors import ConfigError, shorten
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.base import Classes, Whole
from tsc_interp.tasks.layers import MOST_STATES
from tsc_interp.tasks.machine import Machine, MachineTask, explore


class Automaton(MachineTask, shipped=True):
    """A finite automaton (a Moore machine): the class of a string is that of its last state.

    Args:
        states: Names of the states; not needed if `step` is a function.
        start: The state before the first letter.
        letters: The alphabet, `"abc"`; not needed if `step` is a table, whose columns name it.
        step: A function of a state and a letter; or a mapping of states to mappings of letters to
            states; or a mapping of (state, letter) pairs; or rows of states, one per letter.
        label: A function of a state, a mapping of states, or one class per state. True is 1. None
            says that strings which end there are no inputs, such as those that are no prefix of
            balanced brackets.
        name: The name of the task in reports.

    Example:
        >>> from tsc_interp.tasks import Automaton
        >>> task = Automaton(
        ...     states=["even", "odd"], start="even", letters="ab",
        ...     step={"even": {"a": "odd", "b": "even"}, "odd": {"a": "even", "b": "odd"}},
        ...     label=lambda state: state == "odd",
        ... )
        >>> task.step, task.label, task.reachable
        (((1, 0), (0, 1)), (0, 1), 2)
    """

    kind: Literal["automaton"] = "automaton"
    exact: ClassVar[bool] = True
    letters: str
    states: tuple[str, ...]
    start: Whole
    step: tuple[tuple[Whole, ...], ...]
    label: tuple[Whole, ...]
    """-1 for None."""
    name: str = ""

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**_as_data(data))

    @field_validator("letters")
    @classmethod
    def _an_alphabet(cls, letters: str) -> str:
        if not letters or letters != LETTERS[: len(letters)]:
            raise ValueError(
                f"the letters of an automaton are the first ones of {LETTERS[:6]}..., in order"
            )
        return letters

    @model_validator(mode="after")
    def _total(self) -> Self:
        count = len(self.states)
        if len(set(self.states)) < count:
            raise ValueError("two states have the same name")
        if len(self.step) != count or len(self.label) != count:
            raise ValueError(
                f"{count} states need {count} rows of steps and {count} labels, got "
                f"{len(self.step)} and {len(self.label)}"
            )
        for state, row in zip(self.states, self.step, strict=True):
            if len(row) != len(self.letters) or not all(0 <= entry < count for entry in row):
                raise ValueError(
                    f"the state {state!r} needs a next state for each of the letters "
                    f"{self.letters}, numbers below {count}; got {list(row)}"
                )
        if not 0 <= self.start < count or min(self.label) < -1:
            raise ValueError("the start is the number of a state, and labels are 0 or more or None")
        return self

    @property
    def partial(self) -> bool:
        return min(self.label) < 0

    @property
    def needs(self) -> str:
        return self.letters

    @property
    def reachable(self) -> int:
        """The number of states that some string reaches."""
        return len(self._machine.reachable())

    @property
    def _machine(self) -> Machine:
        return Machine(self.start, np.array(self.step), np.array(self.label))

    def n_classes(self, n_letters: int) -> int:
        return max(2, max(self.label) + 1)

    def machine(self, n_letters: int, length: int) -> Machine:
        """Return the automaton as tables of transitions and labels."""
        if n_letters != len(self.letters):
            raise ConfigError(
                f"this automaton reads the letters {self.letters}, so it labels strings over these "
                f"{len(self.letters)} and not over {n_letters}"
            )
        return self._machine

    def labels(self, letters: Classes) -> Classes:
        return self._machine.classes(letters)

    def describe(self) -> str:
        return self.name or f"an automaton of {len(self.states)} states"


def _as_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Functions and mappings as tables; what is a table already stays as it is."""
    fields, step = dict(data), data.get("step")
    start: Any = data.get("start")
    states, letters = data.get("states"), data.get("letters", LETTERS[:3])
    if isinstance(states, int) and not isinstance(states, bool):
        if states > MOST_STATES:
            raise ConfigError(f"an automaton has at most {MOST_STATES:,} states, got {states:,}")
        states = range(states)
    if states is None and isinstance(step, Sequence):
        states = range(len(step))
    if isinstance(letters, int):
        letters = LETTERS[:letters]
    if isinstance(step, Mapping):
        if all(isinstance(row, Mapping) for row in step.values()):
            step = {(s, letter): to for s, row in step.items() for letter, to in row.items()}
        used = {key[1] for key in step}
        letters = data.get("letters") or "".join(sorted(used, key=LETTERS.index))
    elif isinstance(step, Sequence):
        letters = data.get("letters", LETTERS[: len(step[0]) if step else 0])
    if states is None and callable(step):
        rows, states, start = _explored(step, letters, start)
    elif isinstance(states, Sequence) and not isinstance(states, str):
        number = {state: i for i, state in enumerate(states)}
        start = number.get(start, start) if isinstance(start, Hashable) else start
        rows = _rows(step, number, letters)
    else:
        return fields  # refused by the fields, in their words
    return {
        **fields, "letters": letters, "states": tuple(map(str, states)), "start": start,
        "step": rows, "label": _classes(fields.get("label"), states),
    }  # fmt: skip


def _rows(step: Any, number: Mapping[Any, int], letters: str) -> Any:
    """The numbers of the next states."""
    if isinstance(step, Mapping):
        missing = [(s, letter) for s in number for letter in letters if (s, letter) not in step]
        if missing:
            state, letter = missing[0]
            raise ConfigError(
                f"an automaton is total: there is no step from {state!r} by {letter!r}"
            )
        rows: Any = [[step[state, letter] for letter in letters] for state in number]
    elif callable(step):
        rows = [[step(state, letter) for letter in letters] for state in number]
    else:  # numbers, or names
        return tuple(tuple(number.get(entry, entry) for entry in row) for row in step or ())
    unknown = [to for row in rows for to in row if to not in number]
    if unknown:
        raise ConfigError(f"a step leads to {shorten(unknown[0])}, which is not one of the states")
    return tuple(tuple(number[to] for to in row) for row in rows)


def _explored(
    step: Callable[[Any, str], Any], letters: str, start: Hashable
) -> tuple[Any, list[Hashable], int]:
    """Follow a step function from the start until there is nothing new."""
    machine, order = explore(start, lambda s, x: step(s, letters[x]), lambda s: 0, len(letters))
    return tuple(map(tuple, machine.step.tolist())), order, machine.start


def _classes(label: Any, states: Sequence[Any]) -> Any:
    """One class per state; -1 where it is None."""
    if isinstance(label, Mapping):
        missing = [state for state in states if state not in label]
        if missing:
            raise ConfigError(f"the state {shorten(missing[0])} has no label")
        label = [label[state] for state in states]
    elif callable(label):
        label = [label(state) for state in states]
    if not isinstance(label, Sequence):
        raise ConfigError("label is a function of a state, a mapping, or one class per state")
    return tuple(-1 if entry is None else int(entry) for entry in label)
