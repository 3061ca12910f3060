"""The strings on which two classifiers answer differently, counted exactly up to a length.

    difference("walkthrough", "attend-cls")

Both models are decided on boxes of count vectors, as `verify` decides one (regions.py). So this is
a statement about real numbers; nothing here is a certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

import numpy as np

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.output.numbers import number
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.verification.count_model import CountModel, checkpoint_of
from tsc_interp.verification.counting.costs import Work
from tsc_interp.verification.counting.regions import count_support
from tsc_interp.verification.counting.tally import Side, Vector, order
from tsc_interp.verification.labels import all_supports, labels_of
from tsc_interp.verification.search.ways import TwoModels

_MOST_VECTORS = 2_000_000
_WHOLE = ("strings", "first_only", "second_only", "undecided")


@dataclass(frozen=True)
class Disagreement:
    """The strings of one set of letters to which one model alone says yes."""

    letters: str
    """Exactly these occur: `bc`."""
    yes: str
    """Which one says yes: `first` or `second`."""
    strings: int
    shortest: str
    logits: tuple[float, float]
    """Of the shortest, by the first model and by the second."""
    right: str | None
    """Which one is right about the shortest; None if their tasks differ."""


@dataclass(frozen=True)
class Difference:
    """The numbers of strings that only the first or only the second model calls positive."""

    max_length: int
    strings: int
    """All strings up to that length."""
    first_only: int
    """Strings that only the first model calls positive."""
    second_only: int
    undecided: int
    shortest_first_only: str | None
    shortest_second_only: str | None
    vectors: int = 0
    """How many count vectors those strings have, each combination of letters counted once."""
    disagreements: tuple[Disagreement, ...] = ()
    """By set of letters, the shortest string first."""

    @property
    def differing(self) -> int:
        """The number of strings that the two models answer differently."""
        return self.first_only + self.second_only

    def sentence(self, first: str, second: str) -> str:
        """Return the result as a sentence."""
        reach = f"Of the {number(self.strings)} strings of up to {self.max_length} letters"
        if not self.differing:
            same = f"{reach}, {first} and {second} answer every one alike"
            return (
                f"{same}, but {number(self.undecided)} are undecided."
                if self.undecided
                else f"{same}."
            )
        sides = [
            f"{name} alone says yes to {number(count)} (the shortest: `{shortest}`)"
            for name, count, shortest in (
                (first, self.first_only, self.shortest_first_only),
                (second, self.second_only, self.shortest_second_only),
            )
            if count
        ]
        return f"{reach}, they answer {number(self.differing)} differently: {' and '.join(sides)}."

    def to_dict(self) -> dict[str, Any]:
        """Counts as strings of digits: they are exact, and larger than JSON's numbers."""
        rows = [{**asdict(row), "strings": str(row.strings)} for row in self.disagreements]
        plain = {k: str(v) if k in _WHOLE else v for k, v in vars(self).items()}
        return {**plain, "disagreements": rows}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Difference:
        """Read back what `to_dict` wrote."""
        read: dict[str, Any] = {k: int(v) if k in _WHOLE else v for k, v in data.items()}
        read["disagreements"] = tuple(
            Disagreement(**{**row, "strings": int(row["strings"]), "logits": tuple(row["logits"])})
            for row in data.get("disagreements", ())
        )
        return cls(**read)


def difference(first: ModelLike, second: ModelLike, max_length: int | None = None) -> Difference:
    """Count every string up to a length on which two models answer differently.

    Args:
        first: A hooked model, a checkpoint, a bundled name, a path, or a run.
        second: Another one with the same alphabet.
        max_length: By default 200, or less if that is more than two million count vectors.

    Returns:
        The exact numbers, and the shortest string of each kind.

    Example:
        >>> difference("walkthrough", "attend-cls", 50).differing
        0
    """
    one, other = (CountModel(checkpoint_of(model)) for model in (first, second))
    return compare(one, other, max_length)


def compare(first: CountModel, second: CountModel, max_length: int | None) -> Difference:
    """The strings up to a length on which two models answer differently, box by box."""
    _check_same_letters(first, second)
    ways, size = TwoModels(first, second), first.config.n_letters
    longest = _reach(size, max_length)
    work = Work(first.config, longest, instead="a shorter length")
    total, vectors, disagreements = [0, 0, 0], 0, []
    for letters in all_supports(first.config, longest):
        sides = [Side(longest) for _ in total]
        count_support(ways, letters, sides, work)
        total = [sum_ + side.total_strings for sum_, side in zip(total, sides, strict=True)]
        vectors += sides[0].total_vectors + sides[1].total_vectors
        disagreements += [
            _disagreement(ways, letters, yes, side)
            for yes, side in zip(("first", "second"), sides, strict=False)
            if side.shortest is not None
        ]
    disagreements.sort(key=lambda pair: order(pair[0]))
    # Of each kind the earliest stays.
    shortest = {row.yes: row.shortest for _, row in reversed(disagreements)}
    return Difference(
        max_length=longest,
        strings=sum(size**n for n in range(1, longest + 1)),
        first_only=total[0],
        second_only=total[1],
        undecided=total[2],
        shortest_first_only=shortest.get("first"),
        shortest_second_only=shortest.get("second"),
        vectors=vectors,
        disagreements=tuple(row for _, row in disagreements),
    )


def _check_same_letters(first: CountModel, second: CountModel) -> None:
    sizes = sorted({first.config.n_letters, second.config.n_letters})
    if len(sizes) > 1:
        raise UnsupportedError(
            f"the two models read alphabets of {' and '.join(map(str, sizes))} letters; "
            "they can be compared only on strings that both can read"
        )
    if first.config.called != second.config.called:
        names = (", ".join(model.config.called[FIRST_LETTER:]) for model in (first, second))
        raise UnsupportedError(
            f"the two models' letters have other names ({'; '.join(names)}), so that a string is "
            "not the same input for both; import one of them with the order of the other's tokens"
        )


def affordable_length(letters: int) -> int:
    """200, or less where that would be more than two million count vectors."""
    lengths = range(TEST_LENGTH, 0, -1)
    return next((n for n in lengths if comb(n + letters, letters) <= _MOST_VECTORS), 1)


def _reach(letters: int, max_length: int | None) -> int:
    """The length to count to: the one given if it can be done, else 200 or what is affordable."""
    if max_length is None:
        return affordable_length(letters)
    if type(max_length) is not int or max_length < 1:
        raise UsageError(f"max_length is a whole number from 1, got {max_length!r}")
    if comb(max_length + letters, letters) > 50 * _MOST_VECTORS:
        raise UnsupportedError(
            f"{comb(max_length + letters, letters):,} count vectors are too many to compare; "
            "choose a shorter length"
        )
    return max_length


def _disagreement(
    ways: TwoModels, support: tuple[int, ...], yes: str, side: Side
) -> tuple[Vector, Disagreement]:
    assert side.shortest is not None
    models = ways.first, ways.second
    first, second = (model.config for model in models)
    own = np.array([[side.shortest[letter] for letter in support]])
    logits = [model.logit(side.shortest) for model in models]
    right = None
    if first.task == second.task:
        label = bool(labels_of(first, support, own)[0])
        right = yes if label else "second" if yes == "first" else "first"
    return side.shortest, Disagreement(
        letters="".join(first.alphabet.letters[letter] for letter in support),
        yes=yes,
        strings=side.total_strings,
        shortest=first.alphabet.write(side.shortest),
        logits=(logits[0], logits[1]),
        right=right,
    )
