"""Logits over all mixtures of letters: a triangle with its edges and corners, a plane, curves.

Every value is that of a real string (`result` says which), evaluated in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.probes.atlas.result import (
    ANY_LENGTH,
    EDGE_POINTS,
    LENS,
    PAIR_POINTS,
    PLANE,
    TRIANGLE_COLUMNS,
    TRIANGLE_ROWS,
    Counts,
    Floats,
    edge_counts,
    pair_counts,
    plane_counts,
    triangle_counts,
)
from tsc_interp.results.base import LabeledArray
from tsc_interp.verification.bounds.labels import labels_of
from tsc_interp.verification.bounds.supports import Supports

MOST_PAIRS = 6
SLICES = (20, 200, 2000, 200_000)


def length_matters(config: ClassifierConfig) -> bool:
    return config.attend_cls or config.log_n


def evaluate(
    config: ClassifierConfig, supports: Supports, counts: Counts
) -> tuple[Floats, NDArray[np.bool_]]:
    """Logits of count vectors that all have the same letters, and which of them are wrong."""
    support = tuple(np.flatnonzero(counts[0]).tolist())
    own = counts[:, list(support)]
    logits, _ = supports[support].logits(own.astype(np.float64))
    return logits, np.asarray((logits > 0) != labels_of(config, support, own))


def _short(values: NDArray[Any], **labels: Any) -> LabeledArray:
    """Six digits are plenty to draw, and keep the file small."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (5 - np.floor(np.log10(np.abs(values))))
        short = np.where(values == 0, 0.0, np.rint(values * digits) / digits)
    return LabeledArray.of(short, **labels)


def mixture_map(config: ClassifierConfig, supports: Supports) -> dict[str, Any]:
    """Every mixture of three letters: the inside, the edges and the corners of a triangle."""
    lengths: tuple[int | None, ...] = SLICES if length_matters(config) else (None,)
    names = [ANY_LENGTH if length is None else length for length in lengths]
    letters = config.alphabet.letters
    edges = list(combinations(range(3), 2))
    axes: dict[str, dict[str, Any]] = {
        "triangle": {"row": range(TRIANGLE_ROWS), "column": range(TRIANGLE_COLUMNS)},
        "edges": {"edge": [letters[i] + letters[j] for i, j in edges], "place": range(EDGE_POINTS)},
        "corners": {"letter": letters},
    }
    slices: dict[str, list[tuple[Floats, Floats]]] = {name: [] for name in axes}
    for length in lengths:
        counts, inside = triangle_counts(length)
        here, bad = np.full((2, *inside.shape), np.nan)
        here[inside], bad[inside] = evaluate(config, supports, counts[inside])
        slices["triangle"].append((here, bad))
        along = edge_counts(length)
        slices["edges"].append(_each(config, supports, [(edge, along) for edge in edges]))
        alone = np.array([[1 if length is None else length]])
        here, bad = _each(config, supports, [((letter,), alone) for letter in range(3)])
        slices["corners"].append((here[:, 0], bad[:, 0]))
    maps: dict[str, Any] = {"lens": LENS}
    for name, found in slices.items():
        logits, wrong = (np.stack(part) for part in zip(*found, strict=True))
        maps[name] = _short(logits, length=names, **axes[name])
        maps[f"{name}_wrong"] = LabeledArray.of(wrong, length=names, **axes[name])
    return maps


def _each(
    config: ClassifierConfig, supports: Supports, groups: Sequence[tuple[tuple[int, ...], Counts]]
) -> tuple[Floats, Floats]:
    """Logits `[group string]` and what is wrong, for counts of a few letters each."""
    logits, wrong = [], []
    for places, counts in groups:
        full = np.zeros((len(counts), config.n_letters), dtype=np.int64)
        full[:, list(places)] = counts
        here, bad = evaluate(config, supports, full)
        logits.append(here)
        wrong.append(bad)
    return np.stack(logits), np.stack(wrong).astype(np.float64)


def plane_map(config: ClassifierConfig, supports: Supports, reach: int) -> dict[str, LabeledArray]:
    counts = plane_counts(reach)
    logits, wrong = evaluate(config, supports, counts.reshape(-1, 3))
    axes = {"row": range(PLANE), "column": range(PLANE)}
    return {
        "plane": _short(logits.reshape(PLANE, PLANE), **axes),
        "plane_wrong": LabeledArray.of(wrong.reshape(PLANE, PLANE), **axes),
    }


def pair_curves(
    config: ClassifierConfig, supports: Supports, reach: int
) -> dict[str, LabeledArray]:
    """Two-letter strings: the edges of the triangle, where false positives live."""
    pairs = list(combinations(range(config.n_letters), 2))[:MOST_PAIRS]
    if not pairs:
        return {}
    counts = pair_counts(reach)
    logits, wrong = _each(config, supports, [(pair, counts) for pair in pairs])
    names = ["".join(config.alphabet.letters[i] for i in pair) for pair in pairs]
    axes = {"pair": names, "ratio": range(PAIR_POINTS)}
    return {
        "pairs": _short(logits, **axes),
        "pairs_wrong": LabeledArray.of(wrong, **axes),
    }
