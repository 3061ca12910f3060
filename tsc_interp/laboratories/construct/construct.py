"""`construct`: a classifier that is written down, not trained.

    tsc.construct("contains_all", letters="ab", max_length=1000)   right up to 1,000 letters
    tsc.construct("contains_all", letters="abc", scores="log_n")   right at every length
    tsc.construct("at_least", letter="a", k=3)                     right at every length

What is promised is proved by `tsc.certify`, not here.
"""

from __future__ import annotations

from typing import Literal, get_args

from tsc_interp.errors import UsageError, shorten
from tsc_interp.laboratories.construct.contains import contains_all
from tsc_interp.laboratories.construct.counting import at_least, majority, parity
from tsc_interp.laboratories.construct.written import Construction

Kind = Literal["contains_all", "at_least", "majority", "parity"]
Scores = Literal["plain", "log_n"]


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
) -> Construction:
    """A small classifier for `task`, right up to `max_length`, or at every length.

    `letters` are those of `contains_all`, `letter` that of the other tasks. Contains-all with
    `scores="log_n"`, and at-least-k, are right at every length whatever `max_length` is; majority,
    and contains-all of two letters, are with `max_length=None`, by a proof on paper that no
    certificate can follow to the end: their logits tend to zero. The alphabet has
    `n_letters`, by default three or as many as needed.
    """
    if scores not in get_args(Scores):
        raise UsageError(f"scores are {' or '.join(get_args(Scores))}, not {shorten(scores)}")
    log_n = scores == "log_n"
    if log_n and task != "contains_all":
        raise UsageError(f"scores with log n are for contains_all; {shorten(task)} needs none")
    if task == "contains_all":
        return contains_all(letters, n_letters, max_length, log_n)
    if task == "at_least":
        return at_least(letter, k, n_letters)
    if task == "majority":
        return majority(letter, n_letters, max_length)
    if task == "parity":
        return parity(letter, odd, n_letters, max_length)
    raise UsageError(f"what can be constructed is {', '.join(get_args(Kind))}, not {shorten(task)}")
