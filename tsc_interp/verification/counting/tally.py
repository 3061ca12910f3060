"""Exact tallies of what is wrong: count vectors and strings, per length, as Python integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import comb

import numpy as np
from flint import fmpz
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.output.numbers import number

Integers = NDArray[np.int64]
Vector = tuple[int, ...]
_EXACT_IN_JSON = 2**53


@dataclass
class Side:
    """One way of being wrong (or undecided): how many vectors and strings of each length."""

    max_length: int
    vectors: list[int] = field(default_factory=list)
    strings: list[int] = field(default_factory=list)
    shortest: Vector | None = None
    """Full count vector of the first one, in the order stated in search.py."""

    def __post_init__(self) -> None:
        self.vectors = self.vectors or [0] * (self.max_length + 1)
        self.strings = self.strings or [0] * (self.max_length + 1)

    def offer(self, counts: Iterable[int]) -> None:
        """Keep the earlier of this vector and the shortest so far."""
        vector = tuple(int(count) for count in counts)
        if self.shortest is None or order(vector) < order(self.shortest):
            self.shortest = vector

    def add_whole_support(self, size: int) -> None:
        """All vectors and strings over exactly `size` letters, by inclusion and exclusion."""
        powers = [(-1) ** left_out * comb(size, left_out) for left_out in range(size)]
        for length in range(1, self.max_length + 1):
            powers = [term * (size - left_out) for left_out, term in enumerate(powers)]
            self.vectors[length] += comb(length - 1, size - 1)
            self.strings[length] += sum(powers)

    @property
    def total_vectors(self) -> int:
        return sum(self.vectors)

    @property
    def total_strings(self) -> int:
        return sum(self.strings)


@dataclass
class Tally:
    """Everything that is not right, up to a length."""

    max_length: int
    n_letters: int
    multiclass: bool = False
    """Whether there are more than two classes, and so one way of being wrong instead of two."""
    sides: tuple[Side, ...] = field(init=False)
    """The ways of being wrong, and undecided last."""
    out_of_budget: bool = False
    """Whether exact arithmetic was stopped before it had tried every vector left undecided."""

    def __post_init__(self) -> None:
        self.sides = tuple(Side(self.max_length) for _ in self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """What the sides are called."""
        if self.multiclass:
            return "wrong", "undecided"
        return "false_positives", "false_negatives", "undecided"

    @property
    def errors(self) -> tuple[Side, ...]:
        """Every way of being wrong."""
        return self.sides[:-1]

    @property
    def undecided(self) -> Side:
        return self.sides[-1]

    @property
    def false_positives(self) -> Side:
        return self._of_two_classes(0)

    @property
    def false_negatives(self) -> Side:
        return self._of_two_classes(1)

    def _of_two_classes(self, index: int) -> Side:
        if self.multiclass:
            raise UnsupportedError(
                "a multiclass model has no false positives or false negatives, only wrong answers; "
                "see errors[0]"
            )
        return self.sides[index]

    @property
    def vectors(self) -> int:
        """All count vectors of length 1 to max_length."""
        return comb(self.max_length + self.n_letters, self.n_letters) - 1

    @property
    def strings(self) -> int:
        if self.n_letters == 1:
            return self.max_length
        of_next_length: int = self.n_letters ** (self.max_length + 1)
        return (of_next_length - self.n_letters) // (self.n_letters - 1)

    @property
    def first_error_length(self) -> int | None:
        shortest = [side.shortest for side in self.errors if side.shortest is not None]
        return min(map(sum, shortest), default=None)

    def accuracy_at(self, length: int) -> tuple[int, int]:
        """Right strings and all strings of one length; undecided ones count as not right."""
        total = self.n_letters**length
        return total - sum(side.strings[length] for side in self.sides), total


def order(vector: Vector) -> tuple[int, Vector]:
    """Shorter first, then the lexicographically largest counts: the alphabet's order."""
    return sum(vector), tuple(-count for count in vector)


def not_right(wrong: int, first: str | None, undecided: int, first_undecided: str | None) -> str:
    """How many strings are wrong and how many undecided, with the first of each.

    Example:
        >>> not_right(2, "ab{66}", 0, None)
        '2 are wrong (the first ab{66})'
        >>> not_right(0, None, 14, "aab")
        'none is found wrong, but 14 are undecided (the first aab)'
    """
    open_ = f"{number(undecided)} are undecided (the first {first_undecided})"
    if not wrong:
        return f"none is found wrong, but {open_}" if undecided else "none is wrong"
    errors = f"{number(wrong)} are wrong (the first {first})"
    return f"{errors}, {open_}" if undecided else errors


def json_integer(value: int) -> int | str:
    """JSON numbers are exact up to 2^53 for most readers; larger integers become strings."""
    # fmpz writes any number of digits; int refuses beyond 4300.
    return value if abs(value) <= _EXACT_IN_JSON else str(fmpz(value))
