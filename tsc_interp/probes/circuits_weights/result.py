"""What the circuits-weights probe measures: maps of each head's weights, and how heads compose."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsc_interp.results.base import LabeledArray, Number, ProbeResult, Table, named_heads

MOST_PAIRS = 60


class CircuitsWeightsResult(ProbeResult):
    probe: ClassVar[str] = "circuits-weights"

    n_layers: int
    ov_token: LabeledArray
    """`[layer head token output]`: what attending to a token adds to an output, less the mean."""
    qk_token: LabeledArray
    """`[layer head from to]`: the score a token gives another."""
    ov_position: LabeledArray | None
    """`[layer head position output]`; None without a table of positions."""
    qk_position: LabeledArray | None
    """`[layer head query key]`."""
    composition: LabeledArray | None
    """`[by from to]`: Q, K and V composition of an earlier head with a later one, 0 to 1."""
    chance: Number | None
    """The largest composition score of nine in ten pairs of heads with shuffled weights."""
    copies: bool
    """Whether outputs are tokens, so that a head can copy what it attends to."""

    @property
    def heads(self) -> list[tuple[int, int, str]]:
        return named_heads(self.n_layers, self.qk_token)

    def range_of(self, scores: LabeledArray | None, i: int, h: int) -> float:
        """How far apart the scores of two keys are at most, for one query."""
        if scores is None:
            return 0.0
        cells = scores.array[i, h]
        return float((cells.max(-1) - cells.min(-1)).max())

    def copied(self, i: int, h: int) -> int:
        """For how many tokens attending to the token raises its own logit most."""
        tokens, outputs = self.ov_token.labels["token"], self.ov_token.labels["output"]
        best = self.ov_token.array[i, h].argmax(-1)
        return sum(token == outputs[at] for token, at in zip(tokens, best, strict=True))

    def pairs(self) -> list[tuple[str, str, str, float]]:
        """Kind, earlier head, later head, score: the largest first."""
        if self.composition is None:
            return []
        labels = self.composition.labels
        pairs = [
            (labels["by"][b], labels["from"][f], labels["to"][t], float(score))
            for (b, f, t), score in np.ndenumerate(self.composition.array)
            if score > 0
        ]
        return sorted(pairs, key=lambda pair: -pair[3])

    def tables(self) -> tuple[Table, ...]:
        rows = tuple(
            (name, self.range_of(self.qk_token, i, h), self.range_of(self.qk_position, i, h),
             float(np.abs(self.ov_token.array[i, h]).max()))
            for i, h, name in self.heads
        )  # fmt: skip
        columns = ("head", "scores of tokens differ by", "scores of positions differ by",
                   "largest effect on an output")  # fmt: skip
        tables = [Table.from_rows("How much each head's weights tell apart", columns, rows)]
        pairs = self.pairs()[:MOST_PAIRS]
        if pairs:
            columns = ("through", "from", "to", "composition")
            tables.append(Table.from_rows("How heads compose", columns, pairs))
        return tuple(tables)
