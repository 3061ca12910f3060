"""What the searches of all sets of letters say together, before and after the checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tsc_interp.errors import UsageError
from tsc_interp.strings import MAX_REPEAT
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.horizon_result import (
    Counterexample,
    Horizon,
    SupportHorizon,
    first_of,
)
from tsc_interp.verification.labels import full_counts, support_name
from tsc_interp.verification.proved import Proved
from tsc_interp.verification.search.search import SupportSearch

DEFAULT_LIMIT = 10**6


def check_reach(limit: object, boxes: object) -> None:
    """Refuse a limit that is no length, and what is no number of boxes."""
    if type(limit) is not int or not 1 <= limit <= MAX_REPEAT:
        raise UsageError(
            f"the limit of a horizon is a length from 1 to {MAX_REPEAT}, got {limit!r}"
        )
    if type(boxes) is not int or boxes < 1:
        raise UsageError(f"boxes is a whole number from 1, got {boxes!r}")


def summarise(model: CountModel, searches: Sequence[SupportSearch], limit: int) -> Horizon:
    """What the search found; nothing of it is proved yet."""
    by_letters = tuple(_support_horizon(model, search, limit) for search in searches)
    verified = min(support.verified_length for support in by_letters)
    first = first_of(by_letters)
    length = None if first is None else first.length - 1
    complete = verified == (limit if length is None else length)
    checkpoint = model.checkpoint
    reads = checkpoint.original_reads
    return Horizon(
        length, False, complete, False, verified, limit, by_letters, multiclass=model.multiclass,
        original_reads=None if reads is None else reads - checkpoint.config.has_cls,
    )  # fmt: skip


def _support_horizon(model: CountModel, search: SupportSearch, limit: int) -> SupportHorizon:
    counts = search.counterexample
    shortest = None if counts is None else counterexample(model, search.letters, counts)
    expected = limit if shortest is None else shortest.length - 1
    return SupportHorizon(
        letters=support_name(model.config, search.letters),
        label=search.label,
        shortest=shortest,
        verified_length=search.verified_length,
        complete=search.verified_length == expected,
        proved=False,
        boxes=search.examined,
    )


def counterexample(
    model: CountModel, letters: tuple[int, ...], counts: Sequence[int]
) -> Counterexample:
    """A wrong vector of a support, written as a string with its logit and label."""
    config = model.config
    full = full_counts(config, letters, np.array(counts)).tolist()
    label = int(config.task.classes(np.array(full)))
    return Counterexample(
        string=config.alphabet.write(full),
        text=config.named(config.alphabet.write(full)),
        length=sum(full),
        counts=tuple(full),
        label=label,
        logit=model.reported(full, label),
        multiclass=model.multiclass,
        answer=model.answer(full) if model.multiclass else None,
    )


def as_checked(searched: Horizon, checked: Proved) -> Horizon:
    """The same with every statement cut down to what the checker derived."""
    by_letters = tuple(
        _support_as_checked(support, checked, searched.limit) for support in searched.by_letters
    )
    first = first_of(by_letters)
    length = None if first is None else first.length - 1
    return replace(
        searched,
        length=length,
        infinite=checked.infinite,
        proved=checked.infinite or (length is not None and checked.horizon == length),
        verified_length=min(support.verified_length for support in by_letters),
        by_letters=by_letters,
        checked=True,
    )


def _support_as_checked(support: SupportHorizon, checked: Proved, limit: int) -> SupportHorizon:
    end = checked.verified_length[support.letters]
    through = limit if end is None else min(end, limit)
    known = support.shortest is not None and support.shortest.string in checked.wrong
    shortest = support.shortest if known else None
    expected = limit if shortest is None else shortest.length - 1
    return replace(support, shortest=shortest, verified_length=through, proved=through == expected)
