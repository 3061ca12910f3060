"""What is decided about strings in their order: the class of every string in a box.

A box gives each position a set of letters (by index) and holds one string for every way to pick.
A task says the class of single strings (`labels`), the class all strings of a box share
(`box_label`) and, where they share none, how to cut the box so that they soon do (`cut`). The
checker believes these three and nothing else about a task.

What single strings are is said by the tasks in `tsc_interp/task.py`; `boxes_of` finds what is known
here about boxes of each. Of a task of one's own that is nothing: its boxes are looked at string by
string, which is right and slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.strings import LETTERS, Alphabet
from tsc_interp.task import (
    SHIPPED,
    AtLeast,
    ContainsAll,
    Majority,
    Maximum,
    MostFrequent,
    Parity,
    Rule,
    kind_of,
    read_task,
)
from tsc_interp.task import Before as BeforeRule

Rows = NDArray[np.int64]
Sets = tuple[frozenset[int], ...]
Cut = tuple[int, frozenset[int]]

_ENUMERATED = 256
"""Strings of a box that are looked at one by one where a task knows nothing better."""


class OrderedTask(Protocol):
    @property
    def kind(self) -> str: ...

    def n_classes(self, n_letters: int) -> int: ...

    def labels(self, rows: Rows, n_letters: int) -> Rows:
        """Letter indices `[string position]` to classes `[string]`."""
        ...

    def box_label(self, sets: Sets, n_letters: int) -> int | None:
        """The class every string of the box has; None where they differ, or may."""
        ...

    def cut(self, sets: Sets, n_letters: int) -> Cut:
        """For a box without a class: a position, and a part of its set to split off."""
        ...

    def describe(self) -> str: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class _OfRule:
    """A task as it is, which says the class of strings; what is added is about boxes."""

    rule: Rule

    @property
    def kind(self) -> str:
        return self.rule.kind

    def n_classes(self, n_letters: int) -> int:
        return self.rule.n_classes(n_letters)

    def labels(self, rows: Rows, n_letters: int) -> Rows:
        if self.rule.ordered:
            return self.rule.classes(rows)
        return self.rule.classes((rows[:, :, None] == np.arange(n_letters)).sum(1))

    def describe(self) -> str:
        return self.rule.describe()

    def to_dict(self) -> dict[str, Any]:
        return self.rule.model_dump(mode="json")  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True)
class CountTask(_OfRule):
    """One of the report's tasks on letter counts: all of one letter's, or that letters occur."""

    def box_label(self, sets: Sets, n_letters: int) -> int | None:
        needed = [LETTERS.index(letter) for letter in self.rule.needs]
        sure, possible = _least_and_most(sets, needed)
        if isinstance(self.rule, ContainsAll):
            # Each needed letter is somewhere for certain, or one of them nowhere.
            return 1 if all(sure) else 0 if not all(possible) else None
        if len(needed) != 1:
            raise UsageError(f"no rule for boxes of the task {self.rule.kind!r}")
        if isinstance(self.rule, Parity) and sure != possible:
            return None
        # at_least and majority rise with the number of their one letter, so the ends decide.
        labels = {self._label(needed[0], count, len(sets)) for count in (sure[0], possible[0])}
        return labels.pop() if len(labels) == 1 else None

    def _label(self, letter: int, count: int, length: int) -> int:
        counts = np.zeros(max(letter, 1) + 2, dtype=np.int64)
        counts[letter] = count
        counts[letter + 1] = length - count  # any other letter stands for all others
        return int(bool(self.rule.labels(counts)))

    def cut(self, sets: Sets, n_letters: int) -> Cut:
        for letter in self.rule.needs:
            index = LETTERS.index(letter)
            if isinstance(self.rule, ContainsAll) and {index} in sets:
                continue
            for position, one in enumerate(sets):
                if index in one and len(one) > 1:
                    return position, frozenset({index})
        raise AssertionError("a box without a class can be cut")


@dataclass(frozen=True)
class MaxOf(_OfRule):
    """The class is the index of the largest letter: max-of-k for strings of length k."""

    rule: Rule = field(default_factory=Maximum)

    def box_label(self, sets: Sets, n_letters: int) -> int | None:
        largest = max(map(max, sets))
        return largest if max(map(min, sets)) == largest else None

    def cut(self, sets: Sets, n_letters: int) -> Cut:
        largest = max(map(max, sets))
        return next(i for i, one in enumerate(sets) if largest in one), frozenset({largest})


@dataclass(frozen=True)
class MostFrequentOf(_OfRule):
    """The class is the most frequent letter; of those that tie, the first."""

    rule: Rule = field(default_factory=MostFrequent)

    def box_label(self, sets: Sets, n_letters: int) -> int | None:
        sure, possible = _least_and_most(sets, range(n_letters))
        for letter, least in enumerate(sure):
            # A tie is won against the letters that come after.
            wins = (
                least > most or (least == most and letter < other)
                for other, most in enumerate(possible)
                if other != letter
            )
            if all(wins):
                return letter
        return None

    def cut(self, sets: Sets, n_letters: int) -> Cut:
        _, possible = _least_and_most(sets, range(n_letters))
        for letter in sorted(range(n_letters), key=lambda one: -possible[one]):
            for position, one in enumerate(sets):
                if letter in one and len(one) > 1:
                    return position, frozenset({letter})
        raise AssertionError("a box without a class can be cut")


@dataclass(frozen=True)
class _BeforeOf(_OfRule):
    @property
    def _indices(self) -> tuple[int, int]:
        rule = self.rule
        assert isinstance(rule, BeforeRule)
        return LETTERS.index(rule.first), LETTERS.index(rule.second)

    def box_label(self, sets: Sets, n_letters: int) -> int | None:
        first, second = self._indices
        possible: set[int] = set()
        for one in sets:
            possible |= {1} if first in one else set()
            possible |= {0} if second in one else set()
            if one <= {first, second}:
                break
        else:
            possible.add(0)
        return possible.pop() if len(possible) == 1 else None

    def cut(self, sets: Sets, n_letters: int) -> Cut:
        for position, one in enumerate(sets):
            for letter in self._indices:
                if letter in one and len(one) > 1:
                    return position, frozenset({letter})
        raise AssertionError("a box without a class can be cut")


def Before(first: str = "a", second: str = "b") -> _BeforeOf:
    """Class 1: the letter `first` occurs, and no `second` stands before its first occurrence."""
    return _BeforeOf(BeforeRule(first=first, second=second))


class _Enumerating:
    """Boxes get a class by looking at every string, so they stay small."""

    def labels(self, rows: Rows, n_letters: int) -> Rows:
        raise NotImplementedError

    def box_label(self, sets: Sets, n_letters: int) -> int | None:
        if prod(map(len, sets)) > _ENUMERATED:
            return None
        rows = np.array(list(product(*map(sorted, sets))), dtype=np.int64)
        labels = set(self.labels(rows, n_letters).tolist())
        return labels.pop() if len(labels) == 1 else None

    def cut(self, sets: Sets, n_letters: int) -> Cut:
        position = max(range(len(sets)), key=lambda i: len(sets[i]))
        letters = sorted(sets[position])
        return position, frozenset(letters[: len(letters) // 2])


@dataclass(frozen=True)
class OwnBoxes(_Enumerating, _OfRule):
    """A task of one's own, on counts or on order."""

    labels = _OfRule.labels


