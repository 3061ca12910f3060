"""What the float32 model says, whatever the order of its sums.

The trusted base bounds how far a computed logit can be from the real one. So each string is

    right in float32       the real logit is on the right side by more than that
    wrong in float32       on the wrong side by more than that
    depends on rounding    anything else: it may be either

and `float32_horizon` is the length up to which all are right, found by the search of `horizon`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.trusted.float32 import FORMS
from tsc_interp.verification.count_model import CountModel, Form, checkpoint_of
from tsc_interp.verification.counting.tally import order
from tsc_interp.verification.horizon_result import Certainty, Float32Horizon
from tsc_interp.verification.labels import all_supports, full_counts
from tsc_interp.verification.search.search import SupportSearch, first_failure
from tsc_interp.verification.search.ways import FloatWays
from tsc_interp.verification.summaries import DEFAULT_LIMIT, check_reach


def search_float32(
    model: CountModel, limit: int, form: Form, budget: int
) -> tuple[Float32Horizon, list[SupportSearch]]:
    """The horizon, and the search of every set of letters up to the first uncertain string."""
    ways, searches, reach = _ways(model, form), [], limit
    config, first = model.config, None
    # What fails first is usually made of all letters.
    for letters in reversed(all_supports(config)):
        search = first_failure(ways, letters, reach, budget)
        searches.append(search)
        if search.counterexample is not None:
            counts = tuple(full_counts(config, letters, np.array(search.counterexample)).tolist())
            if first is None or order(counts) < order(first):
                first, reach = counts, sum(counts)
    through = min(search.verified_length for search in searches)
    if first is None:
        return Float32Horizon(through, limit, form, complete=through == limit), searches
    answer = _answer(ways, config.alphabet.write(first))
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


def _ways(model: CountModel, form: Form) -> FloatWays:
    if form not in FORMS:
        raise UsageError(f"the form is 'tokens' or 'compressed', got {form!r}")
    if model.config.has_norm or model.config.n_layers > 1:
        raise UnsupportedError(
            "the rounding of a float32 model that reads counts is bounded for one layer without "
            "norms; norms and several layers are not"
        )
    return FloatWays(model, form)


def float32_horizon(
    model: ModelLike, *, limit: int = DEFAULT_LIMIT, form: Form = "tokens", budget: int = 100_000
) -> Float32Horizon:
    """Return the length up to which the float32 model is right, for every order of its sums.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        limit: The greatest length searched.
        form: How strings are given to the model: `"tokens"`, or `"compressed"` as letter counts.
        budget: Boxes searched for each set of letters.

    Returns:
        The length, and the first string beyond it that is wrong or depends on rounding.

    Example:
        >>> float32_horizon("walkthrough", limit=3000)
        <Float32Horizon: safe through 2164, abc{2163}: depends on rounding>
    """
    check_reach(limit, budget)
    return search_float32(CountModel(checkpoint_of(model)), limit, form, budget)[0]


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
    ways = _ways(CountModel(checkpoint_of(model)), form)
    all_strings = [strings] if isinstance(strings, str) else strings
    return tuple(_answer(ways, string) for string in all_strings)


def _answer(ways: FloatWays, string: str) -> Float32Answer:
    model = ways.model
    full = model.config.alphabet.counts(string)
    label = int(model.config.task.classes(full))
    letters = tuple(np.flatnonzero(full).tolist())
    own = full[list(letters)][None]
    certainty: Certainty = "depends on rounding"
    if ways.decided(letters, own)[0] == ways.wrong:
        certainty = "right"
    elif any(
        ways.beats(letters, own, own, np.array([j]), np.arange(model.n_classes)[None] == label)[0]
        for j in range(model.n_classes)
        if j != label
    ):
        certainty = "wrong"
    logit, bound = model.reported(full.tolist(), label), ways.error(letters, own[0], label)
    return Float32Answer(string, certainty, label, logit, bound)
