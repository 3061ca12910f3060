"""What probes share: findings, arrays with labels, tables, and the shape of a result.

A result is frozen data: it never sees a model again, checks itself when made, and survives a trip
through JSON unchanged. Plots and reports are made from results alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, PlainSerializer, model_validator

from tsc_interp.output.json_form import json_number

TEST_LENGTH = 200
"""The longest strings of the source report's test set: an error up to there is there to be seen."""

Severity = Literal["good", "note", "warning", "failure"]
Cell = str | int | float | bool | None

# JSON has no infinities and no NaN: they travel as strings and come back as numbers.
Number = Annotated[float, PlainSerializer(json_number, when_used="json")]


class Frozen(BaseModel):
    """Data that does not change: results, and the records they are made of."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Finding(Frozen):
    """A sentence a person can act on, how much it matters, and the numbers it rests on."""

    severity: Severity
    text: str
    numbers: dict[str, Cell] = {}


class Table(Frozen):
    """Rows under named columns: the numbers behind a figure."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells under {len(self.columns)} columns")
        return self


class LabeledArray(Frozen):
    """Numbers whose axes have names and whose entries along each axis have labels.

    Stored flat, in row-major order.
    """

    dims: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    flat: tuple[Number, ...]

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        if set(self.dims) != set(self.labels) or len(self.dims) != len(self.labels):
            raise ValueError(f"axes {self.dims} but labels for {tuple(self.labels)}")
        if len(self.flat) != math.prod(self.shape):
            raise ValueError(f"{len(self.flat)} values for shape {self.shape}")
        return self

    @classmethod
    def of(cls, values: ArrayLike, **labels: Any) -> Self:
        """`LabeledArray.of(scores, head=range(2), letter="abc")`, axes in the order named."""
        array = np.asarray(values, dtype=np.float64)
        named = {dim: tuple(str(label) for label in entries) for dim, entries in labels.items()}
        expected = tuple(len(entries) for entries in named.values())
        if array.shape != expected:
            raise ValueError(f"values of shape {array.shape}, but labels say {expected}: {named}")
        return cls(dims=tuple(named), labels=named, flat=tuple(array.ravel().tolist()))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(self.labels[dim]) for dim in self.dims)

    @property
    def array(self) -> NDArray[np.float64]:
        return np.array(self.flat).reshape(self.shape)

    def at(self, **where: object) -> NDArray[np.float64]:
        """Pick by label: `.at(head=0, letter="a")`; the axes not named stay."""
        index = tuple(
            self.labels[dim].index(str(where[dim])) if dim in where else slice(None)
            for dim in self.dims
        )
        return self.array[index]


class ProbeResult(Frozen):
    """The base of every probe's result."""

    probe: ClassVar[str]
    """The probe's name, as `--probe` takes it."""

    findings: tuple[Finding, ...]
    not_applicable: tuple[str, ...] = ()
    """What could not be said of this model, each with its reason."""

    def tables(self) -> tuple[Table, ...]:
        """The numbers behind the figures, ready to print."""
        return ()

    def with_findings(self, findings: tuple[Finding, ...]) -> Self:
        return self.model_copy(update={"findings": findings})

    def to_dict(self) -> dict[str, Any]:
        return {"probe": self.probe, **self.model_dump(mode="json")}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        if data.get("probe") != cls.probe:
            raise ValueError(f"a result of probe {data.get('probe')!r}, expected {cls.probe!r}")
        return cls.model_validate({key: value for key, value in data.items() if key != "probe"})


class HeadsResult(ProbeResult):
    """The base of results about heads, of all layers or of one that was asked for."""

    n_layers: int = 1
    """Of the model, whichever of them the result is about."""
    needs: str | None = None
    """The letters the task names; None for a model without a task."""

    def needs_among(self, letters: Sequence[str]) -> str:
        """The letters the task names, if all of them are among these and there is one layer."""
        seen = self.n_layers == 1 and set(self.needs or "") <= set(letters)
        return (self.needs or "") if seen else ""

    def head_name(self, layer: str, head: int) -> str:
        return f"head {head}" if self.n_layers == 1 else f"layer {layer} head {head}"
