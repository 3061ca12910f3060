"""What the attribution probe measures: the parts of each logit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsc_interp.probes.base import LabeledArray, Number, ProbeResult, Table

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
        title = "Each part, averaged over the strings"
        if len(named) > MOST_ROWS:
            shown = np.argsort(-size, kind="stable")[:MOST_ROWS].tolist()
            title += f" (the {MOST_ROWS} largest)"
        parts = tuple((named[i], self.groups[i], float(mean[i]), float(size[i])) for i in shown)
        if len(groups) > MOST_GROUPS:
            told = Table(
                title="Each head and MLP, averaged over the strings",
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
            columns = ("string", *groups, "logit")
            told = Table(title="Each string's logit", columns=columns, rows=rows)
        return (
            told,
            Table(
                title=title,
                columns=("part", "group", "mean", "mean size"),
                rows=parts,
            ),
        )
