"""What the attention laboratory found: closed forms, each beside what was simulated."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from tsc_interp.laboratories.base import LabOptions, LabResult, option
from tsc_interp.results.base import Cell, LabeledArray, Record, Table

Share = Annotated[float, Field(gt=0, lt=1)]
Whole = Annotated[int, Field(ge=2, le=1_000_000)]
Scale = Annotated[float, Field(gt=0, le=200)]
Small = Annotated[float, Field(ge=0, le=10)]
Temperature = Annotated[float, Field(ge=1e-4, le=100)]
Size = Annotated[float, Field(gt=0, le=20)]

CASES = ("only a varies", "both vary")
DESIGNS = ("one head", "two heads")
FORMS = ("x itself", "learned", "written down")
"""Queries, keys and values without matrices, with learned ones, and with those that do it."""


class AttentionOptions(LabOptions):
    QUICK: ClassVar = {"draws": 2_000, "lookups": 60, "learning_steps": 300}

    draws: int = option(40_000, "Draws of the keys per cell.", ge=100, le=2_000_000)
    seed: int = option(0, "Of the draws.", ge=0)
    spread: float = option(0.5, "The variance of a key's norm.", gt=0, le=10)
    scales: tuple[Scale, ...] = option(
        (0.5, 1, 2, 4, 8, 16, 32, 64), "C, the queries' scale.", min_length=1
    )
    alphas: tuple[Small, ...] = option(
        (0.0, 0.001, 0.01, 0.1), "Variance in every direction.", min_length=1
    )
    keys: tuple[Whole, ...] = option((2, 4, 8, 16, 64, 256, 1024), "Numbers of keys.", min_length=1)
    epsilons: tuple[Share, ...] = option(
        (0.1, 0.01, 0.001), "What a copy may miss of weight 1.", min_length=1
    )
    gammas: tuple[Size, ...] = option(
        (1, 2, 3, 4, 6), "Norms of the construction's vectors.", min_length=1
    )
    temperatures: tuple[Temperature, ...] = option(
        (1, 0.3, 0.1, 0.03, 0.01), "T of softmax(s / T).", min_length=1
    )
    lookups: int = option(300, "Tables looked up in.", ge=10, le=5000)
    learning_steps: int = option(1000, "To learn W_Q, W_K and W_V in.", ge=1, le=50_000)


class Lookup(Record):
    """Attention as a soft look-up: its sharp limit, and what matrices add."""

    keys: int
    """In each table."""
    tested: int
    """Tables that the matrices were tested with."""
    sharp: LabeledArray
    """`[temperature table quantity]`: lead over T, distance from the look-up, its bound; in D."""
    matrices: LabeledArray
    """`[form statistic]`: how often the right item leads, and the output's distance from its value
    (root mean square, 1 for an answer of zero)."""
    alike: float
    """The cosine of the learned W_QᵀW_K and the rotation that has to be undone."""
    strength: float
    """The size of the learned W_QᵀW_K, as the C of a rotation."""

    def of_bound(self, temperature: str) -> float:
        """The most that a table misses of its bound, where rounding cannot decide that."""
        _, missed, bound = self.sharp.at(temperature=temperature).T
        seen = bound > 1e-12
        return float((missed[seen] / bound[seen]).max(initial=0.0))


class AttentionResult(LabResult):
    probe: ClassVar[str] = "attention"

    options: AttentionOptions
    margins: LabeledArray
    """`[epsilon keys]`: by how much a score must lead for the weight 1 - epsilon."""
    averaging: LabeledArray
    """`[keys scale statistic]`: the weight on a and b together, closed and computed."""
    moments: LabeledArray
    """`[case design scale alpha statistic]`: of v_a's share of the output."""
    steady: LabeledArray
    """`[scale alpha statistic]`: of one head's shares where no norm varies, only directions."""
    shown: float
    """The scale of the distributions below; alpha is the first of the options'."""
    distribution: LabeledArray
    """`[case form share]`: how often v_a's share lies in the bin that begins here."""
    distance: LabeledArray
    """`[case scale]`: Kolmogorov-Smirnov, of the logits of one head's shares from their normal."""
    turned: float
    """How often a key drawn around norm 1 points the other way."""
    coefficients: LabeledArray
    """`[sign output vector]`: each output in units of u_a ... u_d, at the largest norm."""
    misses: LabeledArray
    """`[sign output gamma]`: the distance from what is wanted, in units of gamma."""
    plain: LabeledArray
    """`[added multiple vector]`: c_2 without matrices, for x_2 = u_a + multiple * added."""
    leads: LabeledArray
    """`[added multiple]`: by how much x_2's score of itself leads, in units of gamma squared."""
    lookup: Lookup | None = None
    """None in results saved before this was measured."""

    @property
    def swings(self) -> bool:
        """Whether one head's shares have two peaks, at the scale that is shown."""
        norms = 2 * self.options.spread + 4 * self.options.alphas[0]
        return self.shown**2 * norms > 2

    def tables(self) -> tuple[Table, ...]:
        return (
            Table.of(
                "The share of v_a in the output (a half is wanted)",
                self.moments, "case", "design", "scale", "alpha",
                names=("keys", "design", "C", "alpha"),
            ),
            Table.of("The margin that a copy needs", self.margins, "keys",
                     across=lambda epsilon: f"weight {1 - float(epsilon):g}"),
            self._construction(),
            *(self._lookup(self.lookup) if self.lookup else ()),
        )  # fmt: skip

    @staticmethod
    def _lookup(lookup: Lookup) -> tuple[Table, ...]:
        sharp: list[tuple[Cell, ...]] = []
        for temperature, cells in zip(
            lookup.sharp.labels["temperature"], lookup.sharp.array, strict=True
        ):
            missed, bound = cells[:, 1], cells[:, 2]
            spread = (float(np.median(missed)), float(missed.max()), float(np.median(bound)))
            sharp.append((float(temperature), *spread, lookup.of_bound(temperature)))
        return (
            Table.from_rows(
                "A look-up as the limit of sharp attention",
                ("T", "median missed", "most missed", "median bound", "most of its bound"),
                sharp,
            ),
            Table.of(
                "Queries, keys and values without and with matrices",
                lookup.matrices,
                lookup.matrices.dims[0],
                names=("matrices",),
            ),
        )

    def _construction(self) -> Table:
        labels = self.coefficients.labels
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (sign, output, *map(float, self.coefficients.array[i, j]), miss)
            for i, sign in enumerate(labels["sign"])
            for j, output in enumerate(labels["output"])
            for miss in [float(self.misses.array[i, j, -1])]
        )
        columns = ("sign before u_c u_dᵀ", "output", *labels["vector"], "distance from wanted")
        gamma = float(self.misses.labels["gamma"][-1])
        return Table.from_rows(f"The construction at norm {gamma:g}", columns, rows)
