"""What the dynamics probe measures: the model, epoch by epoch."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsc_interp.results.base import LabeledArray, ProbeResult, Table


class DynamicsResult(ProbeResult):
    probe: ClassVar[str] = "dynamics"

    chosen_epoch: int | None
    losses: LabeledArray | None
    """[epoch, set], sums over an epoch's strings; nan where none was recorded."""
    errors: LabeledArray | None
    """[epoch, kind]: false positives and false negatives on the test set."""
    horizons: LabeledArray | None
    """[epoch]: no error up to this length, proved."""
    scores: LabeledArray | None
    """[epoch, head, letter]: CLS's scores in the first layer, every letter occurring once."""
    values: LabeledArray | None
    """[epoch, head, letter, component], first layer."""
    magnitudes: LabeledArray
    """[epoch, weight]: root mean square."""
    logits: LabeledArray
    """[epoch, string]"""
    labels: tuple[int, ...]
    embeddings: LabeledArray
    """[epoch, token, dim], CLS and letters."""
    transformed: LabeledArray
    """[epoch, string, dim]: CLS at the end."""
    readout: LabeledArray
    """[epoch, dim]"""

    @property
    def epochs(self) -> list[int]:
        return [int(epoch) for epoch in self.logits.labels["epoch"]]

    def tables(self) -> tuple[Table, ...]:
        columns, arrays = ["epoch"], []
        for kind, array in (("loss", self.losses), ("", self.errors)):
            if array is not None:
                columns += [f"{label} {kind}".strip() for label in array.labels[array.dims[1]]]
                arrays.append(array.array)
        if self.horizons is not None:
            columns.append("right through length")
            arrays.append(self.horizons.array[:, None])
        whole = {"false positives", "false negatives", "right through length"}
        numbers = np.hstack(arrays) if arrays else np.empty((len(self.epochs), 0))
        kinds = [int if column in whole else float for column in columns[1:]]
        rows = [
            (epoch, *(kind(number) for kind, number in zip(kinds, row, strict=True)))
            for epoch, row in zip(self.epochs, numbers, strict=True)
        ]
        course = Table.from_rows("The run, epoch by epoch", columns, rows)
        return (
            course,
            Table.of("Logits", self.logits, "epoch"),
            Table.of("Root mean square of each weight", self.magnitudes, "epoch"),
        )
