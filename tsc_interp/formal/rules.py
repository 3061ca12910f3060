"""Tasks as Coq reads them: a rule on letter counts, and the same as a sentence about the string.

Coq proves that both say the same, so a mistake in a rule makes the proof fail, not the theorem
false. The sentence is what a reader has to agree with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.base import kind_of
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity


class Claim(NamedTuple):
    """Where a class is the right one."""

    rule: str
    sentence: str


def claims(task: Any, n_letters: int) -> list[Claim]:
    """Return the claim of each class; of yes and no, no is the first.

    Raises:
        UnsupportedError: There is no rule on counts for this task.

    Example:
        >>> [claim.sentence for claim in claims(ContainsAll(letters="ab"), 3)]
        ['~ (In a s /\\\\ In b s)', 'In a s /\\\\ In b s']
    """
    made = _CLAIMS.get(type(task))
    if made is None:
        raise UnsupportedError(
            f"no theorem can be stated about the task {task.describe()!r}: those with a statement "
            f"in Coq are {', '.join(map(kind_of, _CLAIMS))}"
        )
    found = made(task, n_letters)
    if isinstance(found, Claim):
        return [Claim(f"denied ({found.rule})", f"~ ({found.sentence})"), found]
    if n_letters == 1:
        raise UnsupportedError(f"the task {task.describe()!r} over one letter has one class only")
    return found


def _all(parts: list[Claim]) -> Claim:
    """Every one of them."""
    if not parts:
        return Claim("at_least [] 0", "True")
    rule = parts[-1].rule
    for part in reversed(parts[:-1]):
        rule = f"both ({part.rule}) ({rule})"
    return Claim(rule, " /\\ ".join(part.sentence for part in parts))


def _linear(weights: dict[int, int], least: int, n_letters: int) -> str:
    numbers = "; ".join(str(weights.get(i, 0)) for i in range(n_letters))
    return f"at_least [{numbers}] {least}"


def _occurs(letter: int, n_letters: int) -> Claim:
    return Claim(_linear({letter: 1}, 1, n_letters), f"In {LETTERS[letter]} s")


def _count(letter: int) -> str:
    return f"count_occ letter_dec s {LETTERS[letter]}"


def _contains_all(task: ContainsAll, n_letters: int) -> Claim:
    return _all([_occurs(LETTERS.index(letter), n_letters) for letter in task.letters])


def _at_least(task: AtLeast, n_letters: int) -> Claim:
    letter = LETTERS.index(task.letter)
    return Claim(_linear({letter: 1}, task.k, n_letters), f"({task.k} <= {_count(letter)})%nat")


def _majority(task: Majority, n_letters: int) -> Claim:
    letter = LETTERS.index(task.letter)
    against = {i: 1 if i == letter else -1 for i in range(n_letters)}
    return Claim(_linear(against, 1, n_letters), f"(length s < 2 * {_count(letter)})%nat")


def _parity(task: Parity, n_letters: int) -> Claim:
    letter = LETTERS.index(task.letter)
    if task.odd:
        return Claim(f"odd_count {letter}", f"Nat.odd ({_count(letter)}) = true")
    return Claim(f"denied (odd_count {letter})", f"Nat.odd ({_count(letter)}) = false")


def _most_frequent(task: MostFrequent, n_letters: int) -> list[Claim]:
    def ahead(letter: int, other: int) -> Claim:
        """More often than a letter before it, as often as one behind it."""
        earlier = other < letter
        rule = _linear({letter: 1, other: -1}, int(earlier), n_letters)
        return Claim(rule, f"({_count(other)} {'<' if earlier else '<='} {_count(letter)})%nat")

    alphabet = range(n_letters)
    return [_all([ahead(y, other) for other in alphabet if other != y]) for y in alphabet]


def _maximum(task: Maximum, n_letters: int) -> list[Claim]:
    def missing(letter: int) -> Claim:
        there = _occurs(letter, n_letters)
        return Claim(f"denied ({there.rule})", f"~ {there.sentence}")

    return [
        _all([_occurs(y, n_letters), *(missing(larger) for larger in range(y + 1, n_letters))])
        for y in range(n_letters)
    ]


_CLAIMS: dict[type, Callable[[Any, int], Claim | list[Claim]]] = {
    ContainsAll: _contains_all,
    AtLeast: _at_least,
    Majority: _majority,
    Parity: _parity,
    MostFrequent: _most_frequent,
    Maximum: _maximum,
}
