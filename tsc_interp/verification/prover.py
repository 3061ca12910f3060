"""Writes proofs about letter counts: asks the trusted base which boxes hold, and cuts the others.

A box that the trusted base shows is a leaf of the proof. So nothing here is believed: a slip costs
a proof, or makes it longer, but cannot invent one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.trusted.boxes import Boxes
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.replay import Replay, sealed
from tsc_interp.trusted.replay_counts import CountParts, single
from tsc_interp.trusted.trees import Box, Leaf
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.search.cutting import halve_ratios, halves

Support = tuple[int, ...]
Cuts = Mapping[tuple[tuple[int, ...], tuple[int, ...]], int]
"""Boxes of counts that a search has cut, and along which side."""
MEMORY = 1 << 30
MOST_LEAVES, MOST_RATIOS = 100_000, 20_000
_RATIOS_AT_ONCE = 64


@dataclass
class _Region:
    """A node of a tree that is grown: its box, or the cut and the two parts below it."""

    box: Box
    searched: tuple[Any, Any] | None = None
    """The box of a search that this one lies in."""
    said: list[Any] | None = None
    parts: tuple[_Region, ...] = ()

    def nodes(self) -> Iterator[list[Any]]:
        """In preorder."""
        waiting = [self]
        while waiting:
            region = waiting.pop()
            if region.said is not None:
                yield region.said
            waiting += reversed(region.parts)


class Prover:
    """One proof about one model, or about where two agree.

    Args:
        models: What it is about.
        language: The rule that says what is right; None for two models.
        form: How the float32 model is given inputs, if claims about it are made.
        seconds: How long all of it may take.
    """

    def __init__(
        self, models: Sequence[CountModel], language: Any, form: str | None, seconds: float
    ) -> None:
        try:
            self.models = [model.read for model in models]
            judges = [model.judge for model in models]
            self.replay = Replay(self.models, language, form, seconds, MEMORY, judges)
        except NotProved as error:
            raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
        assert isinstance(self.replay.parts, CountParts)
        self.counts, self.language, self.form = self.replay.parts, language, form
        self.rule, self.judges = self.counts.rule, self.replay.judges
        self.parts: list[dict[str, Any]] = []
        self.until = monotonic() + seconds

    def keep(self, *parts: dict[str, Any]) -> bool:
        """Keep parts that the trusted base derives, all of them or none."""
        before = len(self.parts)
        try:
            for part in parts:
                self.counts.add(part)
                self.parts.append(part)
        except NotProved:
            del self.parts[before:]
            return False
        return True

    def document(self) -> dict[str, Any]:
        """The proof of all that was kept."""
        conclusion = self.counts.conclusion()
        return sealed(self.models, self.language, self.form, self.parts, conclusion)

    # -- parts -----------------------------------------------------------------------------------

    def single(self, counts: Sequence[int], *classes: int, float32: bool = False) -> bool:
        """That an input is wrong, or answered apart by two models."""
        return self.keep(single(counts, *classes, float32=float32))

    def up_to(
        self, support: Support, length: int, answer: Callable[[Box], int | None],
        cuts: Cuts | None = None, searched: tuple[Any, Any] | None = None, float32: bool = False,
    ) -> bool:  # fmt: skip
        """That all strings over exactly these letters, up to a length, have an answer.

        Args:
            support: The letters.
            length: The length.
            answer: The class of a box, None where it has to be cut.
            cuts: What a search has cut, so that it need not be asked about.
            searched: The box with which it began.
            float32: Also of the float32 model.
        """
        size = len(support)
        if length < size:
            return False
        root = _Region(Box((1,) * size, (length - size + 1,) * size), searched)

        def cut(box: Box) -> tuple[int, float] | None:
            low, high = tuple(map(int, box.low)), tuple(map(int, box.high))
            if low == high:
                return None
            first, _ = halves(low, high)
            axis = next(i for i in range(size) if first[1][i] != high[i])
            return axis, first[1][axis]

        def ask(boxes: Sequence[Box], answers: Sequence[int]) -> Any:
            return self._shown_counts(support, boxes, answers, length, float32)

        part = {"letters": list(support), "up_to": length}
        # What a search has left whole was shown to it.
        if searched is not None and not float32:
            tree = self._grow(root, length, answer, None, cut, float32, cuts or {})
            if tree is not None and self.keep({**part, "tree": tree}):
                return True
        tree = self._grow(root, length, answer, ask, cut, float32, cuts or {})
        return tree is not None and self.keep({**part, "tree": tree})

    def ever(self, support: Support, answer: int) -> bool:
        """That all strings over these letters, of any length, have one answer.

        The largest letter of a string weighs 1, and the others something from 0 to 1. Boxes with
        the worst bounds are cut first, so that a ratio which is answered otherwise is soon found.
        """
        free, size = len(support) - 1 + int(self.counts.cls), len(support)
        leaf = Leaf("is", (answer,)).node()
        if self.keep({"letters": list(support), "ever": True, "trees": [[leaf]] * size}):
            return True
        roots = [_Region(Box((0.0,) * free, (1.0,) * free)) for _ in range(size)]
        queue: list[tuple[float, int, int, _Region]] = []
        regions, examined = list(enumerate(roots)), 0
        while regions:
            examined += len(regions)
            if monotonic() > self.until or examined > MOST_RATIOS:
                return False
            try:
                least = self._least(support, answer, [(c, r.box) for c, r in regions])
                left = [item for item, bound in zip(regions, least, strict=True) if bound <= 0]
                corners = [(c, Box(r.box.high, r.box.high)) for c, r in left]
                if corners and self._least(support, answer, corners).min() <= 0:
                    return False
            except NotProved:
                return False
            for number, ((column, region), bound) in enumerate(zip(regions, least, strict=True)):
                if bound > 0:
                    region.said = leaf
                else:
                    heapq.heappush(queue, (bound, examined + number, column, region))
            regions = []
            for _ in range(min(len(queue), _RATIOS_AT_ONCE)):
                *_, column, region = heapq.heappop(queue)
                chosen = _cut_ratios(region.box)
                if chosen is None:
                    return False
                regions += [(column, part) for part in _part(region, chosen, None)]
        trees = [list(root.nodes()) for root in roots]
        return self.keep({"letters": list(support), "ever": True, "trees": trees})

    def _least(
        self, support: Support, answer: int, boxes: Sequence[tuple[int, Box]]
    ) -> NDArray[np.float64]:
        """The least margin of an answer over boxes of ratios; not above 0 where it is not shown."""
        low, high = (
            np.array([self.counts.weights(column, getattr(box, end)) for column, box in boxes])
            for end in ("low", "high")
        )
        winner = np.full(len(boxes), answer)
        wanted = np.arange(self.replay.n_classes) != winner[:, None]
        least = np.full(len(boxes), np.inf)
        for judge in self.judges:
            gaps = judge.gaps_in_boxes(support, Boxes(low, high), winner, wanted)
            won = judge.margins.won(gaps, winner) | ~wanted
            own = np.where(wanted & ~won, np.nan_to_num(gaps, nan=-np.inf), np.inf).min(1)
            least = np.minimum(least, own)
        return least

    def limit(self, letter: int) -> bool:
        """What all attention on one letter gives."""
        return any(
            self.keep({"letters": [letter], "limit": True, "tree": [["is", j]]})
            for j in range(self.replay.n_classes)
        )

    def tail(self, support: Support, start: int, answer: int) -> bool:
        """That all strings over these letters from a length on have one answer."""
        return self.keep({"letters": list(support), "from": start, "tree": [["is", answer]]})

    # -- growing ---------------------------------------------------------------------------------

    def _grow(
        self, root: _Region, longest: int, answer: Callable[[Box], int | None], ask: Any,
        cut: Callable[[Box], tuple[int, float] | None], float32: bool, cuts: Cuts,
    ) -> list[Any] | None:  # fmt: skip
        """A tree whose leaves are all shown, or None if a leaf cannot be."""
        waiting, leaves = [root], 0
        while waiting:
            if monotonic() > self.until or leaves + len(waiting) > MOST_LEAVES:
                return None
            batch, waiting = self._searched(waiting, cuts, longest), []
            asked, open_regions = [], []
            for region in batch:
                label = answer(region.box)
                if label is None:
                    open_regions.append(region)
                else:
                    asked.append((region, label))
            boxes, labels = [region.box for region, _ in asked], [label for _, label in asked]
            try:
                shown = [True] * len(asked) if ask is None else ask(boxes, labels) if asked else ()
                for (region, label), good in zip(asked, shown, strict=True):
                    if good:
                        region.said = Leaf("is", (label,), float32).node()
                        leaves += 1
                    else:
                        open_regions.append(region)
            except NotProved:
                return None
            for region in open_regions:
                chosen = cut(region.box)
                if chosen is None:
                    return None
                waiting += _part(region, chosen, longest)
        return list(root.nodes())

    def _searched(self, regions: list[_Region], cuts: Cuts, longest: int) -> list[_Region]:
        """Cut regions where a search has cut them, and return what it left whole."""
        left, waiting = [], list(regions)
        while waiting:
            region = waiting.pop()
            known = _searched_cut(region, cuts)
            if known is None:
                left.append(region)
            else:
                waiting += _part(region, known, longest)
        return left

    def _shown_counts(
        self, support: Support, boxes: Sequence[Box], answers: Sequence[int], length: int,
        float32: bool,
    ) -> Any:  # fmt: skip
        return self.counts.shown_up_to(support, boxes, np.array(answers), length, float32)


def _searched_cut(region: _Region, cuts: Cuts) -> tuple[int, float] | None:
    """The cut of a search that parts this region, if it made one."""
    while region.searched is not None and region.searched in cuts:
        side = cuts[region.searched]
        below, _ = halves(*region.searched, side)
        where = below[1][side]
        if where < region.box.high[side]:
            return side, where
        region.searched = below
    return None


def _part(region: _Region, chosen: tuple[int, float], longest: int | None) -> list[_Region]:
    """Cut a region, and return its parts that hold inputs."""
    axis, where = chosen
    parts = region.box.cut(axis, where, longest is not None)
    searched: tuple[Any, Any] = (None, None)
    if region.searched is not None:
        searched = halves(*region.searched, axis)
        if searched[0][1][axis] != where:
            searched = (None, None)
    region.said = ["cut", axis, where]
    region.parts = tuple(
        _Region(part, own)
        for part, own in zip(parts, searched, strict=True)
        if longest is None or sum(part.low) <= longest
    )
    return list(region.parts)


def _cut_ratios(box: Box) -> tuple[int, float] | None:
    parts = halve_ratios(box.low, box.high)
    if not parts:
        return None
    (_, high), _ = parts
    axis = next(i for i, end in enumerate(high) if end != box.high[i])
    return axis, high[axis]
