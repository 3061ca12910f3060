"""The horizon: the largest length up to which a classifier makes no error at all.

    tsc.horizon(model)                 -> Horizon
    tsc.horizon(model).length          -> 2166 for the walk-through model
    tsc.horizon(model).shortest        -> its first error, abc{2165}

`horizon` also finds the first error of every single set of letters, however far beyond the horizon
it lies. `first_error`, which sweeps ask of many models, searches no further than the shortest error
known so far, and gives the checker just that error and what comes before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.telling import Progress
from tsc_interp.verification.certificates import certify_searches
from tsc_interp.verification.count_model import CountModel, Form, checkpoint_of
from tsc_interp.verification.float32 import float32_horizon
from tsc_interp.verification.horizon_result import Horizon
from tsc_interp.verification.search.search import BOXES, SECONDS, search_supports
from tsc_interp.verification.summaries import DEFAULT_LIMIT, check_reach, summarise

CHECKER_SECONDS = 20.0
"""For what is given to the checker, as estimated; `certify` has more."""


@checked
def horizon(
    model: ModelLike,
    *,
    limit: int = DEFAULT_LIMIT,
    seconds: float = SECONDS,
    boxes: int = BOXES,
    prove: bool = True,
    float32: Form | None = None,
    frame: FrameLike | None = None,
    progress: Progress | bool | None = None,
) -> Horizon:
    """Find the length up to which a model makes no error at all, and its first error.

    Each set of letters is searched for its own first error. If the search runs out of seconds or
    boxes, or meets 64 logits that it cannot tell from zero, `complete` is False, but
    `verified_length` still holds.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        limit: The length of the longest strings that are searched.
        seconds: The estimated time limit of the search; it gives the same answer on every machine.
        boxes: The number of boxes to examine for each set of letters.
        prove: Whether the checker confirms the answer, so that it is `proved`. The checker has
            twenty seconds; `certify` allows more.
        float32: `"tokens"` or `"compressed"`: also find the length up to which the float32 model is
            right when it reads strings in this form, whatever the order of its sums.
        frame: The format of the inputs (`tsc.Frame`), for a model that was imported without one. It
            may have no fixed tokens besides the one that is read.
        progress: True prints the current step; a function is called with a few words about it.

    Returns:
        The horizon, the first error of each set of letters, and whether they are proved.

    Raises:
        UnsupportedError: The answer depends on more than letter counts, or the search would take
            hours.
        UsageError: An option is out of range.

    Example:
        >>> found = horizon("generalization-errors", limit=100)
        >>> found.length, found.shortest.string, found.proved
        (66, 'ab{66}', True)
    """
    check_reach(limit, boxes)
    checkpoint = checkpoint_of(with_frame(model, frame))
    counted = CountModel(checkpoint)
    searches = search_supports(counted, limit, boxes, seconds=seconds, sure=not prove)
    answer = summarise(counted, searches, limit)
    if prove:
        # A model too large for the checker is searched all the same, and nothing called proved.
        with suppress(UnsupportedError):
            patience = min(seconds, CHECKER_SECONDS)
            answer = certify_searches(counted, searches, limit, patience).horizon
    if float32 is None:
        return answer
    reach = limit if answer.length is None else answer.length + 1
    return replace(answer, float32=float32_horizon(checkpoint, limit=reach, form=float32))


def first_error(checkpoint: Checkpoint, *, limit: int, boxes: int, prove: bool = True) -> Horizon:
    """The horizon and the first error among strings of at most `limit` letters.

    Sets of letters are searched no further than the first error of those before them. Without
    `prove` the search's answer stands as it is found, except where it knows of no error: only the
    checker can say that there is none at any length.
    """
    check_reach(limit, boxes)
    model = CountModel(checkpoint_of(checkpoint))
    searches = search_supports(model, limit, boxes, first_only=True, sure=not prove)
    searched = summarise(model, searches, limit)
    with suppress(UnsupportedError):  # too large for the checker: nothing is called proved
        if searched.shortest is None:
            if searched.complete or prove:
                return certify_searches(model, searches, limit, CHECKER_SECONDS).horizon
        elif prove:
            made = certify_searches(
                model, searches, limit, CHECKER_SECONDS, horizon_only=True
            ).horizon
            if made.length == searched.length:
                return made
            # A whole certificate tries more: every length at once.
            searches = search_supports(model, limit, boxes)
            return certify_searches(model, searches, limit, CHECKER_SECONDS).horizon
    return searched


def first_errors(
    checkpoints: Sequence[Checkpoint], *, limit: int, boxes: int
) -> list[Horizon | None]:
    """The same of many models; None where the question cannot be asked."""
    answers: list[Horizon | None] = []
    for checkpoint in checkpoints:
        answer = None
        with suppress(UnsupportedError):
            answer = first_error(checkpoint, limit=limit, boxes=boxes)
        answers.append(answer)
    return answers
