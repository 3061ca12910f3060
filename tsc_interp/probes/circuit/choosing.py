"""Which parts to keep: every choice where that is feasible, else one removal after the other.

Choices are ranked by the number of count vectors they answer differently than the model, in
float64. (Strings would be no measure: nearly all of them have every letter.) The counts that are
reported are exact and made afterwards (run.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsc_interp.probes.circuit.wiring import Array

Masks = NDArray[np.bool_]
MOST_CHOICES = 4096
_THRESHOLDS = 41


@dataclass(frozen=True)
class Graph:
    """Parts that can be removed, each standing for some edges of the wiring."""

    parts: tuple[str, ...]
    edges: Masks
    """`[part edge]`: which edges go with the part."""

    def named(self, kept: Masks) -> tuple[str, ...]:
        """The names of these parts."""
        return tuple(part for part, stays in zip(self.parts, kept, strict=True) if stays)

    def kept_edges(self, kept: Masks) -> Masks:
        """`[choice edge]`, for choices of parts `[choice part]`."""
        gone = (~kept).astype(np.int64) @ self.edges.astype(np.int64)
        return np.asarray(gone == 0)


class Ranking:
    """How many items (count vectors, or rows) each choice answers differently than the model."""

    def __init__(self, graph: Graph, logits: Callable[[Masks], Array], at_once: int = 1) -> None:
        """`logits`: of choices of parts `[choice part]`, `[choice item]`; so many at once."""
        self.graph, self._logits, self._at_once = graph, logits, max(1, at_once)
        self.logits = self.choice_logits(np.ones(len(graph.parts), dtype=bool))

    def judged(
        self, kept: Masks, progress: Callable[[str], None] = lambda doing: None
    ) -> tuple[Array, Array]:
        """Of each choice, how many answers differ, and the mean change of the logit."""
        differing, moved = [], []
        for start in range(0, len(kept), self._at_once):
            if start % (20 * self._at_once) == 0:
                progress(f"choice {start + 1:,} of {len(kept):,}")
            logits = self._logits(kept[start : start + self._at_once])
            differing.append(((logits > 0) != (self.logits > 0)).sum(axis=1).astype(float))
            moved.append(np.abs(logits - self.logits).mean(axis=1))
        return np.concatenate(differing), np.concatenate(moved)

    def choice_logits(self, kept: Masks) -> Array:
        return np.asarray(self._logits(kept[None])[0])

    def effects(self) -> Array:
        """`[part]`: the mean change of the logit when the part alone is removed."""
        return self.judged(~np.eye(len(self.graph.parts), dtype=bool))[1]


def every_choice(count: int) -> Masks:
    numbers = np.arange(2**count)
    return np.asarray((numbers[:, None] >> np.arange(count)) & 1, dtype=bool)


def best_of_each_size(kept: Masks, differing: Array) -> list[NDArray[np.bool_]]:
    """For every size the choice that differs least, as long as no smaller one does as well."""
    sizes = kept.sum(axis=1)
    best: list[NDArray[np.bool_]] = []
    least = np.inf
    for size in np.unique(sizes):
        of_size = np.flatnonzero(sizes == size)
        chosen = of_size[differing[of_size].argmin()]
        if differing[chosen] < least:
            least = float(differing[chosen])
            best.append(kept[chosen])
    return best[::-1]


def one_at_a_time(ranking: Ranking, progress: Callable[[str], None]) -> tuple[Masks, Array]:
    """Remove what changes least, then what then changes least, and so on: choices and counts."""
    count = len(ranking.graph.parts)
    kept = np.ones(count, dtype=bool)
    choices, differing = [kept.copy()], [0.0]
    for left in range(count, 0, -1):
        if left % 10 == 0:
            progress(f"{left} parts left")
        tried = np.flatnonzero(kept)
        masks = np.tile(kept, (len(tried), 1))
        masks[np.arange(len(tried)), tried] = False
        counts, moved = ranking.judged(masks)
        # Of several that change no answer, the one that moves logits least.
        at = int(np.lexsort((moved, counts))[0])
        kept = masks[at]
        choices.append(kept.copy())
        differing.append(float(counts[at]))
    return np.array(choices), np.array(differing)


def in_order(ranking: Ranking, order: Sequence[int], progress: Callable[[str], None]) -> Masks:
    """Choices: remove parts in this order where no answer changes, then the rest in halves."""
    kept = np.ones(len(order), dtype=bool)
    choices = [kept.copy()]
    for number, part in enumerate(order):
        if number % 50 == 0:
            progress(f"part {number + 1:,} of {len(order):,}")
        kept[part] = False
        if ranking.judged(kept[None])[0][0]:
            kept[part] = True
    choices.append(kept.copy())
    last = [part for part in order if kept[part]]
    while last:
        last = last[(len(last) + 1) // 2 :]
        choices.append(np.isin(np.arange(len(order)), last))
    return np.array(choices)


def chosen(
    ranking: Ranking, progress: Callable[[str], None]
) -> tuple[list[NDArray[np.bool_]], str]:
    """The best choice of each size, larger first, and how they were found."""
    count = len(ranking.graph.parts)
    if 2**count <= MOST_CHOICES:
        masks = every_choice(count)
        best = best_of_each_size(masks, ranking.judged(masks, progress)[0])
        return best, f"all {2**count:,} choices"
    masks, differing = one_at_a_time(ranking, progress)
    best = best_of_each_size(masks, differing)
    return best, f"one removal at a time, because {count} are too many for all choices"


def by_threshold(ranking: Ranking, order: Sequence[int]) -> Array:
    """`[part]`: the threshold up to which a part is kept, as ACDC sets it, parts taken in `order`.

    For each threshold, parts are visited from the output backwards, and one is removed for good if
    that moves the logits by less than the threshold on average.
    """
    count = len(ranking.graph.parts)
    alone = ranking.effects()
    thresholds = np.unique(np.quantile(alone, np.linspace(0, 1, _THRESHOLDS))) * 1.001
    kept_until = np.zeros(count)
    for threshold in thresholds:
        kept = np.ones(count, dtype=bool)
        before = ranking.logits
        for part in order:
            kept[part] = False
            after = ranking.choice_logits(kept)
            if float(np.abs(after - before).mean()) < threshold:
                before = after
            else:
                kept[part] = True
        kept_until[kept] = threshold
    return kept_until


def auc(scores: Array, inside: NDArray[np.bool_]) -> float:
    """The chance that a part of the circuit has a higher score than one that is not; ties half."""
    if inside.all() or not inside.any():
        return float("nan")
    high, low = scores[inside][:, None], scores[~inside][None]
    return float(((high > low) + 0.5 * (high == low)).mean())
