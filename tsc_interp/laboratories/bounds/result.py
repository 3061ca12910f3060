"""What the bounds laboratory found: exact risks, and what validation sets say of them."""

from __future__ import annotations

from typing import ClassVar

from pydantic import field_validator

from tsc_interp.laboratories.base import LabOptions, LabResult, option
from tsc_interp.results.base import Cell, LabeledArray, Number, Record, Table

DRAWS = ("independent", "stratified", "the stream itself")
CLAIMS = ("uniform", "the source's", "Clopper-Pearson, one model", "Clopper-Pearson, all models")
CHOICE = ("validation error", "risk", "at delta", "at delta / M")
STEPS = (
    "some model is off by more than ε, simulated",
    "the models' chances, summed (union bound)",
    "M times the worst model's",
    "2M exp(-2Nε²) (Hoeffding for each)",
)
"""Each is at least the one before: what each step of the derivation gives away."""


class Derivation(Record):
    """The uniform bound, inequality by inequality, and ε against N, M and δ."""

    chances: LabeledArray
    """`[distance step]`: at the ε that would have held, and at the bound's."""
    distances: LabeledArray
    """`[distance]`: these two."""
    epsilon: LabeledArray
    """`[strings models delta]`."""

    def tables(self) -> tuple[Table, ...]:
        names = self.chances.labels["distance"]
        steps: tuple[tuple[Cell, ...], ...] = tuple(
            (step, *map(float, self.chances.at(step=step)))
            for step in self.chances.labels["step"]
        )  # fmt: skip
        columns = (f"at ε = {e:.4f} ({n})" for n, e in zip(names, self.distances.flat, strict=True))
        return (
            Table.from_rows("The derivation, step by step", ("chance", *columns), steps),
            Table.of(
                "The bound ε against N, M and δ",
                self.epsilon,
                "strings",
                "models",
                names=("N", "M"),
                across=lambda delta: f"δ = {float(delta):g}",
            ),
        )


class BoundsOptions(LabOptions):
    QUICK: ClassVar = {
        "seeds": 6,
        "epochs": 1,
        "max_length": 60,
        "sets": 500,
        "stream_sets": 30,
        "lengths": (10, 50, 200),
    }

    seeds: int = option(16, "M, the models to choose from.", ge=2, le=256)
    epochs: int = option(30, "Each is trained for, at most.", ge=1, le=30)
    batches: int = option(15, "Of 64 strings, in a validation set: N / 64.", ge=1, le=1000)
    max_length: int = option(200, "Of a validation string.", ge=2, le=200)
    alpha: float = option(0.1, "How even its counts are.", ge=0.01, le=1000)
    delta: float = option(0.05, "A bound may fail so often.", gt=0, lt=1)
    sets: int = option(4000, "Validation sets simulated.", ge=100, le=100_000)
    stream_sets: int = option(300, "Validation sets taken from the stream.", ge=10, le=5000)
    lengths: tuple[int, ...] = option(
        (5, 10, 20, 50, 100, 200, 500, 1000), "At which risk is exact."
    )
    seed: int = option(1, "Of the draws.", ge=0, lt=2**32)

    @field_validator("lengths")
    @classmethod
    def _in_reach(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if not lengths or min(lengths) < 2 or max(lengths) > 1000:
            raise ValueError("lengths are one or more numbers from 2 to 1,000")
        return tuple(sorted(set(lengths)))


class BoundsResult(LabResult):
    probe: ClassVar[str] = "bounds"

    options: BoundsOptions
    strings: int
    """N."""
    bounds: LabeledArray
    """`[bound]`: how far the two uniform ones let a validation error be from the risk."""
    risks: LabeledArray
    """`[seed quantity]`: the exact risk, and one validation set's errors."""
    best: tuple[int, ...]
    """The seeds with the fewest errors on that set."""
    coverage: LabeledArray
    """`[draws claim]`: how often the claim held."""
    farthest: LabeledArray
    """`[draws quantile]`: of the largest distance between validation error and risk."""
    widths: LabeledArray
    """`[draws claim]`: the mean half-width of what is claimed, over models."""
    choosing: LabeledArray
    """`[strings quantity]`: of the model a set chooses among those that have a risk, the mean
    validation error and risk, and how often Clopper-Pearson's interval holds the risk."""
    imperfect: int
    """How many models have a risk."""
    by_length: LabeledArray
    """`[seed length]`: the exact risk given the length."""
    fit: LabeledArray
    """`[quantity]`: the stream against its derived distribution."""
    binomial_gap: Number
    """Simulated against exact: the largest difference of a chance, over models."""
    derivation: Derivation | None = None
    """None in results saved before this was measured."""

    def tables(self) -> tuple[Table, ...]:
        return (
            Table.of("Models, exactly and on one validation set", self.risks, "seed"),
            Table.of("How often each claim holds", self.coverage, "draws"),
            Table.of("How wide each claim is", self.widths, "draws"),
            Table.of("The farthest of all models", self.farthest, "draws"),
            Table.of("What choosing does", self.choosing, "strings"),
            Table.of("Exact risk by length", self.by_length, "seed"),
            Table.from_rows(
                "The stream and its derived distribution",
                self.fit.labels["quantity"],
                (tuple(self.fit.array.tolist()),),
            ),
            *(self.derivation.tables() if self.derivation else ()),
        )
