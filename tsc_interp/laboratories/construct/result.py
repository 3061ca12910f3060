"""What the laboratory builds: models with their horizons, the bound on margins, what cannot be."""

from __future__ import annotations

from typing import ClassVar

from pydantic import field_validator

from tsc_interp.laboratories.base import LabOptions, LabResult, option
from tsc_interp.results.base import Cell, LabeledArray, Record, Table


class ConstructOptions(LabOptions):
    QUICK: ClassVar = {"lengths": (10, 100), "seeds": 2, "epochs": 2, "longest_proof": 8}

    lengths: tuple[int, ...] = option(
        (10, 30, 100, 300, 1000, 3000, 10000),
        "Lengths for which a contains-all model is constructed.",
    )
    seeds: int = option(16, "Trained models to compare with.", ge=1, le=256)
    epochs: int = option(8, "That they are trained for at most.", ge=1, le=30)
    longest_proof: int = option(
        40, "Length up to which the checker tests the model with a vanishing logit.", ge=2, le=100
    )

    @field_validator("lengths")
    @classmethod
    def _in_reach(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if not lengths or min(lengths) < 3 or max(lengths) > 100_000:
            raise ValueError("lengths are one or more numbers from 3 to 100,000")
        return tuple(sorted(set(lengths)))


class Built(Record):
    """One model that was written down, and what the checker made of it."""

    name: str
    how: str
    d_model: int
    heads: int
    neurons: int
    parameters: int
    largest_weight: float
    promise: str
    for_ever: bool
    """Whether every length is promised, by the certificate or by a proof on paper."""
    length: int | None
    """The horizon; None where no error was found."""
    infinite: bool
    verified_length: int
    proved: bool
    """Whether the checker derived the horizon, or that there is none."""
    first_error: str
    float32_safe: int
    """No order of float32 sums is wrong up to this length, of the 10,000 that were looked at."""

    @property
    def reach(self) -> str:
        if self.infinite:
            return "every length, proved"
        if self.length is not None:
            return f"{self.length:,}{', proved' if self.proved else ''}"
        return f"every length on paper, {self.verified_length:,} proved"


class ConstructResult(LabResult):
    probe: ClassVar[str] = "construct"

    options: ConstructOptions
    built: tuple[Built, ...]
    margins: LabeledArray
    """`[length quantity]` of the plain models for contains a and b."""
    trained: LabeledArray
    """`[seed quantity]` of trained models without an MLP."""
    fading: LabeledArray
    """`[model n]`: the logit of one a, one b and n c."""
    one_head: LabeledArray
    """`[seed quantity]`: horizons of trained single heads, and how far ab is from the mean."""
    parity: LabeledArray
    """`[heads quantity]`."""

    def tables(self) -> tuple[Table, ...]:
        rows: list[tuple[Cell, ...]] = [
            (model.name, model.d_model, model.heads, model.neurons, model.parameters,
             model.largest_weight, model.reach, model.first_error or "none", model.float32_safe)
            for model in self.built
        ]  # fmt: skip
        columns = (
            "model", "dimensions", "heads", "neurons", "weights", "largest", "right up to",
            "first error", "safe in float32 up to",
        )  # fmt: skip
        return (
            Table.from_rows("Constructed models", columns, rows),
            Table.of("Margins and the bound", self.margins, "length"),
            Table.of("Trained models without an MLP", self.trained, "seed"),
            Table.of("Trained single heads without an MLP", self.one_head, "seed"),
            Table.of("Parity", self.parity, "heads"),
        )
