"""What the attribution probe measures: the parts of each logit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsc_interp.probes.base import LabeledArray, ProbeResult, Table


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
        parts = tuple(
            (part, group, float(mean[i]), float(size[i]))
            for i, (part, group) in enumerate(
                zip(self.effects.labels["part"], self.groups, strict=True)
            )
        )
        return (
            Table(title="Each string's logit", columns=("string", *groups, "logit"), rows=rows),
            Table(
                title="Each part, averaged over the strings",
                columns=("part", "group", "mean", "mean size"),
                rows=parts,
            ),
        )
