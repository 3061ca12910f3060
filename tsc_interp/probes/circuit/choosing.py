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

from tsc_interp.probes.circuit.wiring import Array, Wiring

Masks = NDArray[np.bool_]
MOST_CHOICES = 4096
_THRESHOLDS = 41
_BATCH_NUMBERS = 4_000_000


@dataclass(frozen=True)
class Graph:
    """Parts that can be removed, each standing for some edges of the wiring."""

    parts: tuple[str, ...]
    edges: Masks
    """`[part edge]`: which edges go with the part."""

    def kept_edges(self, kept: Masks) -> Masks:
        """`[choice edge]`, for choices of parts `[choice part]`."""
        gone = (~kept).astype(np.int64) @ self.edges.astype(np.int64)
        return np.asarray(gone == 0)


class Ranking:
    """How many count vectors each choice answers differently than the whole model."""

    def __init__(self, wires: Wiring, fill: Wiring | None, graph: Graph) -> None:
        self.wires, self.fill, self.graph = wires, fill, graph
        whole = np.ones((1, len(graph.parts)), dtype=bool)
        self.logits = self._logits(whole)[0]

    def _logits(self, kept: Masks) -> Array:
        return self.wires.logits(self.graph.kept_edges(kept), self.fill)

    def differing(self, kept: Masks, progress: Callable[[str], None] = lambda doing: None) -> Array:
        """`[choice]`."""
        size = max(1, _BATCH_NUMBERS // (len(self.logits) * (self.wires.neurons + 1)))
        found = []
        for start in range(0, len(kept), size):
            if start % (20 * size) == 0:
                progress(f"choice {start + 1:,} of {len(kept):,}")
            wrong = (self._logits(kept[start : start + size]) > 0) != (self.logits > 0)
            found.append(wrong.sum(axis=1).astype(float))
        return np.concatenate(found)

    def moved(self, kept: Masks) -> float:
        """The mean change of the logit in one choice."""
        return float(np.abs(self.choice_logits(kept) - self.logits).mean())

    def choice_logits(self, kept: Masks) -> Array:
        return np.asarray(self._logits(kept[None])[0])

    def effects(self) -> Array:
        """`[part]`: the mean change of the logit when the part alone is removed."""
        return np.array([self.moved(one) for one in ~np.eye(len(self.graph.parts), dtype=bool)])


def every_choice(count: int) -> Masks:
    numbers = np.arange(2**count)
    return np.asarray((numbers[:, None] >> np.arange(count)) & 1, dtype=bool)


def best_of_each_size(kept: Masks, differing: Array) -> list[NDArray[np.bool_]]:
    """For every size the choice that differs least, as long as no smaller one does as well."""
    sizes = kept.sum(axis=1)
    best: list[NDArray[np.bool_]] = []
    least = np.inf
    for size in range(kept.shape[1] + 1):
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
        counts = ranking.differing(masks)
        # Of several that change no answer, the one that moves logits least.
        tied = np.flatnonzero(counts == counts.min())
        at = min(tied, key=lambda i: ranking.moved(masks[i]))
        kept = masks[at]
        choices.append(kept.copy())
        differing.append(float(counts[at]))
    return np.array(choices), np.array(differing)


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
