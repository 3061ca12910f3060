"""Can letters that should give a negative answer add up to a positive one? Chapter 3.

The false-positive cone check. For every set of letters with a negative label: the largest logit
over all mixtures of exactly these letters, with each head's actual attention weights,

    weight_t = n_t exp(s_t) / sum_i n_i exp(s_i),   n real, 1 to 10^9,

the mixture that reaches it, and the shortest real string that crosses zero. A crossing that needs
strings longer than `visible` letters is *latent*: a large score gap hides it from shorter tests.

The largest logit is searched for in float64 (`maximise` says how, and what it can miss); strings
are evaluated on the model itself (float32), all of them up to a stated length. For proofs instead
of searches, see `tsc-interp verify`. Only our classifier has labels to ask this about.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.cone.maximise import (
    all_counts,
    first_positive,
    logits64,
    maximise,
    shrink,
    write_counts,
)
from tsc_interp.probes.cone.result import ConeResult, GivenString, NegativeSet
from tsc_interp.probes.inputs import logits_of, need_classifier
from tsc_interp.results.base import LabeledArray, that_hold
from tsc_interp.source_report import TEST_LENGTH

if TYPE_CHECKING:
    from tsc_interp.config import ClassifierConfig

ALL_SETS_UP_TO = 6
"""Letters; a larger alphabet is asked about its largest negative sets, which contain the others."""
BUDGET = 110_000
"""Count vectors evaluated one by one for the shortest strings, over all sets together."""
MOST_PER_SET = 22_000
RATIOS = np.round(np.linspace(-9, 9, 361), 6)
"""Where the curves of two letters are drawn: log10 of second per first."""


def run(model: Any, strings: Sequence[str], *, visible: int = TEST_LENGTH) -> ConeResult:
    """`visible` is the length up to which a test would see an error; beyond it is latent."""
    config = need_classifier(model, "cone")
    if config.needs_order:
        raise UnsupportedError(
            "this model sees order, so a mixture of letters does not determine its logit"
        )
    negative, undecided = negative_sets(config)
    budget = min(MOST_PER_SET, BUDGET // max(1, len(negative)))
    sets = tuple(_examine(model, config, letters, visible, budget) for letters in negative)
    pairs = [letters for letters in negative if len(letters) == 2]
    # Along a pair, the rarer letter occurs once.
    counts = np.stack([10 ** np.maximum(-RATIOS, 0), 10 ** np.maximum(RATIOS, 0)], axis=1)
    notes = {
        f"{undecided} sets of letters have no label of their own ({config.task.describe()} depends "
        "on how often letters occur), so they are not asked about": undecided,
        "only the largest negative sets are asked about: their mixtures contain those of all "
        "smaller ones": config.n_letters > ALL_SETS_UP_TO,
    }
    return ConeResult(
        not_applicable=that_hold(notes),
        sets=sets,
        curves=LabeledArray.of(
            np.stack([logits64(model, config, letters)(counts) for letters in pairs]),
            set=pairs,
            ratio=RATIOS.tolist(),
        )
        if pairs
        else None,
        strings=_given(model, config, strings, set(pairs)),
    )


def negative_sets(config: ClassifierConfig) -> tuple[list[str], int]:
    """Sets of letters all of whose strings are negative, and how many sets have no one label."""
    letters, task = config.alphabet.letters, config.task
    if config.n_letters <= ALL_SETS_UP_TO:
        sets = [
            "".join(own) for k in range(1, len(letters) + 1) for own in combinations(letters, k)
        ]
    else:
        # A rule looks at the letters it names; with all others present the sets are largest.
        named = [own for k in range(len(task.needs) + 1) for own in combinations(task.needs, k)]
        others = set(letters) - set(task.needs)
        sets = ["".join(sorted(others | set(subset))) for subset in named if others or subset]
    labels = {subset: task.label_of_support(frozenset(subset)) for subset in sets}
    negative = [subset for subset in sets if labels[subset] is False]
    if config.n_letters > ALL_SETS_UP_TO:
        negative = [s for s in negative if not any(set(s) < set(other) for other in negative)]
    return negative, sum(label is None for label in labels.values())


# -- one set ---------------------------------------------------------------------------------


def _examine(
    model: Any, config: ClassifierConfig, letters: str, visible: int, budget: int
) -> NegativeSet:
    ratios_only = not config.attend_cls and config.score_scale == "sqrt_d_head"
    maxima = maximise(logits64(model, config, letters), len(letters), ratios_only=ratios_only)
    counts, searched_to = all_counts(len(letters), ratios_only, budget)
    shortest = first_positive(model, config, letters, counts)
    if shortest is None and maxima.value > 0:
        shortest = shrink(model, config, letters, maxima)
    return NegativeSet(
        letters=letters,
        max_logit=maxima.value,
        mixture=tuple(maxima.counts.tolist()),
        dense=maxima.dense,
        shortest=None if shortest is None else write_counts(config, letters, shortest),
        length=None if shortest is None else int(shortest.sum()),
        searched_to=searched_to,
        visible=visible,
    )


# -- curves ----------------------------------------------------------------------------------


def _given(
    model: Any, config: ClassifierConfig, strings: Sequence[str], pairs: set[str]
) -> tuple[GivenString, ...]:
    points = {}
    for string in strings:
        counts = config.alphabet.counts(string)
        present = np.flatnonzero(counts)
        letters = "".join(config.alphabet.letters[i] for i in present)
        if letters in pairs:
            first, second = counts[present].tolist()
            points[config.alphabet.canonical(string)] = (letters, float(np.log10(second / first)))
    if not points:
        return ()
    logits = logits_of(model, config.alphabet.count_matrix(points).astype(np.float64))
    return tuple(
        GivenString(string=string, letters=letters, log_ratio=ratio, logit=float(logit))
        for (string, (letters, ratio)), logit in zip(points.items(), logits, strict=True)
    )
