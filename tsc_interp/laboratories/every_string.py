"""Every count vector of some lengths with its logit and whether it is answered right, exactly.

The enumeration of `verify` (float64 with an error bound, `arb` where that leaves a sign open), kept
vector by vector, for laboratories that weigh strings in ways of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.verification.count_model import CountModel, checkpoint_of
from tsc_interp.verification.labels import all_supports

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Judged:
    """Aligned by vector. A logit of zero or less answers no."""

    config: ClassifierConfig
    counts: Integers
    """`[vector letter]`."""
    logits: Floats
    labels: Flags
    positive: Flags
    """What the model over the reals answers."""

    @property
    def wrong(self) -> Flags:
        return np.asarray(self.positive != self.labels)

    @property
    def lengths(self) -> Integers:
        return np.asarray(self.counts.sum(axis=1))


def vectors_up_to(n_letters: int, longest: int, shortest: int = 1) -> Integers:
    """Every vector of a length in this range, set of letters by set of letters."""
    vectors = []
    for size in range(1, n_letters + 1):
        # Positive counts are the gaps between as many cuts, the last of which is the length.
        places = chain.from_iterable(combinations(range(1, longest + 1), size))
        cuts = np.fromiter(places, dtype=np.int64).reshape(-1, size)
        cuts = cuts[cuts[:, -1] >= shortest]
        own = np.diff(cuts[np.lexsort(cuts.T)], axis=1, prepend=0)
        for letters in combinations(range(n_letters), size):
            full = np.zeros((len(own), n_letters), dtype=np.int64)
            full[:, list(letters)] = own
            vectors.append(full)
    return np.concatenate(vectors)


def judge(model: ModelLike, counts: Integers) -> Judged:
    """Decide these vectors, exactly."""
    counted = CountModel(checkpoint_of(model))
    config = counted.config
    logits = np.zeros(len(counts))
    positive = np.zeros(len(counts), dtype=bool)
    present = counts > 0
    for letters in all_supports(config, int(counts.sum(axis=1).max(initial=1))):
        support = np.zeros(config.n_letters, dtype=bool)
        support[list(letters)] = True
        rows = np.flatnonzero((present == support).all(axis=1))
        if not len(rows):
            continue
        own = counts[rows][:, list(letters)]
        answers = counted.answers(letters, own)
        if (answers < 0).any():
            raise UnsupportedError(
                "a logit of this model cannot be told from zero, so not every string is decided"
            )
        logits[rows], positive[rows] = counted.guess.logits(letters, own), answers == 1
    return Judged(config, counts, logits, np.asarray(config.task.labels(counts)), positive)
