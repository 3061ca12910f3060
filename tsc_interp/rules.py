"""What is being decided: the class of a string, which most rules tell from its letter counts alone.

A rule is one small frozen class: a `kind` to tell it apart in JSON, `labels(counts)` on an array
whose last axis is letters, and `label_of_support(letters)` for the rules that only look at which
letters occur (`None` for those that do not). Labels are True and False, or the numbers of several
classes (`n_classes`); `classes(counts)` gives numbers either way, 1 being yes.

A rule about the order of letters (`ordered`) has `labels(letters)` instead: `[string, position]`,
0 for a, 1 for b, ..., and -1 behind the end of a string shorter than others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, field_validator, model_validator

from tsc_interp.errors import UsageError
from tsc_interp.frozen import Frozen
from tsc_interp.strings import LETTERS, MAX_LETTERS, Counts

Labels = NDArray[np.bool_]
Classes = NDArray[np.int64]


def _no_truth_value(given: object) -> object:
    if isinstance(given, bool):
        raise ValueError(f"a whole number is needed, not {given}")
    return given


MOST = 10**9
"""The largest number of a task: as many letters as a string may repeat, and no sum overflows."""
Whole = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=-MOST, le=MOST)]
"""A whole number of a task; True is none."""
LetterIndex = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=0, lt=MAX_LETTERS)]
"""A letter by its index."""


class Rule(Frozen):
    """What every task can do; by default two classes, decided by counts."""

    ordered: ClassVar[bool] = False
    """Whether labels depend on where letters stand."""
    words: ClassVar[str] = ""
    """What is decided, options of the rule in braces."""
    exact: ClassVar[bool] = False
    """Whether the alphabet must have the letters that the rule names and no others."""
    if TYPE_CHECKING:
        kind: str

    @property
    def needs(self) -> str:
        """The letters that the rule names, which the alphabet must have."""
        return ""

    def misfit(self, n_letters: int) -> str:
        """Return why the rule does not label the strings of an alphabet; empty if it does."""
        letters = LETTERS[:n_letters]
        missing = sorted(set(self.needs) - set(letters), key=LETTERS.index)
        if missing:
            return (
                f"the task needs the letters {''.join(missing)}, "
                f"but the alphabet is {letters} (n_letters = {n_letters})"
            )
        if self.exact and set(self.needs) != set(letters):
            return (
                f"the task ({self.describe()}) is about the letters {self.needs} and no others, "
                f"but the alphabet is {letters} (n_letters = {n_letters})"
            )
        return ""

    def n_classes(self, n_letters: int) -> int:
        """Return the number of classes over an alphabet of this size."""
        return 2

    def labels(self, counts: Counts) -> Any:
        """Return the label of each row: `[..., letter]` to `[...]`.

        True is the positive class; numbers where there are more than two.
        """
        raise NotImplementedError(f"{type(self).__name__} has no labels")

    def classes(self, counts: Counts) -> Classes:
        """Return labels as numbers below `n_classes`, checked; of two, 1 is the positive one."""
        classes = np.asarray(self.labels(counts))
        kind = str(getattr(self, "kind", type(self).__name__))
        wanted = counts.shape[:1] if self.ordered else counts.shape[:-1]
        if classes.shape != wanted or classes.dtype.kind not in "iub":
            raise UsageError(
                f"labels of the task {kind!r} must be True and False, or whole numbers, shaped "
                f"{list(wanted)}; got {classes.dtype} shaped {list(classes.shape)}"
            )
        # A rule on order does not see the alphabet, so its classes are bounded for the largest.
        most = self.n_classes(MAX_LETTERS if self.ordered else counts.shape[-1])
        if classes.size and not 0 <= int(classes.min()) <= int(classes.max()) < most:
            raise UsageError(
                f"labels of the task {kind!r} must lie in 0 to {most - 1}; got "
                f"{int(classes.min())} to {int(classes.max())}; a multiclass task sets n_classes"
            )
        return classes.astype(np.int64)

    def label_of_support(self, letters: frozenset[str]) -> Any:
        """Return the label all strings over exactly these letters share, or None."""
        return None

    def class_of_support(self, letters: frozenset[str]) -> int | None:
        """Return the same as a number."""
        label = self.label_of_support(letters)
        return None if label is None else int(label)

    def describe(self) -> str:
        """Return the question in words."""
        return self.words.format(**dict(self))


class ContainsAll(Rule):
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


class _OneLetterRule(Rule):
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


class Majority(_OneLetterRule):
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


class Parity(_OneLetterRule):
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


class MostFrequent(Rule):
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


class Maximum(Rule):
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


class Before(Rule):
    """Positive when the letter `first` occurs, and no `second` before its first occurrence.

    So a string with `first` and without `second` is positive, and one without `first` is negative,
    whether it has `second` or not.
    """

    ordered: ClassVar[bool] = True

    words: ClassVar[str] = "an {first} before any {second}"

    kind: Literal["before"] = "before"
    first: str = Field(default="a", pattern=f"^[{LETTERS}]$")
    second: str = Field(default="b", pattern=f"^[{LETTERS}]$")

    @model_validator(mode="after")
    def _different(self) -> Self:
        if self.first == self.second:
            raise ValueError(f"before needs two different letters, got {self.first!r} twice")
        return self

    @property
    def needs(self) -> str:
        return "".join(sorted((self.first, self.second), key=LETTERS.index))

    def labels(self, letters: Classes) -> Labels:
        first, second = LETTERS.index(self.first), LETTERS.index(self.second)
        either = (letters == first) | (letters == second)
        at = either.argmax(axis=1)  # where the first of the two stands; 0 where neither does
        return np.asarray(letters[np.arange(len(letters)), at] == first)

    def label_of_support(self, letters: frozenset[str]) -> bool | None:
        if self.first not in letters:
            return False
        return None if self.second in letters else True
