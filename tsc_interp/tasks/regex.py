"""`tsc.tasks.Regex`: positive when a regular expression over the letters matches the whole string.

    a b c     a letter         .        any letter        [ab] [^ab]   one of these, none of these
    xy        x, then y        x|y      x or y            (x)          grouping
    x* x+ x?  any number, one or more, at most one        x{2} x{2,} x{2,5}

Every letter of the expression has a number, its position (Glushkov's construction). The state after
a letter is the set of positions that may be read next; the machine is then minimised. Expressions
are bounded while they are read, so that a short text cannot stand for a huge one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

from pydantic import field_validator

from tsc_interp.errors import UsageError, shorten
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.machine import Machine, MachineTask, explore

MOST_POSITIONS = 2000
"""Letters of an expression, repeats written out."""
MOST_OPEN = 100
"""Brackets inside each other."""
MOST_STEPS = 20_000_000
"""Positions visited while the machine is made."""
_MOST_REPEATS = 1000


class Regex(MachineTask, shipped=True):
    """The class is 1 if the expression matches the whole string, else 0.

    Example:
        >>> from tsc_interp.tasks import Regex
        >>> import numpy as np
        >>> Regex("(a|b)*c").labels(np.array([[0, 1, 2], [2, 0, 2]]))
        array([1, 0])
    """

    words: ClassVar[str] = "matches {pattern}"

    kind: Literal["regex"] = "regex"
    pattern: str

    def __init__(self, pattern: str | None = None, /, **data: Any) -> None:
        super().__init__(**(data if pattern is None else {"pattern": pattern, **data}))

    @field_validator("pattern")
    @classmethod
    def _can_be_read(cls, pattern: str) -> str:
        _Reader(pattern).whole()
        return pattern

    @property
    def needs(self) -> str:
        used = {letter for letter in self.pattern if letter in LETTERS}
        return "".join(sorted(used, key=LETTERS.index))

    def machine(self, n_letters: int, length: int) -> Machine:
        """Return the automaton that accepts the expression."""
        return _compiled(self.pattern, n_letters)


@lru_cache(maxsize=64)
def _compiled(pattern: str, n_letters: int) -> Machine:
    whole = _Reader(pattern).whole()
    reads = [
        sum(
            1 << i
            for i, (letters, negated) in enumerate(whole.letters)
            if (x in letters) != negated
        )
        for x in LETTERS[:n_letters]
    ]
    visited = 0

    def step(state: Hashable, letter: int) -> Hashable:
        nonlocal visited
        read = state[0] & reads[letter]  # type: ignore[index]
        visited += read.bit_count()
        if visited > MOST_STEPS:
            raise UsageError(
                f"the expression {shorten(pattern)} needs too large a machine: write it with fewer "
                "alternatives or repeats"
            )
        following = 0
        for position in _positions(read):
            following |= whole.follow[position]
        return following, bool(read & whole.last)

    start = whole.first, whole.empty
    machine, _ = explore(start, step, lambda state: int(state[1]), n_letters)  # type: ignore[index]
    return machine.minimised()


# -- expressions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expression:
    """A part of an expression; a set of its positions is a number, position i its bit 2^i."""

    letters: tuple[tuple[frozenset[str], bool], ...] = ()
    """At each position the letters that may stand there, or with True those that may not."""
    empty: bool = True
    """Whether the empty string matches."""
    first: int = 0
    last: int = 0
    follow: tuple[int, ...] = ()
    """For each position those that may come next."""

    def then(self, other: Expression) -> Expression:
        """This one, then the other one."""
        size, follow = len(self.letters), list(self.follow)
        first, last = other.first << size, other.last << size
        for position in _positions(self.last):
            follow[position] |= first
        return Expression(
            self.letters + other.letters,
            self.empty and other.empty,
            self.first | (first if self.empty else 0),
            last | (self.last if other.empty else 0),
            (*follow, *(after << size for after in other.follow)),
        )

    def either(self, other: Expression) -> Expression:
        """This one or the other one."""
        size = len(self.letters)
        return Expression(
            self.letters + other.letters,
            self.empty or other.empty,
            self.first | other.first << size,
            self.last | other.last << size,
            (*self.follow, *(after << size for after in other.follow)),
        )

    def repeated(self) -> Expression:
        """This one, once or more often."""
        follow = list(self.follow)
        for position in _positions(self.last):
            follow[position] |= self.first
        return Expression(self.letters, self.empty, self.first, self.last, tuple(follow))

    def optional(self) -> Expression:
        """This one or nothing."""
        return Expression(self.letters, True, self.first, self.last, self.follow)


def _positions(members: int) -> Iterator[int]:
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest


def _one(letters: frozenset[str], negated: bool) -> Expression:
    return Expression(((letters, negated),), False, 1, 1, (0,))


class _Reader:
    """Recursive descent: alternatives of sequences of repeated atoms."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.open = pattern, 0, 0

    def whole(self) -> Expression:
        node = self._either()
        if self.at < len(self.pattern):
            raise self._complaint("unexpected")
        return node

    def _complaint(self, problem: str) -> ValueError:
        what = repr(self.pattern[self.at]) if self.at < len(self.pattern) else "the end"
        return ValueError(
            f"cannot read the expression {shorten(self.pattern)} at position {self.at}: {problem} "
            f"{what}; it has letters, . [ab] [^ab] ( ) | * + ? and {{2,5}}"
        )

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self, wanted: str) -> bool:
        is_there = self._next() == wanted
        self.at += is_there
        return is_there

    def _either(self) -> Expression:
        node = self._sequence()
        while self._take("|"):
            other = self._sequence()
            self._count(len(node.letters) + len(other.letters))
            node = node.either(other)
        return node

    def _sequence(self) -> Expression:
        node = Expression()
        while self._next() and self._next() not in "|)":
            following = self._repeated()
            self._count(len(node.letters) + len(following.letters))
            node = node.then(following)
        return node

    def _repeated(self) -> Expression:
        node = self._atom()
        while self._next() and self._next() in "*+?{":
            if self._take("*"):
                node = node.repeated().optional()
            elif self._take("+"):
                node = node.repeated()
            elif self._take("?"):
                node = node.optional()
            else:
                node = self._counted(node)
        return node

    def _counted(self, node: Expression) -> Expression:
        stop = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at + 1 : max(stop, self.at)].partition(",")
        if not low.isdecimal() or not (high.isdecimal() or not high):
            raise self._complaint("a repeat is {2}, {2,} or {2,5}, not")
        least, most = int(low), int(high or low)
        if not least <= most <= _MOST_REPEATS:
            raise self._complaint(f"a repeat is at most {_MOST_REPEATS} and ascends, not")
        self.at = stop + 1
        return self._copies(node, least, None if comma and not high else most)

    def _copies(self, node: Expression, least: int, most: int | None) -> Expression:
        """`least` copies, then optional ones up to `most`; any number of them without `most`."""
        self._count(max(least, most or 1) * len(node.letters))
        copies = Expression() if most is not None else node.repeated().optional()
        for _ in range(0 if most is None else most - least):
            copies = node.then(copies).optional()
        for _ in range(least):
            copies = node.then(copies)
        return copies

    def _count(self, positions: int) -> None:
        """Refuse an expression before it is written out."""
        if positions > MOST_POSITIONS:
            raise self._complaint(
                f"it has more than {MOST_POSITIONS:,} letters with repeats written out before"
            )

    def _atom(self) -> Expression:
        if self._take("("):
            self.open += 1
            if self.open > MOST_OPEN:
                raise self._complaint(f"more than {MOST_OPEN} brackets are open before")
            node = self._either()
            self.open -= 1
            if not self._take(")"):
                raise self._complaint("a closing bracket is missing before")
            return node
        if self._take("."):
            return _one(frozenset(), True)
        if self._take("["):
            negated, letters = self._take("^"), set()
            while self._next() and self._next() in LETTERS:
                letters.add(self._next())
                self.at += 1
            if not letters or not self._take("]"):
                raise self._complaint("a set has letters only, not")
            return _one(frozenset(letters), negated)
        letter = self._next()
        if not letter or letter not in LETTERS:
            raise self._complaint("a letter is missing before")
        self.at += 1
        return _one(frozenset({letter}), False)
