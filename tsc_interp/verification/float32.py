"""What the float32 model says, whatever the order of its sums.

`rounding.py` bounds how far a computed logit can be from the real one. So each string is

    right in float32       the real logit is on the right side by more than that
    wrong in float32       on the wrong side by more than that
    depends on rounding    anything else: it may be either

and `float32_horizon` is the length up to which all are right, found by the search of `horizon` with
that much room asked for. Like the counts of `verify` it rests on float64 error bounds;
`certify(model, float32="tokens")` has the checker derive it, with a rounding bound of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UsageError
from tsc_interp.verification.bounds.exact import checkpoint_of
from tsc_interp.verification.bounds.intervals import Array
from tsc_interp.verification.bounds.labels import all_supports, by_class, full_counts
from tsc_interp.verification.bounds.rounding import Form, Rounding
from tsc_interp.verification.bounds.supports import Supports
from tsc_interp.verification.counting.tally import order
from tsc_interp.verification.horizon_result import Certainty, Float32Horizon
from tsc_interp.verification.search.search import (
    RIGHT,
    WRONG,
    Flags,
    Integers,
    SupportSearch,
    TaskJudge,
    first_failure,
    margin_bounds,
)
from tsc_interp.verification.summaries import DEFAULT_LIMIT, check_reach


@dataclass(frozen=True)
class _Judge(TaskJudge):
    """Right is: right in float32 whatever the order. What is not is wrong, or may be."""

    rounding: Rounding
    form: Form

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        room, safe = self._room(vectors.sum(-1)), np.zeros(len(vectors), dtype=bool)
        rows = np.arange(len(vectors))
        for label, member in by_class(self.supports.config, letters, vectors):
            margin, error = self.supports.margin(letters, label).logits(
                vectors[member].astype(float)
            )
            beyond, slack = margin - room[member], np.maximum(error, 0.0)
            safe[member] = beyond > slack
            # Too close for float64, on either side of what rounding can do.
            for i in rows[member][~(np.abs(beyond) > slack)]:
                counts = full_counts(self.supports.config, letters, vectors[i])
                margin_of_one = self.supports.exact.margin(counts.tolist(), label)
                safe[i] = certainty(margin_of_one, True, float(room[i])) == "right"
        return np.where(safe, RIGHT, WRONG)

    def decided(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Sequence[Flags]:
        least, most = margin_bounds(self.supports, letters, low, high)[1]
        room = self._room(high.sum(-1))
        return most <= -room, least > room

    def exact_left(self) -> int:
        return 1 << 60

    def _room(self, lengths: Integers) -> Array:
        return np.array([self.rounding.bound(int(n), self.form) for n in lengths.tolist()])


def search_float32(
    checkpoint: Checkpoint, limit: int, form: Form, budget: int
) -> tuple[Float32Horizon, list[SupportSearch]]:
    """The horizon, and the search of every set of letters up to the first uncertain string."""
    if form not in ("tokens", "compressed"):
        raise UsageError(f"the form is 'tokens' or 'compressed', got {form!r}")
    config = checkpoint.config
    supports, rounding = Supports(checkpoint, ties_are_won=False), Rounding(checkpoint)
    judge, searches, reach = _Judge(supports, rounding, form), [], limit
    first: tuple[int, ...] | None = None
    # What fails first is usually made of all letters.
    for letters in reversed(all_supports(config)):
        search = first_failure(judge, letters, reach, budget)
        searches.append(search)
        if search.counterexample is not None:
            counts = tuple(full_counts(config, letters, np.array(search.counterexample)).tolist())
            if first is None or order(counts) < order(first):
                first, reach = counts, sum(counts)
    through = min(search.verified_length for search in searches)
    if first is None:
        return Float32Horizon(through, limit, form, complete=through == limit), searches
    answer = _answer(supports, rounding, config.alphabet.write(first), form)
    return Float32Horizon(
        safe_through=through,
        limit=limit,
        form=form,
        complete=through == sum(first) - 1,
        first=answer.string,
        certainty=answer.certainty,
        logit=answer.logit,
        bound=answer.bound,
    ), searches


def float32_horizon(
    model: ModelLike, *, limit: int = DEFAULT_LIMIT, form: Form = "tokens", budget: int = 100_000
) -> Float32Horizon:
    """Return the length up to which the float32 model is right, for every order of its sums.

    Bounds are float64, like those of `verify`; `certify(model, float32=form)` uses the checker.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        limit: The greatest length searched.
        form: How strings are given to the model: `"tokens"`, or `"compressed"` as letter counts.
        budget: Boxes searched for each set of letters.

    Returns:
        The length, and the first string beyond it that is wrong or depends on rounding.

    Example:
        >>> float32_horizon("walkthrough", limit=3000)
        <Float32Horizon: safe through 2151, abc{2150}: depends on rounding>
    """
    check_reach(limit, budget)
    return search_float32(checkpoint_of(model), limit, form, budget)[0]


@dataclass(frozen=True)
class Float32Answer:
    """The result for one string in float32."""

    string: str
    certainty: Certainty
    label: int
    logit: float
    """Over the reals; of more than two classes the right one's margin."""
    bound: float
    """How far float32 can be from it."""


def float32_answers(
    model: ModelLike, strings: str | Sequence[str], *, form: Form = "tokens"
) -> tuple[Float32Answer, ...]:
    """Return what is certain about the float32 answer to each string.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        strings: One or more, in run-length notation.
        form: How strings are given to the model: `"tokens"`, or `"compressed"` as letter counts.

    Returns:
        For each string `certainty`, which is `"right"`, `"wrong"` or `"depends on rounding"`, with
        its real logit and the bound on rounding.

    Example:
        >>> [answer.certainty for answer in float32_answers("walkthrough", ["ab", "abc{2150}"])]
        ['right', 'depends on rounding']
    """
    checkpoint = checkpoint_of(model)
    supports, rounding = Supports(checkpoint), Rounding(checkpoint)
    all_strings = [strings] if isinstance(strings, str) else strings
    return tuple(_answer(supports, rounding, string, form) for string in all_strings)


def _answer(supports: Supports, rounding: Rounding, string: str, form: Form) -> Float32Answer:
    counts = supports.config.alphabet.counts(string)
    label, room = int(supports.config.task.classes(counts)), rounding.bound(int(counts.sum()), form)
    margin = supports.exact.margin(counts.tolist(), label)
    logit = supports.exact.reported(counts.tolist(), label)
    return Float32Answer(string, certainty(margin, True, room), label, logit, room)


def certainty(logit: float, label: bool, bound: float) -> Certainty:
    """What a real logit (rounded to float64) says of the float32 answer, this bound given."""
    room = bound * (1 + 1e-9) + abs(logit) * 1e-15
    if logit > room:
        return "right" if label else "wrong"
    if logit <= -room and room > 0:
        return "wrong" if label else "right"
    return "depends on rounding"
