"""What the attribution probe measures: the parts of each logit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.results.base import LabeledArray, Number, ProbeResult, Table

OUTSIDE = ("embedding", "biases")
"""Groups that are no head and no MLP."""
MOST_GROUPS = 40
"""Groups that fit beside each other."""
MOST_ROWS = 200
"""Parts in a table."""


class AttributionResult(ProbeResult):
    probe: ClassVar[str] = "attribution"

    effects: LabeledArray
    """`[string part]`: what each part adds to the logit."""
    by_group: LabeledArray
    """`[string group]`: embedding, each head, each MLP, biases."""
    groups: tuple[str, ...]
    """The group of each part."""
    logits: LabeledArray
    """`[string]`: the model's own read-out."""
    labels: tuple[int, ...] | None = None
    """The true label of each string, for a model with a task."""
    chance: Number | None = None
    """Without a task: the largest mean effect of any head or MLP with shuffled weights."""

    answers: tuple[str, ...] = ()
    """`7 over 3`, for each string: which output's lead over which other is attributed."""
    sources: LabeledArray | None = None
    """`[string head position]`: a head's effect by where it reads from, where order counts."""

    @property
    def row(self) -> str:
        """What is attributed: strings of our classifier, rows of any other model."""
        return "row" if self.chance is not None else "string"

    @property
    def total(self) -> str:
        """What the parts add up to."""
        if self.answers:
            return "logit difference"
        return "read-out" if self.chance is not None else "logit"

    @property
    def error(self) -> float:
        """The largest difference between the sum of the parts and the read-out."""
        return float(np.abs(self.effects.array.sum(1) - self.logits.array).max())

    def tables(self) -> tuple[Table, ...]:
        averaged = f"averaged over the {self.row}s"
        groups, effects = self.by_group.labels["group"], self.by_group.array
        if len(groups) > MOST_GROUPS:
            first = Table.from_rows(
                f"Each head and MLP, {averaged}",
                ("part of the model", "mean", "mean size"),
                zip(groups, *_mean_and_size(effects), strict=True),
            )
        else:
            strings, logits = self.effects.labels["string"], self.logits.array.tolist()
            first = Table.from_rows(
                f"Each {self.row}'s {self.total}",
                (self.row, *groups, self.total),
                ((s, *row, x) for s, row, x in zip(strings, effects.tolist(), logits, strict=True)),
            )
        parts = self.effects.labels["part"]
        rows = list(zip(parts, self.groups, *_mean_and_size(self.effects.array), strict=True))
        title = f"Each part, {averaged}"
        if len(rows) > MOST_ROWS:
            rows = sorted(rows, key=lambda row: -row[3])[:MOST_ROWS]
            title += f" (the {MOST_ROWS} largest)"
        return (first, Table.from_rows(title, ("part", "group", "mean", "mean size"), rows))


def _mean_and_size(effects: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Of each column, over the rows."""
    return effects.mean(0).tolist(), np.abs(effects).mean(0).tolist()
