"""A proof about an order-sensitive model: the document, and what the trusted base derived from it.

The trusted base speaks of tables. That a table has all inputs of the model's task, with their
labels, is shown here, by comparison with the one that the task is lowered to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.output.display import Displayed
from tsc_interp.output.numbers import counted
from tsc_interp.tasks.audit import inputs_of
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.language import MAX_LENGTH, written_table
from tsc_interp.trusted.replay import text_of
from tsc_interp.verification.documents import write_certificate


@dataclass(frozen=True)
class PartProved:
    """One length, or one step of a task that writes."""

    kind: str
    """`length` or `step`."""
    number: int
    inputs: int
    right: int
    wrong: int
    first_wrong: tuple[int, ...] | None
    """The first wrong input that was shown, as letters by index."""
    float32: dict[str, int] | None = None
    """How many were shown `right` and `wrong` in float32, too, whatever the order of sums."""

    @property
    def undecided(self) -> int:
        return self.inputs - self.right - self.wrong

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> PartProved:
        """From what is stated of a table in the conclusion of a proof."""
        kind = "length" if "length" in stated else "step"
        first, float32 = stated["first_wrong"], stated.get("float32")
        return cls(
            kind,
            stated[kind],
            int(stated["inputs"]),
            int(stated["right"]),
            int(stated["wrong"]),
            None if first is None else tuple(first),
            None if float32 is None else {name: int(n) for name, n in float32.items()},
        )


@dataclass(frozen=True)
class TablesProved:
    """What the trusted base derived: the only thing anyone may call proved."""

    task: str
    parts: tuple[PartProved, ...]

    @classmethod
    def of(cls, config: ClassifierConfig, document: Mapping[str, Any]) -> TablesProved:
        """Of a document that was derived, whose tables are the model's own task."""
        parts = tuple(PartProved.of(stated) for stated in document["conclusion"]["tables"])
        return cls(config.task.describe(), parts)

    @property
    def sentences(self) -> tuple[str, ...]:
        sentences = []
        for part in self.parts:
            at = "of length" if part.kind == "length" else "at step"
            undecided = f", {part.undecided:,} not decided" if part.undecided else ""
            sentences.append(
                f"of {part.inputs:,} inputs {at} {part.number}, {part.right:,} are right and "
                f"{part.wrong:,} wrong{undecided} (task: {self.task})"
            )
        return tuple(sentences)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True, repr=False)
class OrderedCertificate(Displayed):
    """A proof about an order-sensitive model, and the claims that the trusted base confirmed."""

    document: dict[str, Any]
    checked: TablesProved

    @property
    def proved(self) -> tuple[str, ...]:
        """The claims that were confirmed, as sentences."""
        return self.checked.sentences

    @property
    def float32(self) -> Float32Counts | None:
        """What is proved of the float32 model, where that was asked for."""
        return Float32Counts.of(self.checked)

    def _facts(self) -> list[str]:
        return [f"{counted(len(self.proved), 'statement')} proved"]

    def _lines(self) -> list[tuple[str, str]]:
        return [("proved", sentence) for sentence in self.proved]

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the document; a file that is there must be a proof, or `force` be given."""
        write_certificate(path, self.document, force=force)


@dataclass(frozen=True)
class Float32Counts:
    """Inputs by what the float32 model answers, whatever the order of its sums.

    A model that writes is right on an input where it is right at every step, and wrong where it is
    wrong at one. The numbers are at least so many; the rest depends on rounding as far as is known.
    """

    inputs: int
    right: int
    wrong: int

    @property
    def depends(self) -> int:
        """Inputs of which neither is proved."""
        return self.inputs - self.right - self.wrong

    @classmethod
    def of(cls, checked: TablesProved) -> Float32Counts | None:
        """From what was proved of every length or step."""
        parts = checked.parts
        if not any(part.float32 for part in parts):
            return None
        proved = [part.float32 or {"right": 0, "wrong": 0} for part in parts]
        right, wrong = ([numbers[kind] for numbers in proved] for kind in ("right", "wrong"))
        if parts[0].kind == "length":
            return cls(sum(part.inputs for part in parts), sum(right), sum(wrong))
        inputs = parts[0].inputs
        missing = sum(inputs - number for number in right)
        return cls(inputs, max(0, inputs - missing), max(wrong))

    def to_dict(self) -> dict[str, str]:
        """Numbers as text: they may be beyond what JSON's readers hold exactly."""
        numbers = {"right": self.right, "wrong": self.wrong, "depends_on_rounding": self.depends}
        return {name: str(number) for name, number in numbers.items()}


def language_of(config: ClassifierConfig, names: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """The tables of these lengths or steps of a model's own task."""
    return {"tables": [written_table(_table(config, name), name) for name in names]}


def _table(config: ClassifierConfig, name: Mapping[str, int]) -> Trellis:
    """All inputs of a length, or of a step of a task that writes, with their labels."""
    task: Any = config.task
    ((kind, number),) = name.items()
    if kind != ("step" if isinstance(task, Writing) else "length") or number > MAX_LENGTH:
        raise UsageError(f"the task ({task.describe()}) has no {kind} {number}")
    return inputs_of(task, config.n_letters, number)


def require_own_tables(config: ClassifierConfig, language: Any) -> None:
    """Reject a document one of whose tables is not what the model's task is lowered to."""
    for table in language["tables"]:
        try:
            own = language_of(config, [table["name"]])["tables"][0]
        except UsageError as error:
            raise NotProved(f"rejected: {error}") from None
        if text_of(own) != text_of(table):
            raise NotProved(
                f"rejected: the proof's table of {table['name']} is not the one that the model's "
                f"task ({config.task.describe()}) is lowered to"
            )
