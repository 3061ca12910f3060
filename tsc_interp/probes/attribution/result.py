"""What the attribution probe measures: the parts of each logit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

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
        strings = self.effects.labels["string"]
        groups = self.by_group.labels["group"]
        rows = tuple(
            (string, *self.by_group.array[row].tolist(), float(self.logits.array[row]))
            for row, string in enumerate(strings)
        )
        mean, size = self.effects.array.mean(0), np.abs(self.effects.array).mean(0)
        named = self.effects.labels["part"]
        shown = range(len(named))
        title = f"Each part, averaged over the {self.row}s"
        if len(named) > MOST_ROWS:
            shown = np.argsort(-size, kind="stable")[:MOST_ROWS].tolist()
            title += f" (the {MOST_ROWS} largest)"
        parts = tuple((named[i], self.groups[i], float(mean[i]), float(size[i])) for i in shown)
        if len(groups) > MOST_GROUPS:
            first = Table(
                title=f"Each head and MLP, averaged over the {self.row}s",
                columns=("part of the model", "mean", "mean size"),
                rows=tuple(
                    (
                        name,
                        float(self.by_group.array[:, g].mean()),
                        float(np.abs(self.by_group.array[:, g]).mean()),
                    )
                    for g, name in enumerate(groups)
                ),
            )
        else:
            columns = (self.row, *groups, self.total)
            first = Table(title=f"Each {self.row}'s {self.total}", columns=columns, rows=rows)
        return (
            first,
            Table(
                title=title,
                columns=("part", "group", "mean", "mean size"),
                rows=parts,
            ),
        )
