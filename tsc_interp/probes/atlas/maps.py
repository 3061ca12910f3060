"""Logits of strings of two letters, from almost only the one to almost only the other.

Every value is that of a real string (`result` says which), evaluated in float64.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.probes.atlas.result import PAIR_POINTS, pair_counts
from tsc_interp.results.base import LabeledArray
from tsc_interp.strings import Counts
from tsc_interp.verification.bounds.labels import labels_of
from tsc_interp.verification.bounds.supports import Supports

MOST_PAIRS = 6


def length_matters(config: ClassifierConfig) -> bool:
    return config.attend_cls or config.log_n


def evaluate(
    config: ClassifierConfig, supports: Supports, counts: Counts
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Logits of count vectors that all have the same letters, and which of them are wrong."""
    support = tuple(np.flatnonzero(counts[0]).tolist())
    own = counts[:, list(support)]
    logits, _ = supports[support].logits(own.astype(np.float64))
    return logits, np.asarray((logits > 0) != labels_of(config, support, own))


def pair_curves(
    config: ClassifierConfig, supports: Supports, reach: int
) -> dict[str, LabeledArray]:
    """Two-letter strings: the edges of the failure map, where false positives live."""
    pairs = list(combinations(range(config.n_letters), 2))[:MOST_PAIRS]
    if not pairs:
        return {}
    counts, logits, wrong = pair_counts(reach), [], []
    for pair in pairs:
        full = np.zeros((len(counts), config.n_letters), dtype=np.int64)
        full[:, list(pair)] = counts
        here, bad = evaluate(config, supports, full)
        logits.append(here)
        wrong.append(bad)
    names = ["".join(config.alphabet.letters[i] for i in pair) for pair in pairs]
    axes = {"pair": names, "ratio": range(PAIR_POINTS)}
    return {
        "pairs": LabeledArray.of(_short(np.stack(logits)), **axes),
        "pairs_wrong": LabeledArray.of(np.stack(wrong).astype(np.float64), **axes),
    }


def _short(values: NDArray[np.float64]) -> NDArray[Any]:
    """Six digits are plenty to draw, and keep the file small."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (5 - np.floor(np.log10(np.abs(values))))
        return np.where(values == 0, 0.0, np.rint(values * digits) / digits)
