"""What is measured: the largest share of a head's weight, in each string."""

from __future__ import annotations

from typing import ClassVar

from tsc_interp.results.base import LabeledArray, ProbeResult, Table


class SharpnessResult(ProbeResult):
    probe: ClassVar[str] = "sharpness"

    sharpness: LabeledArray
    """`[head string]`: 1 is all weight on one token."""

    def tables(self) -> tuple[Table, ...]:
        labels = self.sharpness.labels
        rows = tuple((head, *self.sharpness.at(head=head).tolist()) for head in labels["head"])
        columns = ("head", *labels["string"])
        return (Table(title="The largest share of each head", columns=columns, rows=rows),)
