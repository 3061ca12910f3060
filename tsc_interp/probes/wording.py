"""Numbers as the findings write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tsc_interp.output.numbers import number

__all__ = [
    "capital",
    "number",
    "write_mixture",
    "write_share",
    "write_strings",
    "write_vector",
]


def write_mixture(weights: ArrayLike, letters: Sequence[str]) -> str:
    """`41% a + 59% b`, leaving out what rounds to nothing."""
    shares = zip(np.asarray(weights, dtype=float).tolist(), letters, strict=True)
    return " + ".join(f"{share:.0%} {letter}" for share, letter in shares if share >= 0.005)


def write_vector(values: ArrayLike) -> str:
    """`1.3575`, or `(1.3575, -0.2000)`."""
    numbers = [f"{value:.4f}" for value in np.asarray(values).ravel()]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"


def write_strings(strings: Sequence[str], most: int = 4) -> str:
    """`` `aac`, `baac` and 3 more ``."""
    shown = ", ".join(f"`{string}`" for string in strings[:most])
    more = len(strings) - most
    return shown if more <= 0 else f"{shown} and {more} more"


def write_share(share: float) -> str:
    """`97.65%`; what would round to all of it is `over 99.99%`."""
    return "over 99.99%" if 0.99995 <= share < 1 else f"{share:.2%}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
