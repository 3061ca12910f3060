"""What counting costs, said before it starts, and the limits at which it gives up.

Work is counted in estimated seconds, by constants measured once, so that the same question is
refused or answered alike on every machine. Memory is bounded by keeping the three things that grow
with the question (boxes, rows worked on, digits of the answer) below a fixed size each.
"""

from __future__ import annotations

from math import log2
from typing import NoReturn

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError

LONGEST = 10**6
"""Beyond, even the number of all strings takes long to write down."""
MANY_VECTORS = 1_000_000_000
"""Beyond, regions look at shorter strings first, to tell how long it will take."""
PATIENCE = 3600.0
"""Estimated seconds after which counting gives up."""
HOPELESS = 10
"""A forecast of so many times that is believed, and nothing is started."""
EXACT_BUDGET = 10_000_000
"""Microseconds of exact arithmetic, estimated, on vectors too close to zero for float64."""
BOX_MEMORY = 1 << 29
"""Bytes for boxes that wait to be added up."""
ANSWER_MEMORY = 1 << 26
"""Bytes for one side's numbers of strings, length by length."""
_CHECK_EVERY = 1 << 27
"""Bits added to an answer between two looks at its size."""

INSTEAD = "a shorter length (-L), or --horizon, which finds the first error without counting"


class Work:
    """Adds up what counting has cost, and ends it when that is too much."""

    def __init__(self, config: ClassifierConfig, max_length: int, instead: str = INSTEAD) -> None:
        self.letters, self.max_length, self.instead = config.n_letters, max_length, instead
        self.seconds = 0.0
        self._unseen_bits = 0

    def spend_boxes(self, boxes: int, points: int, cost: int, held_bytes: int) -> None:
        """`cost` is a box's; points are only guessed."""
        self._spend((boxes + points * 0.05) * cost * 1e-6)
        if held_bytes > BOX_MEMORY:
            self._refuse(f"boxes beyond {BOX_MEMORY >> 20} MB of memory")

    def foresee_rows(self, rows: float) -> None:
        """Refuse before the work, not after it."""
        self._check(self.seconds + rows * 1e-7)

    def spend_rows(self, rows: int) -> None:
        self._spend(rows * 1e-7)

    def spend_sums(self, runs: int, steps: int, m: int, bits: int, strings: list[int]) -> None:
        """Runs of one m: steps along Pascal's triangle, and bits of the numbers added."""
        words = m / 64
        self._spend(runs * (4e-7 + 1e-9 * words) + steps * (3e-7 + 3e-9 * words) + bits * 1e-10)
        self._unseen_bits += bits
        if self._unseen_bits > _CHECK_EVERY:
            self._unseen_bits = 0
            if sum(map(int.bit_length, strings)) > 8 * ANSWER_MEMORY:
                self._refuse(f"an answer of more than {ANSWER_MEMORY >> 20} MB of digits")

    def whole_support_fits(self, letters: int) -> bool:
        """Whether the number of all strings over so many letters, at each length, may be held."""
        return self.max_length**2 / 2 * log2(max(letters, 1)) <= 8 * ANSWER_MEMORY

    def _spend(self, seconds: float) -> None:
        self.seconds += seconds
        self._check(self.seconds)

    def _check(self, seconds: float) -> None:
        if seconds > PATIENCE:
            self._refuse(f"more than {duration(PATIENCE)} of work")

    def _refuse(self, need: str) -> NoReturn:
        raise UnsupportedError(
            f"counting strings of {self.letters} letters up to length {self.max_length:,} needs "
            f"{need}; try {self.instead}"
        )


def duration(seconds: float) -> str:
    """A rough time in words: '2 seconds', '5 minutes', '1 hour'."""
    for unit, size in (("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= size or size == 1:
            amount = max(round(seconds / size), 1)
            return f"{amount:,} {unit}{'' if amount == 1 else 's'}"
    raise AssertionError


def shown(value: int) -> str:
    """A whole number for a message: long ones by their number of digits."""
    bits = value.bit_length()
    return f"{value:,}" if bits < 64 else f"a number of {int(bits * 0.30103) + 1} digits"
