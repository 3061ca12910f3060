"""The public models of the gallery, by the start of their SHA-256: frame, label, sample.

The claims are written from the exercises of ARENA 2.0 that the models belong to; no file is
bundled, and no line of the exercises is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Draw = Callable[[np.random.Generator, int], Rows]


def palindrome(rows: Any) -> Rows:
    """1 where the twenty letters read the same backwards."""
    letters = np.asarray(rows)[:, 1:-1]
    return np.asarray((letters == letters[:, ::-1]).all(axis=1), dtype=np.int64)


def mixed_palindromes(rng: np.random.Generator, count: int) -> Rows:
    """Half of them palindromes; in the others each pair is broken with probability 1/2."""
    half = rng.integers(0, 31, size=(count, 10))
    other = np.where(rng.random((count, 10)) < 0.5, rng.integers(0, 31, size=(count, 10)), half)
    other[: count // 2] = half[: count // 2]
    ends = np.full((count, 1), 31), np.full((count, 1), 32)
    return np.hstack([ends[0], half, other[:, ::-1], ends[1]])


def balanced(rows: Any) -> Rows:
    """1 where the brackets (3 opens, 4 closes) balance."""
    height = np.cumsum(7 - 2 * np.asarray(rows)[:, 1:-1], axis=1)
    return np.asarray((height.min(axis=1) >= 0) & (height[:, -1] == 0), dtype=np.int64)


def mixed_brackets(rng: np.random.Generator, count: int) -> Rows:
    """Forty brackets: a third balanced, a third of equal numbers, a third by chance."""
    rows = rng.integers(3, 5, size=(count, 40))
    equal = rng.permuted(np.tile([3] * 20 + [4] * 20, (2 * count // 3, 1)), axis=1)
    start = np.cumsum(7 - 2 * equal, axis=1).argmin(axis=1) + 1
    turned = (np.arange(40) + start[:, None]) % 40
    words = np.take_along_axis(equal, turned, axis=1)
    words[count // 3 :] = equal[count // 3 :]
    rows[: len(words)] = words
    return np.hstack([np.zeros((count, 1), np.int64), rows, np.full((count, 1), 2)])


def sum_signs(rows: Any) -> Rows:
    """At every position: 0, 1, 2 where the sum so far is negative, zero, positive."""
    given = np.asarray(rows)
    totals = np.cumsum(np.where(given <= 5, given, given - 11), axis=1)
    return np.asarray(np.sign(totals) + 1)


def first_unique(rows: Any) -> Rows:
    """At every position: the first letter that occurs once so far, or 10."""
    letters = np.asarray(rows)[:, 1:]
    found = np.full(letters.shape, 10)
    for end in range(letters.shape[1]):
        seen = letters[:, : end + 1]
        once = (seen[:, :, None] == seen[:, None, :]).sum(axis=2) == 1
        first = seen[np.arange(len(seen)), once.argmax(axis=1)]
        found[:, end] = np.where(once.any(axis=1), first, 10)
    return found


def in_order(rows: Any) -> Rows:
    """The ten numbers in ascending order."""
    return np.sort(np.asarray(rows)[:, :10], axis=1)


def digits_of_sum(rows: Any) -> Rows:
    """The four digits of the sum."""
    given, powers = np.asarray(rows), 10 ** np.arange(3, -1, -1)
    total = (given[:, :4] + given[:, 5:9]) @ powers
    return np.asarray(total[:, None] // powers % 10)


@dataclass(frozen=True)
class Claim:
    """What a public model is meant to do."""

    name: str
    frame: str
    label: Callable[[Any], Rows]
    draw: Draw | None = None
    causal: bool = True


_PAIRS = "[START] x{20} [END]; x=0..30; START=31; END=32"
CLAIMS: dict[str, Claim] = {
    "0acc75629bf0dd3e": Claim("cumulative sum", "x{20}; x=0..10; read=0..19", sum_signs),
    "d981231d29a51023": Claim(
        "sorted list", "x{10} [SEP]; x=0..50; SEP=51; writes=10; distinct", in_order
    ),
    "2e02564bcfab9028": Claim("palindromes", _PAIRS, palindrome, mixed_palindromes),
    "d9a2d8ff358416fd": Claim("palindromes, easy", _PAIRS, palindrome, mixed_palindromes),
    "0ef88f8a269fcd86": Claim("palindromes, hard", _PAIRS, palindrome, mixed_palindromes),
    "23242091bc463327": Claim(
        "first unique letter", "[?] x{19}; x=0..9; ?=10; read=1..19", first_unique
    ),
    "d18404bb039f42c6": Claim(
        "addition", "x y{3} [+] x y{3} [IS]; x=0..4; y=0..9; +=10; IS=11; writes=4", digits_of_sum
    ),
    "cb0acba5159758ba": Claim(
        "brackets", "[START] x{1..40} [END]; x=3..4; START=0; END=2; (=3; )=4; read=0", balanced,
        mixed_brackets, causal=False,
    ),
}  # fmt: skip
_ZERO = "[0] y{3} [+] [0] y{3} [IS]; y=0..9; +=10; IS=11; writes=4"
_BRACKETS = CLAIMS["cb0acba5159758ba"].frame
ENUMERATED = {
    "brackets": _BRACKETS.replace("1..40", "1..14"),
    "brackets to 20": _BRACKETS.replace("1..40", "1..20"),
    "brackets to 22": _BRACKETS.replace("1..40", "1..22"),
    "addition": _ZERO.replace("[0] y{3}", "[0] [0] y{2}"),
    "addition, three digits": _ZERO,
    "addition, all": CLAIMS["d18404bb039f42c6"].frame,
}
"""The frames that `--enumerate` decides: whole claims, or their shorter inputs, in CPU seconds (the
first of each model) to half an hour."""
