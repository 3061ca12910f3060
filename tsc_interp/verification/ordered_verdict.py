"""What is known of every string a model that sees order can read, length by length."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tsc_interp.output.display import Displayed, Grid
from tsc_interp.verification.ordered_certificates import OrderedCertificate
from tsc_interp.verification.verdict import json_integer

CLAIM = (
    "real numbers: float32 weights taken as exact; each box of strings decided in float64 with an "
    "error bound, single strings too close for that in ball arithmetic; derived again by the "
    "independent checker: what is under 'certified'"
)


@dataclass(frozen=True)
class LengthCount:
    """The strings of one length: how many there are, are wrong, could not be decided."""

    length: int
    strings: int
    wrong: int
    undecided: int
    boxes: int
    """How many boxes were looked at."""

    @property
    def right(self) -> int:
        return self.strings - self.wrong - self.undecided

    def to_dict(self) -> dict[str, Any]:
        return {
            "length": self.length,
            "strings": json_integer(self.strings),
            "wrong": json_integer(self.wrong),
            "undecided": json_integer(self.undecided),
            "boxes": self.boxes,
        }


@dataclass(frozen=True)
class OrderedCounterexample:
    """A string the model gets wrong."""

    string: str
    tokens: tuple[str, ...]
    """Its letters by their names, where the model's tokens have names of their own."""
    label: int
    answer: int | None
    """The class the model gives instead; None if it could not be told which one."""

    @property
    def length(self) -> int:
        return len(self.tokens)

    def to_dict(self) -> dict[str, Any]:
        return {
            "string": self.string,
            "tokens": list(self.tokens),
            "label": self.label,
            "answer": self.answer,
        }


@dataclass(frozen=True, repr=False)
class OrderedVerdict(Displayed):
    """What is wrong at each length."""

    source: str
    weight_hash: str
    task: str
    lengths: tuple[LengthCount, ...]
    shortest: OrderedCounterexample | None
    """The first error found; see `shortest_is_first`."""
    undecided: str | None
    """The first undecided string."""
    certificate: OrderedCertificate | None = None

    @property
    def strings(self) -> int:
        return sum(one.strings for one in self.lengths)

    @property
    def total_wrong(self) -> int:
        return sum(one.wrong for one in self.lengths)

    @property
    def total_undecided(self) -> int:
        return sum(one.undecided for one in self.lengths)

    @property
    def correct(self) -> bool:
        """No string of these lengths is wrong, and none is undecided."""
        return not self.total_wrong and not self.total_undecided

    @property
    def accuracy(self) -> Fraction:
        """The share of strings known to be right; undecided ones do not count as such."""
        return Fraction(sum(one.right for one in self.lengths), self.strings)

    @property
    def shortest_is_first(self) -> bool:
        """Whether nothing undecided could come before the first error found."""
        if self.shortest is None:
            return False
        return not any(c.undecided for c in self.lengths if c.length <= self.shortest.length)

    @property
    def right_through(self) -> int:
        """Every string up to this length is right; 0 where lengths do not begin with 1."""
        through = 0
        for one in self.lengths:
            if one.length != through + 1 or one.wrong or one.undecided:
                break
            through = one.length
        return through

    def _facts(self) -> list[str]:
        ends = f"{self.lengths[0].length} to {self.lengths[-1].length}"
        return [
            self.source,
            f"{self.total_wrong:,} of {self.strings:,} strings of length {ends} wrong",
        ]

    def _lines(self) -> list[tuple[str, str]]:
        lines = []
        if self.shortest is not None:
            lines.append(
                ("failure", f"first error `{self.shortest.string}`: {_mistake(self.shortest)}")
            )
        if self.total_undecided:
            lines.append(
                ("warning", f"{self.total_undecided:,} undecided, the first `{self.undecided}`")
            )
        if self.correct:
            lines.append(("success", "every string is right"))
        if self.certificate is not None:
            lines += [("proved", sentence) for sentence in self.certificate.proved]
        return lines

    def _grids(self) -> list[Grid]:
        rows = [[c.length, c.strings, c.wrong, c.undecided, c.boxes] for c in self.lengths]
        columns = ["length", "strings", "wrong", "undecided", "boxes"]
        return [Grid("by length", columns, rows)]

    def to_dict(self) -> dict[str, Any]:
        """The JSON document, without its schema field; integers beyond 2^53 are strings."""
        right = sum(one.right for one in self.lengths)
        return {
            "checkpoint": self.source,
            "weight_hash": self.weight_hash,
            "claim": CLAIM,
            "task": self.task,
            "strings": json_integer(self.strings),
            "wrong": json_integer(self.total_wrong),
            "undecided": json_integer(self.total_undecided),
            "accuracy": {
                "numerator": json_integer(right),
                "denominator": json_integer(self.strings),
            },
            "by_length": [one.to_dict() for one in self.lengths],
            "shortest": self.shortest.to_dict() if self.shortest else None,
            "shortest_is_first": self.shortest_is_first,
            "first_undecided": self.undecided,
            "certified": list(self.certificate.proved) if self.certificate else None,
        }


def _mistake(found: OrderedCounterexample) -> str:
    answer = "another" if found.answer is None else str(found.answer)
    return f"class {found.label}, answered {answer}"
