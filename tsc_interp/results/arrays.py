"""Numbers whose axes have names and whose entries along each axis have labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, PlainSerializer, TypeAdapter, model_validator

from tsc_interp.errors import UsageError, needed, shorten
from tsc_interp.output.display import Displayed, Grid

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import DataArray

# JSON has no infinities and no NaN: they travel as strings and come back as numbers.
Number = Annotated[
    float, PlainSerializer(lambda x: x if math.isfinite(x) else str(x), when_used="json")
]
_MOST_SHOWN = 400


def largest(sizes: ArrayLike, most: int) -> list[int]:
    """The places of the largest sizes, at most so many, in their own order."""
    order = np.argsort(-np.asarray(sizes), kind="stable")[:most]
    return sorted(order.tolist())


class Record(BaseModel):
    """Data that does not change: results, and the records they are made of."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    def __dir__(self) -> list[str]:
        """What is of use to whoever asks: no names of pydantic's."""
        inherited = set(dir(BaseModel))
        return sorted(set(super().__dir__()) - {n for n in inherited if not n.startswith("__")})


class Stored:
    """A dataclass with a JSON form, by pydantic."""

    def to_dict(self) -> dict[str, Any]:
        return cast("dict[str, Any]", TypeAdapter(type(self)).dump_python(self, mode="json"))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return TypeAdapter(cls).validate_python(data)


class LabeledArray(Displayed, Record):
    """An array with labelled axes, stored flat in row-major order."""

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
        """The number of labels along each axis."""
        return tuple(len(self.labels[dim]) for dim in self.dims)

    @cached_property
    def array(self) -> NDArray[np.float64]:
        """The numbers as a NumPy array, which cannot be written to."""
        array = np.array(self.flat, dtype=np.float64).reshape(self.shape)
        array.flags.writeable = False
        return array

    def at(self, **where: object) -> NDArray[np.float64]:
        """Pick by label: `.at(head=0, letter="a")`; the axes not named stay."""
        for dim, label in where.items():
            if dim not in self.dims:
                raise UsageError(f"no axis {dim!r}: the axes are {', '.join(self.dims)}")
            if str(label) not in self.labels[dim]:
                known = ", ".join(self.labels[dim][:12])
                more = ", ..." if len(self.labels[dim]) > 12 else ""
                raise UsageError(f"no {dim} {shorten(label)}: there are {known}{more}")
        index = tuple(
            self.labels[dim].index(str(where[dim])) if dim in where else slice(None)
            for dim in self.dims
        )
        return self.array[index]

    def __eq__(self, other: object) -> bool:
        # pydantic would compare the cached array as well, and an array has no single truth value.
        return isinstance(other, LabeledArray) and (
            (self.dims, self.labels, self.flat) == (other.dims, other.labels, other.flat)
        )

    # -- other forms -------------------------------------------------------------------------

    def to_pandas(self) -> DataFrame:
        """One row per number: a column for each axis, and `value`."""
        rows = [
            (*(self.labels[dim][i] for dim, i in zip(self.dims, at, strict=True)), value)
            for at, value in zip(np.ndindex(self.shape), self.flat, strict=True)
        ]
        return needed("pandas").DataFrame(rows, columns=[*self.dims, "value"])

    def to_xarray(self) -> DataArray:
        """The same with xarray's axes and coordinates, for its selections and arithmetic."""
        coords = {dim: list(entries) for dim, entries in self.labels.items()}
        return needed("xarray").DataArray(self.array, dims=self.dims, coords=coords)

    def _facts(self) -> list[str]:
        return [f"{dim} {len(self.labels[dim])}" for dim in self.dims]

    def _grids(self) -> list[Grid]:
        """The last axis across, all others down."""
        if not self.dims or not 0 < len(self.flat) <= _MOST_SHOWN:
            return []
        *down, across = self.dims
        rows = [
            (
                *(self.labels[dim][i] for dim, i in zip(down, at, strict=True)),
                *self.array[at].tolist(),
            )
            for at in np.ndindex(self.shape[:-1])
        ]
        return [Grid(f"by {', '.join(self.dims)}", (*down, *self.labels[across]), rows)]
