"""`tsc.verify_ordered`: every string a model that sees positions gets wrong, as exact integers.

For one layer, with learned or sinusoidal positions or with the last letter as the one that reads,
and any of the family's options. The claim is about the real numbers: float32 weights are exact (so
are sinusoidal positions, as the float32 table they are), and nothing is rounded.

    one output       class 1 if the logit is above zero, else 0: zero counts as negative
    several outputs  the index of the largest; where several are equal, the lowest of them

Strings are in order of length, then letter by letter in the alphabet's order: the first error is
the first in that order.
"""

from __future__ import annotations

import numpy as np
from flint import ctx

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.task import Rule
from tsc_interp.verification.exact import judged
from tsc_interp.verification.ordered_certificates import certify_ordered
from tsc_interp.verification.ordered_exact import OrderedExact, longest_string
from tsc_interp.verification.ordered_search import LengthSearch, Work, search_length
from tsc_interp.verification.ordered_tasks import OrderedTask, task_of
from tsc_interp.verification.ordered_verdict import (
    LengthCount,
    OrderedCounterexample,
    OrderedVerdict,
)

BUDGET = 600.0
"""Estimated seconds of work after which what is left is called undecided."""


def verify_ordered(
    model: ModelLike,
    max_length: int | None = None,
    *,
    min_length: int = 1,
    task: OrderedTask | Rule | str | None = None,
    certify: bool = False,
    budget: float = BUDGET,
) -> OrderedVerdict:
    """Count every misclassified string of `min_length` to `max_length` letters, exactly.

    `model` is a hooked model, a checkpoint, a bundled name, a path, or a run. `max_length` is by
    default what the model's positions hold. `task` is by default the model's own; another one is an
    object or a name (`"maximum"`). `certify` has what was found derived again by the independent
    checker. `budget` is estimated seconds of searching; what is left when it is spent is undecided.
    """
    checkpoint = as_checkpoint(model)
    config, chosen = checkpoint.config, task_of(checkpoint.config, task)
    lengths = _lengths(config, min_length, max_length)
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
        raise UsageError(f"the budget is estimated seconds, above 0; got {budget!r}")
    work = Work(budget * 1e6)
    searches = [search_length(checkpoint, chosen, length, work) for length in lengths]
    return OrderedVerdict(
        source=checkpoint.source,
        weight_hash=checkpoint.weight_hash(),
        task=chosen.describe(),
        lengths=tuple(_count(config, search) for search in searches),
        shortest=_shortest(checkpoint, chosen, searches),
        undecided=_first_undecided(config, searches),
        certificate=certify_ordered(checkpoint, chosen, searches) if certify else None,
    )


def _lengths(config: ClassifierConfig, shortest: int, longest: int | None) -> range:
    fits = longest_string(config)
    longest = fits if longest is None else longest
    if longest is None:
        raise UsageError("this model has no positions to run out of: say max_length")
    if type(shortest) is not int or type(longest) is not int or not 1 <= shortest <= longest:
        raise UsageError(
            f"lengths are whole numbers from 1, the shortest first; got {shortest!r} to {longest!r}"
        )
    if fits is not None and longest > fits:
        raise UsageError(
            f"the model has {config.n_positions} positions: strings of up to {fits} letters, "
            f"got {longest}"
        )
    return range(shortest, longest + 1)


def _count(config: ClassifierConfig, search: LengthSearch) -> LengthCount:
    found = search.strings()
    strings = config.n_letters**search.length
    assert sum(found.values()) == strings, "boxes must hold every string once"
    return LengthCount(search.length, strings, found["wrong"], found["undecided"], search.examined)


def _shortest(
    checkpoint: Checkpoint, task: OrderedTask, searches: list[LengthSearch]
) -> OrderedCounterexample | None:
    for search in searches:
        string = search.first()
        if string is not None:
            label = int(task.labels(np.array([string]), checkpoint.config.n_letters)[0])
            return OrderedCounterexample(
                written(checkpoint.config, string),
                tuple(_name(checkpoint.config, letter) for letter in string),
                label,
                _answer(checkpoint, string, label),
            )
    return None


def _answer(checkpoint: Checkpoint, string: tuple[int, ...], label: int) -> int | None:
    """The largest output's class: guessed from midpoints, then shown."""
    exact = OrderedExact(checkpoint)
    for precision in (128, 1024):
        with ctx.workprec(precision):
            gaps = exact.differences(string, label)
            best = min(range(len(gaps)), key=lambda j: (float(gaps[j].mid()), j))
            if judged(exact.differences(string, best), best) == -1:
                return best
    return None


def _first_undecided(config: ClassifierConfig, searches: list[LengthSearch]) -> str | None:
    found = [search.first(undecided=True) for search in searches]
    return next((written(config, string) for string in found if string is not None), None)


def written(config: ClassifierConfig, string: tuple[int, ...]) -> str:
    """Letters by index, in the notation of strings, their order kept."""
    alphabet = config.alphabet
    return alphabet.canonical("".join(alphabet.letters[letter] for letter in string))


def _name(config: ClassifierConfig, letter: int) -> str:
    return config.token_names[letter] if config.token_names else config.alphabet.letters[letter]
