"""Shipped tasks that write: addition, copying and reversing."""

from __future__ import annotations

from itertools import product
from typing import Literal

import numpy as np
from pydantic import Field

from tsc_interp.strings import LETTERS
from tsc_interp.tasks.base import LetterIndex, Whole
from tsc_interp.tasks.transducer import MOST_PLACES, Writing
from tsc_interp.tasks.trellis import Stage, Trellis, make_stage


class Addition(Writing, shipped=True):
    """Two numbers of `digits` digits are added, digit by digit: `a9..a0 + b9..b0 =`, s0 to s10.

    The digit d is the letter with index d. Operands are padded with zeros to `digits` digits, and
    the sum to one digit more.

    Args:
        digits: Digits of each operand.
        base: The base of the numbers, at least 2.
        operands: Whether operands have their most or their least significant digit first.
        total: The same for the sum; most trained adders write the least significant digit first.
        before: Letters before the first operand.
        plus: Letters between the operands, by default the one after the digits.
        equals: Letters between the second operand and the sum, by default the one after that.
        carry_digit: Whether the sum has a digit more than the operands (else it is cut off).
        end: Letters written after the sum, such as a token that ends the answer. A model whose
            program reads until this token is right only if it writes it, there and not before.

    Example:
        >>> from tsc_interp.tasks import Addition
        >>> task = Addition(digits=2)
        >>> task.n_steps, task.prompt_length, task.step_trellis(1).sizes
        (3, 6, (1, 2, 1))
    """

    kind: Literal["addition"] = "addition"
    digits: Whole = Field(default=10, ge=1, le=1000)
    base: Whole = Field(default=10, ge=2, le=1000)
    operands: Literal["most", "least"] = "most"
    total: Literal["most", "least"] = "least"
    before: tuple[LetterIndex, ...] = ()
    plus: tuple[LetterIndex, ...] | None = None
    equals: tuple[LetterIndex, ...] | None = None
    carry_digit: bool = True
    end: tuple[LetterIndex, ...] = ()

    @property
    def _plus(self) -> tuple[int, ...]:
        return (self.base,) if self.plus is None else self.plus

    @property
    def _equals(self) -> tuple[int, ...]:
        return (self.base + 1,) if self.equals is None else self.equals

    @property
    def _starts(self) -> tuple[int, int, int]:
        """Where the two operands and the sum begin."""
        first = len(self.before)
        second = first + self.digits + len(self._plus)
        return first, second, second + self.digits + len(self._equals)

    def place_name(self, place: int) -> str:
        """The digit at a place: a3 counts 10^3 of the first number, b of the second, s of the sum.

        Example:
            >>> from tsc_interp.tasks import Addition
            >>> [Addition(digits=2).place_name(place) for place in (0, 3, 6)]
            ['a1', 'b1', 's0']
        """
        orders = self.operands, self.operands, self.total
        widths = self.digits, self.digits, self._width
        for name, start, width, order in zip("abs", self._starts, widths, orders, strict=True):
            if start <= place < start + width:
                return f"{name}{self._place(0, place - start, width, order)}"
        return super().place_name(place)

    @property
    def written(self) -> tuple[int, ...]:
        start = self._starts[2]
        return tuple(range(start, start + self._width + len(self.end)))

    @property
    def _width(self) -> int:
        return self.digits + self.carry_digit

    @property
    def n_prompts(self) -> int:
        return int(self.base ** (2 * self.digits))

    def _place(self, start: int, digit: int, width: int, order: str) -> int:
        return start + (digit if order == "least" else width - 1 - digit)

    def whole(self) -> Trellis:
        """Stage j places a_j, b_j and s_j, the last also the sum's first digit; states: carry."""
        stages = [self._stage(j) for j in range(self.digits)]
        first, second, third = self._starts
        fixed = [*enumerate(self.before), *enumerate(self._plus, first + self.digits)]
        fixed += enumerate(self._equals, second + self.digits)
        length = third + self._width + len(self.end)
        labels = np.zeros(len(stages[0]), dtype=np.int64)
        return Trellis(length, tuple(fixed), tuple(stages), 0, labels)

    def _stage(self, j: int) -> Stage:
        first, second, third = self._starts
        width, last = self._width, j == self.digits - 1
        places = [
            self._place(first, j, self.digits, self.operands),
            self._place(second, j, self.digits, self.operands),
            self._place(third, j, width, self.total),
        ]
        rows = []
        for carry, a, b in product(range(2 if j else 1), range(self.base), range(self.base)):
            over, digit = divmod(a + b + carry, self.base)
            rows.append((carry, 0 if last else over, a, b, digit, over))
        table = np.array(rows, dtype=np.int64)
        if last and self.carry_digit:
            places.append(self._place(third, self.digits, width, self.total))
        letters = table[:, 2 : 2 + len(places)]
        if last:
            places += range(third + width, third + width + len(self.end))
            letters = np.hstack(
                [letters, np.tile(np.array(self.end, dtype=np.int64), (len(rows), 1))]
            )
        return make_stage(tuple(places), table[:, 0], table[:, 1], letters)

    def describe(self) -> str:
        return (
            f"the sum of two numbers of {self.digits} digits in base {self.base}, "
            f"{self.total} significant digit first" + ", then the end" * bool(self.end)
        )


class Copy(Writing, shipped=True):
    """`length` letters, a separator, and the same letters again (or backwards).

    Args:
        length: Letters to copy.
        letters: The number of different letters that may be copied.
        separator: Letters between the two, by default the one after those that are copied.
        backwards: Whether they are written in reverse.
    """

    kind: Literal["copy"] = "copy"
    length: Whole = Field(default=5, ge=1, le=MOST_PLACES // 2)
    letters: Whole = Field(default=3, ge=2, lt=len(LETTERS))
    separator: tuple[LetterIndex, ...] | None = None
    backwards: bool = False

    @property
    def _separator(self) -> tuple[int, ...]:
        return (self.letters,) if self.separator is None else self.separator

    @property
    def written(self) -> tuple[int, ...]:
        start = self.length + len(self._separator)
        return tuple(range(start, start + self.length))

    @property
    def n_prompts(self) -> int:
        return int(self.letters**self.length)

    def whole(self) -> Trellis:
        zeros, letters = np.zeros(self.letters, dtype=np.int64), np.arange(self.letters)
        stages = []
        for i, place in enumerate(self.written):
            read = self.length - 1 - i if self.backwards else i
            stages.append(make_stage((read, place), zeros, zeros, np.stack([letters, letters], 1)))
        fixed = tuple(enumerate(self._separator, self.length))
        return Trellis(self.written[-1] + 1, fixed, tuple(stages), 0, zeros)

    def describe(self) -> str:
        return f"{self.length} letters written again{', backwards' if self.backwards else ''}"


def Reverse(length: int = 5, letters: int = 3, separator: tuple[int, ...] | None = None) -> Copy:
    """`Copy` with `backwards`: the letters are written in reverse."""
    return Copy(length=length, letters=letters, separator=separator, backwards=True)
