"""Shipped tasks on the order of letters."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from tsc_interp.errors import UsageError
from tsc_interp.strings import LETTERS, LETTERS_PATTERN
from tsc_interp.tasks.base import Classes, Task, Whole
from tsc_interp.tasks.layers import MOST_STATES
from tsc_interp.tasks.machine import Machine, MachineTask, explore
from tsc_interp.tasks.trellis import Trellis, make_stage


class Before(MachineTask, shipped=True):
    """Positive when the letter `first` occurs, and no `second` before its first occurrence.

    So a string with `first` and without `second` is positive, and one without `first` is negative,
    whether it has `second` or not.
    """

    words: ClassVar[str] = "an {first} before any {second}"

    kind: Literal["before"] = "before"
    first: str = Field(default="a", pattern=LETTERS_PATTERN)
    second: str = Field(default="b", pattern=LETTERS_PATTERN)

    @model_validator(mode="after")
    def _different(self) -> Self:
        if self.first == self.second:
            raise ValueError(f"before needs two different letters, got {self.first!r} twice")
        return self

    @property
    def needs(self) -> str:
        return "".join(sorted((self.first, self.second), key=LETTERS.index))

    def label_of_support(self, letters: frozenset[str]) -> bool | None:
        if self.first not in letters:
            return False
        return None if self.second in letters else True

    def machine(self, n_letters: int, length: int) -> Machine:
        """Return the automaton that remembers which of the two came first."""
        came = {LETTERS.index(self.first): 1, LETTERS.index(self.second): 2}
        return explore(0, lambda s, x: s or came.get(x, 0), lambda s: int(s == 1), n_letters)[0]


class SumSign(MachineTask, shipped=True):
    """Letters have values; the class says the sign of their sum: 0 negative, 1 zero, 2 positive.

    Args:
        values: One whole number for each letter of the alphabet, and no others.

    Example:
        >>> from tsc_interp.tasks import SumSign
        >>> import numpy as np
        >>> SumSign(values=[0, 1, -1]).labels(np.array([[1, 1, 2], [1, 2, 0], [2, 0, -1]]))
        array([2, 1, 0])
    """

    words: ClassVar[str] = "the sign of the sum (0 negative, 1 zero, 2 positive)"

    kind: Literal["sum_sign"] = "sum_sign"
    exact: ClassVar[bool] = True
    values: tuple[Whole, ...] = Field(min_length=1, max_length=len(LETTERS))

    @property
    def needs(self) -> str:
        return LETTERS[: len(self.values)]

    def n_classes(self, n_letters: int) -> int:
        return 3

    def labels(self, letters: Classes) -> Classes:
        """Return the sign of the sum, for each row of letters."""
        known = len(self.values)
        if letters.max(initial=0) >= known:
            raise UsageError(f"{known} letters have values, so letter {letters.max()} has none")
        values = np.array([*self.values, 0])  # -1 behind a string's end adds nothing
        return np.asarray(np.sign(values[letters].sum(1)) + 1)

    def machine(self, n_letters: int, length: int) -> Machine:
        """Return the automaton whose states are the sums of up to `length` letters."""
        values, sums = np.array(self.values), np.zeros(1, dtype=np.int64)
        for _ in range(length):
            sums = np.union1d(sums, sums[:, None] + values)
            if len(sums) > MOST_STATES:
                raise UsageError(
                    f"strings of {length} letters have more than {MOST_STATES:,} different sums"
                )
        following = np.searchsorted(sums, np.clip(sums[:, None] + values, sums[0], sums[-1]))
        return Machine(int(np.searchsorted(sums, 0)), following, np.sign(sums) + 1)


class Brackets(MachineTask, shipped=True):
    """Positive when brackets are balanced and never nested deeper than `depth`.

    Args:
        depth: The deepest nesting that still counts as balanced.
        opening: The letter of an opening bracket.
        closing: The letter of a closing bracket. Other letters change nothing.
    """

    words: ClassVar[str] = "{opening} and {closing} are balanced brackets, at most {depth} deep"

    kind: Literal["brackets"] = "brackets"
    depth: int = Field(default=3, ge=1, le=10_000)
    opening: str = Field(default="a", pattern=LETTERS_PATTERN)
    closing: str = Field(default="b", pattern=LETTERS_PATTERN)

    @model_validator(mode="after")
    def _different(self) -> Self:
        if self.opening == self.closing:
            raise ValueError(f"an opening bracket is not a closing one, got {self.opening!r} twice")
        return self

    @property
    def needs(self) -> str:
        return "".join(sorted((self.opening, self.closing), key=LETTERS.index))

    def machine(self, n_letters: int, length: int) -> Machine:
        """Return the automaton that counts open brackets."""
        moves = {LETTERS.index(self.opening): 1, LETTERS.index(self.closing): -1}

        def step(depth: Any, letter: int) -> Any:
            following = depth + moves.get(letter, 0)
            return following if depth >= 0 and 0 <= following <= self.depth else -1

        return explore(0, step, lambda depth: int(depth == 0), n_letters)[0]


class EndsWith(MachineTask, shipped=True):
    """Positive when the string ends with these letters."""

    words: ClassVar[str] = "ends with {suffix}"

    kind: Literal["ends_with"] = "ends_with"
    suffix: str = Field(default="ab", pattern=LETTERS_PATTERN.replace("$", "+$"))

    @property
    def needs(self) -> str:
        return "".join(sorted(set(self.suffix), key=LETTERS.index))

    def machine(self, n_letters: int, length: int) -> Machine:
        """Return the automaton that remembers the end of the string."""

        def step(matched: Any, letter: int) -> Any:
            text = self.suffix[:matched] + LETTERS[letter]
            return next(k for k in range(min(len(text), len(self.suffix)), -1, -1)
                        if text.endswith(self.suffix[:k]))  # fmt: skip

        return explore(0, step, lambda matched: int(matched == len(self.suffix)), n_letters)[0]


class Palindrome(Task, shipped=True):
    """Positive when the string reads the same backwards. Its stages place pairs of letters."""

    ordered: ClassVar[bool] = True

    words: ClassVar[str] = "reads the same backwards"

    kind: Literal["palindrome"] = "palindrome"

    def labels(self, letters: Classes) -> Classes:
        """Return whether each row reads the same in both directions."""
        lengths = (letters >= 0).sum(1)
        back = lengths[:, None] - 1 - np.arange(letters.shape[1])
        mirrored = np.take_along_axis(letters, np.maximum(back, 0), 1)
        return np.asarray(((letters == mirrored) | (back < 0)).all(1).astype(np.int64))

    def trellis(self, n_letters: int, length: int) -> Trellis:
        """The pair (i, n - 1 - i) in stage i; the state says whether all pairs so far are equal."""
        stages, states = [], 1
        alphabet = np.arange(n_letters)
        for i in range((length + 1) // 2):
            places = tuple(sorted({i, length - 1 - i}))
            pair = np.stack(np.meshgrid(*[alphabet] * len(places), indexing="ij"), -1)
            pair = pair.reshape(-1, len(places))
            unequal = (pair[:, 0] != pair[:, -1]).astype(np.int64)
            source = np.repeat(np.arange(states), len(pair))
            target = np.maximum(np.tile(unequal, states), source)
            stages.append(make_stage(places, source, target, np.tile(pair, (states, 1))))
            states = int(target.max()) + 1
        return Trellis(length, (), tuple(stages), len(stages) - 1, 1 - stages[-1].target)
