"""Span corruption: a stretch of a string is taken out, and what stood there is to be told.

No mark is left in the gap. A model without positions could not see where it stands, and a mark that
is always there says nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsc_interp.laboratories.every_string import Floats, Integers
from tsc_interp.laboratories.pretrain.training import Batch, Strings

Flags = NDArray[np.bool_]


def spans(lengths: Integers, longest: int, rng: np.random.Generator, width: int) -> Flags:
    """`[... position]`: one stretch of each string, of `longest` letters at most, never all."""
    sizes = rng.integers(1, np.minimum(longest, lengths - 1) + 1)
    starts = rng.integers(0, lengths - sizes + 1)
    places = np.arange(width)
    return np.asarray(
        (places >= starts[..., None]) & (places < (starts + sizes)[..., None]), dtype=bool
    )


def corrupted(letters: Integers, gaps: Flags, n_letters: int, *, counted: bool) -> Batch:
    """`letters` is `[member string position]`, -1 where the string has ended.

    The targets are the shares of the letters that were taken out. With `counted`, what is left is
    handed on as counts: the same to a model that does not see order.
    """
    left, removed = np.where(gaps, -1, letters), np.where(gaps, letters, -1)
    counts = letter_counts(removed, n_letters)
    shares = counts / counts.sum(-1, keepdims=True)
    if counted:
        return Batch(Strings.of_counts(letter_counts(left, n_letters)), shares)
    return Batch(Strings.of_letters(left), shares)


def letter_counts(letters: Integers, n_letters: int) -> Integers:
    return np.asarray((letters[..., None] == np.arange(n_letters)).sum(-2))


def uneven_strings(
    rng: np.random.Generator, shape: tuple[int, ...], n_letters: int, longest: int
) -> tuple[Integers, Integers]:
    """Strings of 2 to `longest` letters, -1 behind their end, and their lengths.

    Each has shares of its own (Dirichlet, all alike), so a string says what it is made of; every
    vector of counts of a length is equally likely.
    """
    shares = rng.dirichlet(np.ones(n_letters), size=shape).cumsum(-1)[..., :-1]
    drawn = rng.random((*shape, longest))
    letters = (drawn[..., None] > shares[..., None, :]).sum(-1)
    lengths = rng.integers(2, longest + 1, size=shape)
    return np.where(np.arange(longest) < lengths[..., None], letters, -1), lengths


def best_restoration(counts: Integers) -> Floats:
    """What a letter taken out of such a string is, given the counts of the others: Laplace's rule.

    Shares of letters that were equally likely beforehand are (count + 1) / (length + letters).
    """
    return np.asarray((counts + 1) / (counts.sum(-1, keepdims=True) + counts.shape[-1]))
