"""`tsc.tasks.Automaton`: a task on the order of letters, given as a finite automaton.

    tsc.tasks.Automaton(
        states=["even", "odd"], start="even", letters="ab",
        step={"even": {"a": "odd", "b": "even"}, "odd": {"a": "even", "b": "odd"}},
        label=lambda state: state == "odd",
    )

`step` and `label` may be functions, which are explored once, or tables. What is kept is always the
table, so a checkpoint can name the task without any code of the person who wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import field_validator, model_validator

from tsc_interp.errors import ConfigError, UnsupportedError, shorten
from tsc_interp.rules import Classes, Rule, Whole
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.machine import MOST_STATES, Machine, explore


class OrderRule(Rule):
    """A rule about the order of letters that is a finite automaton at each length."""

    ordered: ClassVar[bool] = True

    def machine(self, n_letters: int, length: int) -> Machine:
        """The automaton over this alphabet, as far as strings of `length` letters need it."""
        raise UnsupportedError(f"{type(self).__name__} is no automaton that reads letters in order")

    def labels(self, letters: Classes) -> Classes:
        """`[string position]`, -1 behind a string's end, to classes `[string]`."""
        used = max(int(letters.max(initial=0)) + 1, 1)
        used = max(used, *(LETTERS.index(letter) + 1 for letter in self.needs), 1)
        return self.machine(used, letters.shape[1]).classes(letters)


class Automaton(OrderRule):
    """A finite automaton (a Moore machine): the class of a string is that of its last state.

    Args:
        states: Names of the states; not needed if `step` is a function.
        start: The state before the first letter.
        letters: The alphabet, `"abc"`; not needed if `step` is a table, whose columns name it.
        step: A function of a state and a letter; or a mapping of states to mappings of letters to
            states; or a mapping of (state, letter) pairs; or rows of states, one per letter.
        label: A function of a state, a mapping of states, or one class per state. True is 1.
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
        if not 0 <= self.start < count or min(self.label) < 0:
            raise ValueError("the start is the number of a state, and labels are 0 or more")
        return self

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
    fields = dict(data)
    if callable(fields.get("step")):
        return _explored(fields)
    states = fields.get("states")
    step, label, start = fields.get("step"), fields.get("label"), fields.get("start")
    if isinstance(states, int) and not isinstance(states, bool):
        if states > MOST_STATES:
            raise ConfigError(f"an automaton has at most {MOST_STATES:,} states, got {states:,}")
        states = range(states)
    if states is None and isinstance(step, Sequence):
        states = range(len(step))
    if not isinstance(states, Sequence) or isinstance(states, str):
        return fields  # refused by the fields, in their words
    number = {state: i for i, state in enumerate(states)}
    fields["states"] = tuple(map(str, states))
    if isinstance(start, Hashable) and start in number:
        fields["start"] = number[start]
    if isinstance(label, Mapping):
        fields["label"] = [label.get(state, -1) for state in states]
    elif callable(label):
        fields["label"] = [label(state) for state in states]
    if isinstance(fields.get("label"), Sequence):
        fields["label"] = tuple(int(entry) for entry in fields["label"])
    if isinstance(step, Mapping):
        fields["step"], fields["letters"] = _table(step, number, fields.get("letters"))
    elif isinstance(step, Sequence):
        fields["step"] = tuple(tuple(number.get(entry, entry) for entry in row) for row in step)
        fields.setdefault("letters", LETTERS[: len(step[0]) if step else 0])
    return fields


def _table(
    step: Mapping[Any, Any], number: Mapping[Any, int], letters: str | None
) -> tuple[tuple[tuple[int, ...], ...], str]:
    if all(isinstance(row, Mapping) for row in step.values()):
        step = {(state, letter): to for state, row in step.items() for letter, to in row.items()}
    used = letters or "".join(sorted({key[1] for key in step}, key=LETTERS.index))
    missing = [(s, letter) for s in number for letter in used if (s, letter) not in step]
    if missing:
        raise ConfigError(
            f"an automaton is total: there is no step from {missing[0][0]!r} by {missing[0][1]!r}"
        )
    unknown = [to for to in step.values() if to not in number]
    if unknown:
        raise ConfigError(f"a step leads to {shorten(unknown[0])}, which is not one of the states")
    rows = (tuple(number[step[state, letter]] for letter in used) for state in number)
    return tuple(rows), used


def _explored(fields: dict[str, Any]) -> dict[str, Any]:
    """Follow a step function from the start until there is nothing new."""
    step: Callable[[Any, str], Any] = fields["step"]
    label, letters = fields.get("label"), fields.get("letters", LETTERS[:3])
    if isinstance(letters, int):
        letters = LETTERS[:letters]
    states = fields.get("states")
    known = None if states is None or isinstance(states, int) else list(states)
    start = fields.get("start", None if known is None else known[0])

    def class_of(state: Any) -> int:
        if callable(label):
            return int(label(state))
        if isinstance(label, Mapping):
            return int(label[state])
        if known is not None and isinstance(label, Sequence):
            return int(label[known.index(state)])
        raise ConfigError("label is a function of a state, a mapping, or one class per state")

    def following(state: Hashable, letter: int) -> Hashable:
        to: Hashable = step(state, letters[letter])
        if known is not None and to not in known:
            raise ConfigError(
                f"step({state!r}, {letters[letter]!r}) is {shorten(to)}, which is not one of the "
                "states"
            )
        return to

    machine, order = explore(start, following, class_of, len(letters))
    return {
        **fields,
        "letters": letters,
        "states": tuple(map(str, order)),
        "start": machine.start,
        "step": tuple(tuple(row) for row in machine.step.tolist()),
        "label": tuple(machine.label.tolist()),
    }
