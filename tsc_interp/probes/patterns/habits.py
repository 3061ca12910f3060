"""Where heads attend, described by position: the mean weight on places of each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.bool_]


def _same(tokens: Sequence[str]) -> Places:
    kinds = np.array(tokens, dtype=object)
    return np.asarray(kinds[:, None] == kinds[None, :], dtype=bool)


def _after_same(tokens: Sequence[str]) -> Places:
    """`[query key]`: the place before the key has the query's token, and comes before the query."""
    places = np.zeros((len(tokens), len(tokens)), dtype=bool)
    places[:, 1:] = (_same(tokens) & np.tri(len(tokens), k=-1, dtype=bool))[:, :-1]
    return places


PLACES: dict[str, Callable[[Sequence[str]], Places]] = {
    "itself": lambda tokens: np.eye(len(tokens), dtype=bool),
    "previous": lambda tokens: np.eye(len(tokens), k=-1, dtype=bool),
    "first": lambda tokens: np.arange(len(tokens))[None, :].repeat(len(tokens), 0) == 0,
    "same": lambda tokens: _same(tokens) & ~np.eye(len(tokens), dtype=bool),
    "after same": _after_same,
    "mirror": lambda tokens: np.eye(len(tokens), dtype=bool)[::-1],
}


def habits(seen: Sequence[Any], causal: bool) -> tuple[dict[str, Floats], dict[str, float]]:
    """Of each habit `[layer head]`, the mean weight; and the mean of equal weights."""
    weights, chance = {}, {}
    for name, places in PLACES.items():
        total, even, count = np.zeros(seen[0].pattern.shape[:2]), 0.0, 0
        for string in seen:
            visible = visibility(string, causal)
            there = places(string.tokens) & visible
            asked = there.any(1) & (visible.sum(1) > 1)
            if name == "first":
                asked[0] = False  # at the start, the first is itself
            total += (string.pattern * there)[:, :, asked].sum((-1, -2))
            even += float((there[asked].sum(1) / visible[asked].sum(1)).sum())
            count += int(asked.sum())
        weights[name] = total / max(count, 1)
        chance[name] = even / max(count, 1)
    return weights, chance


def focus(seen: Sequence[Any], causal: bool) -> Floats:
    """`[layer head]`: the mean total variation distance from equal weights on what is visible."""
    total, count = np.zeros(seen[0].pattern.shape[:2]), 0
    for string in seen:
        visible = visibility(string, causal)
        share = visible * string.copies
        share = share / np.maximum(share.sum(1, keepdims=True), 1e-300)
        asked = visible.sum(1) > 1
        total += 0.5 * np.abs(string.pattern - share)[:, :, asked].sum((-1, -2))
        count += int(asked.sum())
    return np.asarray(total / max(count, 1))


def visibility(string: Any, causal: bool) -> Places:
    """`[query key]`."""
    size = len(string.tokens)
    visible = np.broadcast_to(string.copies > 0, (size, size))
    return visible & np.tri(size, dtype=bool) if causal else visible