@dataclass(frozen=True)
class LabelledBy(_Enumerating):
    """Any function of strings."""

    function: Callable[[Rows], Rows]
    classes: int
    name: str
    kind: str = "function"

    def n_classes(self, n_letters: int) -> int:
        return self.classes

    def labels(self, rows: Rows, n_letters: int) -> Rows:
        found = np.asarray(self.function(rows))
        whole = found.shape == (len(rows),) and found.dtype.kind in "iub"
        if not whole or not ((found >= 0) & (found < self.classes)).all():
            raise UsageError(
                f"the task {self.name!r} must give each string a class from 0 to {self.classes - 1}"
            )
        return found.astype(np.int64)

    def describe(self) -> str:
        return self.name

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name}


def _least_and_most(sets: Sets, letters: Iterable[int]) -> tuple[list[int], list[int]]:
    """How often each letter occurs at least and at most in the strings of a box."""
    letters = list(letters)
    sure = [sum(one == {letter} for one in sets) for letter in letters]
    return sure, [sum(letter in one for one in sets) for letter in letters]


def partition(
    task: OrderedTask,
    length: int,
    n_letters: int,
    within: Sets | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, Sets]]:
    """Disjoint boxes of one class each that hold every string of this length (or of a box).

    Once `enough` says so nothing is cut any more: what is left comes as it is, its class -1.
    """
    waiting = [within or (frozenset(range(n_letters)),) * length]
    while waiting:
        sets = waiting.pop()
        label = -1 if enough() else task.box_label(sets, n_letters)
        if label is not None:
            yield label, sets
            continue
        position, part = task.cut(sets, n_letters)
        before, after = sets[:position], sets[position + 1 :]
        waiting += [(*before, piece, *after) for piece in (sets[position] - part, part)]


def boxes_of(rule: Rule) -> OrderedTask:
    """A task, with what is known about boxes of its strings."""
    return _KNOWN.get(type(rule), OwnBoxes)(rule)


_KNOWN: dict[type, Callable[[Rule], OrderedTask]] = {
    ContainsAll: CountTask,
    AtLeast: CountTask,
    Majority: CountTask,
    Parity: CountTask,
    MostFrequent: MostFrequentOf,
    Maximum: MaxOf,
    BeforeRule: _BeforeOf,
}


def task_of(config: ClassifierConfig, task: OrderedTask | Rule | str | None) -> OrderedTask:
    """The given task, or the model's own; refused if the model has too few outputs or letters."""
    given: Any = config.task if task is None else _named(task) if isinstance(task, str) else task
    chosen: OrderedTask = given if hasattr(given, "box_label") else boxes_of(_named(given))
    classes, outputs = chosen.n_classes(config.n_letters), max(config.n_outputs, 2)
    if classes > outputs:
        raise UsageError(
            f"the task ({chosen.describe()}) has {classes} classes, but the model tells {outputs} "
            f"apart (n_outputs = {config.n_outputs})"
        )
    named = set(chosen.rule.needs) if isinstance(chosen, _OfRule) else set()
    missing = named - set(Alphabet(config.n_letters).letters)
    if missing:
        raise UsageError(f"the task needs {''.join(sorted(missing))}, not in the model's alphabet")
    return chosen


def _named(task: Any) -> Any:
    try:
        return read_task(task)
    except ValueError as error:
        raise UsageError(str(error)) from None


def task_from_dict(data: Any, config: ClassifierConfig) -> OrderedTask:
    """The task a certificate names: the model's own, or one of those shipped."""
    made = boxes_of(config.task)
    shipped = [kind_of(task) for task in SHIPPED]
    if isinstance(data, dict) and data.get("kind") in shipped and data != made.to_dict():
        made = boxes_of(_named(data))
    if made.to_dict() != data:
        raise UsageError(f"the certificate is about a task that is not known here: {data!r}")
    return task_of(config, made)
