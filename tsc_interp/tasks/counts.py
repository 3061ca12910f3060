"""Tasks on letter counts.

`label_of_support(letters)` is for those that look at which letters occur; it is None where strings
over the same letters differ. `walk` reads a string letter by letter with few states, so that a
model which sees the order of letters can be verified on these tasks, too.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from tsc_interp.strings import LETTERS, LETTERS_PATTERN, Counts
from tsc_interp.tasks.base import Labels, Task, Walk, Whole


class ContainsAll(Task, shipped=True):
    """Positive when every letter of the set occurs: with `"ab"`, the source report's task.

    Example:
        >>> from tsc_interp.strings import Alphabet
        >>> counts = Alphabet(3).count_matrix(["aab", "bc", "abb"])
        >>> ContainsAll(letters="ab").labels(counts).tolist()
        [True, False, True]
    """

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

    def walk(self, n_letters: int, length: int) -> Walk:
        bits = {LETTERS.index(letter): 1 << i for i, letter in enumerate(self.letters)}
        full = (1 << len(bits)) - 1
        return 0, lambda s, x: s | bits.get(x, 0), lambda states: [s == full for s in states]


class _OfOneLetter(Task):
    letter: str = Field(default="a", pattern=LETTERS_PATTERN)

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


class AtLeast(_OfOneLetter, shipped=True):
    """Positive when the letter occurs `k` times or more.

    Example:
        >>> from tsc_interp.strings import Alphabet
        >>> counts = Alphabet(3).count_matrix(["aab", "bc", "abb"])
        >>> AtLeast(letter="a", k=2).labels(counts).tolist()
        [True, False, False]
    """

    words: ClassVar[str] = "contains at least {k} {letter}"

    kind: Literal["at_least"] = "at_least"
    k: Whole = Field(default=1, ge=1)

    def labels(self, counts: Counts) -> Labels:
        return np.asarray(self._count(counts) >= self.k)

    def walk(self, n_letters: int, length: int) -> Walk:
        one, most = LETTERS.index(self.letter), self.k
        return 0, lambda n, x: min(most, n + (x == one)), lambda s: [n == most for n in s]


class Majority(_OfOneLetter, shipped=True):
    """Positive when more than half of the characters are this letter.

    Example:
        >>> from tsc_interp.strings import Alphabet
        >>> counts = Alphabet(3).count_matrix(["aab", "bc", "abb"])
        >>> Majority(letter="a").labels(counts).tolist()
        [True, False, False]
    """

    words: ClassVar[str] = "more than half are {letter}"

    kind: Literal["majority"] = "majority"

    def labels(self, counts: Counts) -> Labels:
        return np.asarray(2 * self._count(counts) > counts.sum(axis=-1))

    def label_of_support(self, letters: frozenset[str]) -> bool | None:
        return True if letters == {self.letter} else super().label_of_support(letters)

    def walk(self, n_letters: int, length: int) -> Walk:
        one = LETTERS.index(self.letter)
        return 0, lambda n, x: n + (x == one), lambda states: [2 * n > length for n in states]


class Parity(_OfOneLetter, shipped=True):
    """Positive when the number of this letter is odd (or even, with `odd = false`).

    Example:
        >>> from tsc_interp.strings import Alphabet
        >>> counts = Alphabet(3).count_matrix(["aab", "bc", "abb"])
        >>> Parity(letter="a").labels(counts).tolist()
        [False, False, True]
    """

    kind: Literal["parity"] = "parity"
    odd: bool = True

    def labels(self, counts: Counts) -> Labels:
        return np.asarray((self._count(counts) % 2 == 1) == self.odd)

    def _label_without(self) -> bool:
        return not self.odd

    def describe(self) -> str:
        return f"an {'odd' if self.odd else 'even'} number of {self.letter}"

    def walk(self, n_letters: int, length: int) -> Walk:
        one, odd = LETTERS.index(self.letter), self.odd
        return 0, lambda s, x: s ^ (x == one), lambda states: [s == odd for s in states]


class MostFrequent(Task, shipped=True):
    """The class is the letter that occurs most often; of those that tie, the first in a, b, c.

    Example:
        >>> from tsc_interp.strings import Alphabet
        >>> counts = Alphabet(3).count_matrix(["aab", "bc", "abb"])
        >>> MostFrequent().labels(counts).tolist()
        [0, 1, 1]
    """

    words: ClassVar[str] = "the most frequent letter (of those that tie, the first)"

    kind: Literal["most_frequent"] = "most_frequent"

    def n_classes(self, n_letters: int) -> int:
        return n_letters

    def labels(self, counts: Counts) -> Any:
        return np.asarray(counts.argmax(axis=-1))  # the first of equals

    def label_of_support(self, letters: frozenset[str]) -> Any:
        return LETTERS.index(next(iter(letters))) if len(letters) == 1 else None


class Maximum(Task, shipped=True):
    """The class is the last letter of the alphabet that occurs: max-of-k at length k.

    Example:
        >>> from tsc_interp.strings import Alphabet
        >>> counts = Alphabet(3).count_matrix(["aab", "bc", "abb"])
        >>> Maximum().labels(counts).tolist()
        [1, 2, 1]
    """

    words: ClassVar[str] = "the largest letter"

    kind: Literal["maximum"] = "maximum"

    def n_classes(self, n_letters: int) -> int:
        return n_letters

    def labels(self, counts: Counts) -> Any:
        return np.asarray(counts.shape[-1] - 1 - (counts[..., ::-1] > 0).argmax(axis=-1))

    def label_of_support(self, letters: frozenset[str]) -> Any:
        return max(map(LETTERS.index, letters))

    def walk(self, n_letters: int, length: int) -> Walk:
        return -1, max, list
