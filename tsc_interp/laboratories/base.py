"""What laboratories share: their options, checked, and the shape of a result.

A laboratory is asked options instead of a model. Otherwise its result is a probe's: frozen, with
findings, tables and arrays that carry labels, and the same on every run of the same options on
one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, model_validator

from tsc_interp.frozen import Frozen
from tsc_interp.results.base import Cell, Finding, LabeledArray, Number, ProbeResult, Record, Table

__all__ = [
    "Cell", "Finding", "LabOptions", "LabResult", "LabeledArray", "Number", "Progress", "Record",
    "Table", "option", "silent",
]  # fmt: skip

Progress = Callable[[str], None]


def silent(doing: str) -> None:
    """A progress callback that ignores its messages."""


def option(default: Any, about: str, **bounds: Any) -> Any:
    """A field of `LabOptions`: its default, what it is, and pydantic's bounds, such as `ge=1`."""
    return Field(default=default, description=about, **bounds)


class LabOptions(Frozen):
    """A laboratory's options. Each is a field with a default, its bounds and a description.

    On the command line a field `n_keys` is `--n-keys`, and several values stand between commas.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True
    )

    QUICK: ClassVar[Mapping[str, Any]] = {}
    """The defaults that `quick` makes smaller: with them a run takes less than ten seconds."""

    quick: bool = option(False, "Smaller defaults, for a first look.")

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        given = {**cls.QUICK, **data} if data.get("quick") else dict(data)
        for name, field in cls.model_fields.items():
            # `1,2,5` for several values, as a command line gives them.
            if isinstance(field.default, tuple) and isinstance(given.get(name), str):
                given[name] = tuple(given[name].split(","))
        return given

    def asked(self) -> dict[str, Any]:
        """What differs from the defaults, those of `quick` if it is on: enough to ask again."""
        usual = type(self)(quick=self.quick)
        return {
            name: value
            for name in type(self).model_fields
            if (value := getattr(self, name)) != getattr(usual, name)
        }


class LabResult(ProbeResult):
    """The base of every laboratory's result. `probe` is the laboratory's name."""

    kind: ClassVar[str] = "laboratory"

    options: LabOptions
    """A subclass narrows the type to its own options."""
