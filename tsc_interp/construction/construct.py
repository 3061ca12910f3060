"""`construct`: a classifier that is written down, not trained.

    tsc.construct("contains_all", letters="ab", max_length=1000)   right up to 1,000 letters
    tsc.construct("contains_all", letters="abc", scores="log_n")   right at every length
    tsc.construct("at_least", letter="a", k=3)                     right at every length

What is promised is proved by `tsc.certify`, not here.
"""

from __future__ import annotations

from typing import Literal, get_args

from tsc_interp.arguments import checked
from tsc_interp.construction.contains import contains_all
from tsc_interp.construction.counting import at_least, majority, parity
from tsc_interp.construction.written import Construction
from tsc_interp.errors import UsageError, shorten

Kind = Literal["contains_all", "at_least", "majority", "parity"]
Scores = Literal["plain", "log_n"]


@checked
def construct(
    task: Kind = "contains_all",
    *,
    letters: str = "ab",
    letter: str = "a",
    k: int = 2,
    odd: bool = True,
    n_letters: int | None = None,
    max_length: int | None = 1000,
    scores: Scores = "plain",
    mlp: bool = True,
) -> Construction:
    """A small classifier for `task`, right up to `max_length`, or at every length.

    Contains-all with `scores="log_n"`, and at-least-k, are right at every length whatever
    `max_length` is. Majority, and contains-all of two letters, are right at every length with
    `max_length=None`, by a proof on paper that no certificate can follow to the end: their logits
    tend to zero.

    Args:
        task: What the model decides.
        letters: The letters of `contains_all`.
        letter: The letter of the other tasks.
        k: How many of it, for `at_least`.
        odd: Whether `parity` asks for an odd number of it.
        n_letters: The size of the alphabet, by default three or as many as needed.
        max_length: The model is right on all strings of up to so many letters; None: at every
            length.
        scores: Plain softmax, or scores times log n.
        mlp: Whether contains-all of two letters may use a neuron instead of a second head.

    Returns:
        The model with the idea behind it and what it promises.

    Raises:
        UsageError: A value is out of range.
        UnsupportedError: No such model is known, or none exists.

    Example:
        >>> construct("contains_all", letters="ab", max_length=1000).shape()
        '1 dimension, 1 head, 1 neuron, 12 weights, the largest 22'
        >>> construct("contains_all", letters="ab", max_length=1000, mlp=False).shape()
        '1 dimension, 2 heads, 14 weights, the largest 1.62'
    """
    if scores not in get_args(Scores):
        raise UsageError(f"scores are {' or '.join(get_args(Scores))}, not {shorten(scores)}")
    log_n = scores == "log_n"
    if log_n and task != "contains_all":
        raise UsageError(f"scores with log n are for contains_all; {shorten(task)} needs none")
    if task == "contains_all":
        return contains_all(letters, n_letters, max_length, log_n, mlp)
    if task == "at_least":
        return at_least(letter, k, n_letters)
    if task == "majority":
        return majority(letter, n_letters, max_length)
    if task == "parity":
        return parity(letter, odd, n_letters, max_length)
    raise UsageError(f"what can be constructed is {', '.join(get_args(Kind))}, not {shorten(task)}")
