"""What the efficient laboratory found: errors by budget and length, exact horizons, seconds."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from tsc_interp.laboratories.base import Cell, LabeledArray, LabOptions, LabResult, Table, option

Length = Annotated[int, Field(ge=2, le=2048)]
Budget = Annotated[int, Field(ge=1, le=4096)]

RANK, RANDOM, LEARNED = "low rank (SVD)", "random projection", "learned projection"
WINDOW, GLOBAL, FEATURES = "window and random", "window, random and CLS", "random features"
WAYS = (RANK, RANDOM, LEARNED, WINDOW, GLOBAL, FEATURES)
"""Linformer's two and what it starts from, BigBird without and with its global token, Performer."""
PARTS = (
    "window",
    "window, random",
    "window, CLS reads all",
    "window, CLS reads all and is read",
    "window, random, CLS reads all and is read",
)
TARGETS = ("CLS depends on every letter", "every letter depends on every other")


class EfficientOptions(LabOptions):
    QUICK: ClassVar = {
        "lengths": (16, 48),
        "budgets": (1, 2, 4, 16),
        "strings": 48,
        "features": (4, 64, 1024),
        "draws": 2,
        "max_length": 16,
        "steps": 60,
        "clock_lengths": (128, 512, 2048),
    }

    model: str = option("walkthrough", "A bundled model, a file or a run.")
    seed: int = option(0, "Of strings, projections and features.", ge=0)
    strings: int = option(192, "Strings of each length.", ge=8, le=5000)
    lengths: tuple[Length, ...] = option((16, 64, 256), "Lengths of those strings.", min_length=1)
    budgets: tuple[Budget, ...] = option(
        (1, 2, 4, 8, 16, 32, 64), "Keys, ranks or features.", min_length=1
    )
    features: tuple[Budget, ...] = option(
        (4, 16, 64, 256, 1024, 4096), "For exact horizons.", min_length=1
    )
    draws: int = option(4, "Sets of random features of each size.", ge=1, le=64)
    max_length: int = option(40, "Every string up to this length, for low rank.", ge=2, le=80)
    steps: int = option(300, "Of training a projection.", ge=1, le=5000)
    clock_lengths: tuple[Length, ...] = option((128, 256, 512, 1024, 2048), "Lengths timed.")


class EfficientResult(LabResult):
    probe: ClassVar[str] = "efficient"

    options: EfficientOptions
    n_letters: int
    n_heads: int
    own_horizon: float
    """Of the model as it is: every string up to this length is right; inf: of any length."""
    errors: LabeledArray
    """`[way length budget statistic]`: mean error of the logit, flips, wrong answers."""
    unmoved: LabeledArray
    """`[length statistic]`: of the model as it is."""
    ranks: LabeledArray
    """`[rank statistic]`: over every vector of counts up to the length."""
    horizons: LabeledArray
    """`[draw features]`: the exact horizon with random features instead of scores."""
    windows: LabeledArray
    """`[budget]`: the exact horizon with a window and random keys, CLS not reading all."""
    layers: LabeledArray | None = None
    """`[parts length target]`: layers at the least; None in results saved before."""

    def tables(self) -> tuple[Table, ...]:
        horizons = f"Exact horizons with random features (the model's own: {self.own_horizon:g})"
        ranks = f"Low rank, on every string up to {self.options.max_length} letters"
        tables = [
            self._errors(),
            Table.of(horizons, self.horizons, "features", across="draw {}".format),
            Table.of(ranks, self.ranks, "rank"),
        ]
        if self.layers is not None:
            names = ("who reads", "layers until")
            tables.append(Table.of("Layers that BigBird's parts need", self.layers, "parts",
                                   "target", names=names, across="{} letters".format))  # fmt: skip
        return (*tables, *([] if self.clock is None else [self._clock(self.clock)]))

    def _errors(self) -> Table:
        labels = self.errors.labels
        rows: list[tuple[Cell, ...]] = []
        for at in np.ndindex(self.errors.shape[:-1]):
            cells = self.errors.array[at]
            if np.isfinite(cells).all():
                way, length, budget = (
                    labels[dim][i] for dim, i in zip(self.errors.dims, at, strict=False)
                )
                rows.append((way, int(length), int(budget), *map(float, cells)))
        columns = ("way", "length", "budget", *labels["statistic"])
        return Table.from_rows("Against the full attention", columns, rows)

    def _clock(self, clock: LabeledArray) -> Table:
        milliseconds = LabeledArray.of(1e3 * clock.array, **clock.labels)
        return Table.of(
            "Milliseconds, on this machine", milliseconds, "way", across="{} letters".format
        )
