"""What is being decided: the label of a string, which depends on its letter counts alone.

A rule is one small frozen class: a `kind` to tell it apart in JSON, `labels(counts)` on an array
whose last axis is letters, and `label_of_support(letters)` for the rules that only look at which
letters occur (`None` for those that do not).

A task of one's own is a subclass of `OwnTask`:

    class EvenLength(tsc.OwnTask):
        kind: Literal["even_length"] = "even_length"

        def labels(self, counts):
            return counts.sum(-1) % 2 == 0

Configurations and checkpoints name it by its `kind`. The class must have been imported where they
are read, or be an entry point of the group `tsc_interp.tasks` in an installed package.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PlainValidator, field_validator

from tsc_interp.errors import shorten
from tsc_interp.frozen import Frozen
from tsc_interp.strings import LETTERS, Counts

Labels = NDArray[np.bool_]


class Rule(Protocol):
    """What every task can do."""

    @property
    def kind(self) -> str: ...

    @property
    def needs(self) -> str:
        """The letters the rule names, which the alphabet must contain."""
        ...

    def labels(self, counts: Counts) -> Labels:
        """`[..., letter]` to `[...]`: True is the positive class."""
        ...

    def label_of_support(self, letters: frozenset[str]) -> bool | None:
        """The label all strings over exactly these letters share, or None if they do not."""
        ...

    def describe(self) -> str: ...


class ContainsAll(Frozen):
    """Positive when every letter of the set occurs: with `"ab"`, the source report's task."""

    kind: Literal["contains_all"] = "contains_all"
    letters: str = "ab"

    @field_validator("letters")
    @classmethod
    def _sorted_set(cls, letters: str) -> str:
        if not letters or not set(letters) <= set(LETTERS):
            raise ValueError(f"the positive set needs one or more letters, got {letters!r}")
        return "".join(sorted(set(letters), key=LETTERS.index))

    @property
    def needs(self) -> str:
        return self.letters

    def labels(self, counts: Counts) -> Labels:
        wanted = [LETTERS.index(letter) for letter in self.letters]
        return np.asarray((counts[..., wanted] > 0).all(axis=-1))

    def label_of_support(self, letters: frozenset[str]) -> bool | None:
        return set(self.letters) <= letters

    def describe(self) -> str:
        return "contains " + " and ".join(self.letters)


class _OneLetterRule(Frozen):
    letter: str = Field(default="a", pattern=f"^[{LETTERS}]$")

    @property
    def needs(self) -> str:
        return self.letter

    def label_of_support(self, letters: frozenset[str]) -> bool | None:
        return None if self.letter in letters else self._label_without()

    def _label_without(self) -> bool:
        """The label of a string in which the letter does not occur."""
        return False

    def _count(self, counts: Counts) -> Counts:
        return counts[..., LETTERS.index(self.letter)]


class AtLeast(_OneLetterRule):
    """Positive when the letter occurs `k` times or more."""

    kind: Literal["at_least"] = "at_least"
    k: int = Field(default=1, ge=1)

    def labels(self, counts: Counts) -> Labels:
        return np.asarray(self._count(counts) >= self.k)

    def describe(self) -> str:
        return f"contains at least {self.k} {self.letter}"


class Majority(_OneLetterRule):
    """Positive when more than half of the characters are this letter."""

    kind: Literal["majority"] = "majority"

    def labels(self, counts: Counts) -> Labels:
        return np.asarray(2 * self._count(counts) > counts.sum(axis=-1))

    def label_of_support(self, letters: frozenset[str]) -> bool | None:
        return True if letters == {self.letter} else super().label_of_support(letters)

    def describe(self) -> str:
        return f"more than half are {self.letter}"


class Parity(_OneLetterRule):
    """Positive when the number of this letter is odd (or even, with `odd = false`)."""

    kind: Literal["parity"] = "parity"
    odd: bool = True

    def labels(self, counts: Counts) -> Labels:
        return np.asarray((self._count(counts) % 2 == 1) == self.odd)

    def _label_without(self) -> bool:
        return not self.odd

    def describe(self) -> str:
        return f"an {'odd' if self.odd else 'even'} number of {self.letter}"


class OwnTask(Frozen):
    """The base of tasks that are not shipped; `labels` is all that a subclass must write.

    A verifier knows the label of single strings then. Where all strings over a set of letters share
    a label, `label_of_support` says so, which is what makes proofs about every length possible.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _OWN.append(cls)

    @property
    def needs(self) -> str:
        return ""

    def labels(self, counts: Counts) -> Labels:
        raise NotImplementedError(f"{type(self).__name__} has no labels(counts)")

    def label_of_support(self, letters: frozenset[str]) -> bool | None:
        return None

    def describe(self) -> str:
        return str(getattr(self, "kind", type(self).__name__)).replace("_", " ")


SHIPPED: tuple[type[Any], ...] = (ContainsAll, AtLeast, Majority, Parity)
_OWN: list[type[OwnTask]] = []


def _kind(task: type[Any]) -> str:
    field = task.model_fields.get("kind")
    return str(field.default) if field is not None else ""


def task_of_kind(kind: str) -> type[Any] | None:
    """The class behind a name: shipped, imported, or an entry point; the youngest of a name."""
    known: dict[str, type[Any]] = {_kind(task): task for task in (*_OWN, *SHIPPED)}
    if kind not in known:
        for entry in entry_points(group="tsc_interp.tasks", name=kind):
            known[kind] = entry.load()
    return known.get(kind)


def read_task(given: object) -> Any:
    """A task from its JSON, from the name of its kind, or as it is."""
    if isinstance(given, str):
        given = {"kind": given.replace("-", "_")}
    if isinstance(given, Mapping):
        kind = given.get("kind")
        task = task_of_kind(kind) if isinstance(kind, str) else None
        if task is None:
            names = ", ".join(repr(_kind(task)) for task in (*SHIPPED, *_OWN))
            raise ValueError(
                f"there is no task of kind {shorten(kind)}; those known here are {names}. One of "
                "your own must be imported first, or be an entry point of tsc_interp.tasks"
            )
        given = task(**{str(name): value for name, value in given.items()})
    if not isinstance(given, (*SHIPPED, OwnTask)):
        raise ValueError(f"a task is one of tsc-interp's or a tsc.OwnTask, got {shorten(given)}")
    if isinstance(given, OwnTask) and not _kind(type(given)):
        raise ValueError(f"{type(given).__name__} needs a kind: Literal[...] = ...")
    return given


Task = Annotated[Rule, PlainValidator(read_task)]
"""What a configuration holds."""
