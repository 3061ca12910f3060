"""`tsc.tasks.Regex`: positive when a regular expression over the letters matches the whole string.

    a b c     a letter         .        any letter        [ab] [^ab]   one of these, none of these
    xy        x, then y        x|y      x or y            (x)          grouping
    x* x+ x?  any number, one or more, at most one        x{2} x{2,} x{2,5}

The expression is compiled by Brzozowski's derivatives: the state after a letter is the expression
for what may still follow. Expressions are kept in a normal form, so there are finitely many; the
machine is then minimised.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import field_validator

from tsc_interp.strings import LETTERS
from tsc_interp.tasks.automaton import OrderRule
from tsc_interp.tasks.machine import Machine, explore

Node = tuple[Any, ...]
"""("empty",) matches nothing, ("one",) the empty string; ("in", letters, negated); ("then", x, y);
("or", parts); ("star", x)."""

NOTHING: Node = ("empty",)
END: Node = ("one",)
_MOST_REPEATS = 1000


class Regex(OrderRule):
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
        machine, _ = explore(
            _Reader(self.pattern).whole(),
            lambda node, letter: derivative(node, LETTERS[letter]),  # type: ignore[arg-type]
            lambda node: int(accepts_empty(node)),  # type: ignore[arg-type]
            n_letters,
        )
        return machine.minimised()


# -- expressions -------------------------------------------------------------------------------


def then(x: Node, y: Node) -> Node:
    if NOTHING in (x, y):
        return NOTHING
    if x == END:
        return y
    if y == END:
        return x
    if x[0] == "then":  # to the right, so that equal expressions look equal
        return then(x[1], then(x[2], y))
    return ("then", x, y)


def either(*nodes: Node) -> Node:
    parts: set[Node] = set()
    for node in nodes:
        parts |= set(node[1]) if node[0] == "or" else {node}
    parts.discard(NOTHING)
    if len(parts) < 2:
        return parts.pop() if parts else NOTHING
    return ("or", frozenset(parts))


def star(x: Node) -> Node:
    if x in (NOTHING, END):
        return END
    return x if x[0] == "star" else ("star", x)


def accepts_empty(node: Node) -> bool:
    kind = node[0]
    if kind == "then":
        return accepts_empty(node[1]) and accepts_empty(node[2])
    if kind == "or":
        return any(map(accepts_empty, node[1]))
    return kind in ("one", "star")


def derivative(node: Node, letter: str) -> Node:
    """What may follow after this letter."""
    kind = node[0]
    if kind == "in":
        return END if (letter in node[1]) != node[2] else NOTHING
    if kind == "or":
        return either(*(derivative(part, letter) for part in node[1]))
    if kind == "star":
        return then(derivative(node[1], letter), node)
    if kind == "then":
        first = then(derivative(node[1], letter), node[2])
        return either(first, derivative(node[2], letter)) if accepts_empty(node[1]) else first
    return NOTHING


class _Reader:
    """Recursive descent: alternatives of sequences of repeated atoms."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def whole(self) -> Node:
        node = self._either()
        if self.at < len(self.pattern):
            raise self._complaint("unexpected")
        return node

    def _complaint(self, problem: str) -> ValueError:
        what = repr(self.pattern[self.at]) if self.at < len(self.pattern) else "the end"
        return ValueError(
            f"cannot read the expression {self.pattern!r} at position {self.at}: {problem} {what}; "
            "it has letters, . [ab] [^ab] ( ) | * + ? and {2,5}"
        )

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self, wanted: str) -> bool:
        is_there = self._next() == wanted
        self.at += is_there
        return is_there

    def _either(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return either(*parts)

    def _sequence(self) -> Node:
        node = END
        while self._next() and self._next() not in "|)":
            node = then(node, self._repeated())
        return node

    def _repeated(self) -> Node:
        node = self._atom()
        while self._next() and self._next() in "*+?{":
            if self._take("*"):
                node = star(node)
            elif self._take("+"):
                node = then(node, star(node))
            elif self._take("?"):
                node = either(node, END)
            else:
                node = self._counted(node)
        return node

    def _counted(self, node: Node) -> Node:
        stop = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at + 1 : max(stop, self.at)].partition(",")
        if not low.isdecimal() or not (high.isdecimal() or not high):
            raise self._complaint("a repeat is {2}, {2,} or {2,5}, not")
        least, most = int(low), int(high or low)
        if not least <= most <= _MOST_REPEATS:
            raise self._complaint(f"a repeat is at most {_MOST_REPEATS} and ascends, not")
        self.at = stop + 1
        repeated = END
        for _ in range(most - least):
            repeated = either(END, then(node, repeated))
        if comma and not high:
            repeated = star(node)
        for _ in range(least):
            repeated = then(node, repeated)
        return repeated

    def _atom(self) -> Node:
        if self._take("("):
            node = self._either()
            if not self._take(")"):
                raise self._complaint("a closing bracket is missing before")
            return node
        if self._take("."):
            return ("in", frozenset(), True)
        if self._take("["):
            negated, letters = self._take("^"), set()
            while self._next() and self._next() in LETTERS:
                letters.add(self._next())
                self.at += 1
            if not letters or not self._take("]"):
                raise self._complaint("a set has letters only, not")
            return ("in", frozenset(letters), negated)
        letter = self._next()
        if not letter or letter not in LETTERS:
            raise self._complaint("a letter is missing before")
        self.at += 1
        return ("in", frozenset({letter}), False)
