"""What the failures laboratory found."""

from __future__ import annotations

from typing import Any, ClassVar

from tsc_interp.laboratories.base import LabeledArray, LabOptions, LabResult, Table, option

RULES = ("margin rule", "cone rule", "tree", "logistic", "largest ratio")
TESTS = ("same seed, short", "same seed, longer", "other seeds")
WEIGHTS = ("vectors", "strings")
SCORES = ("precision", "recall")


class FailuresOptions(LabOptions):
    QUICK: ClassVar = {
        "seeds": 4,
        "epochs": 8,
        "max_length": 100,
        "fitted_to": 80,
        "cells": "length=10,length=20",
    }

    seeds: int = option(16, "Models trained in each cell.", ge=2, le=64)
    epochs: int = option(10, "Each is trained for, at most.", ge=1, le=30)
    fit_seed: int = option(2, "The seed that predictors are fitted on.", ge=0)
    max_length: int = option(200, "Every string up to it.", ge=20, le=200)
    fitted_to: int = option(120, "Predictors see strings up to this length.", ge=10, le=200)
    cells: str = option(
        "length=5,length=10,length=20,length=40,alpha=0.1,alpha=10,all strings",
        "Training distributions, between commas: length=L, alpha=A, all strings.",
    )


class FailuresResult(LabResult):
    probe: ClassVar[str] = "failures"

    options: FailuresOptions
    scores: LabeledArray
    """`[rule test weight score]`; a mean over the seeds that have errors."""
    tested: int
    """Other seeds with errors."""
    by_seed: LabeledArray | None = None
    """`[rule seed score]`: each of these seeds on its own, a vector of counts weighing one; None in
    results stored before this field was added."""
    first_question: str
    """What the tree asks first."""
    percentiles: LabeledArray
    """`[seed quantity]`: 98th percentile of right positive strings, 2nd of wrong ones."""
    logits: LabeledArray
    """`[seed quantity]`: size of logits, wrong and right, and the share of wrong ones below 1."""
    halves: LabeledArray
    """`[seed kind]`: wrong vectors by what they violate."""
    steps: LabeledArray
    """`[seed quantity]`: letters to add or drop until right."""
    horizons: LabeledArray
    """`[cell seed]`: exact, of models trained on another distribution."""
    speed: LabeledArray | None = None
    """`[cell seed]`: steps until 99 % of the strings up to 30 letters are right, either label
    weighing half; infinite if never. None in results saved before, as the next."""
    taken_back: LabeledArray | None = None
    """`[seed letter]`: the share of yes answers that one more of this letter turns into no."""

    def tables(self) -> tuple[Table, ...]:
        by_training: dict[str, Any] = {"names": ("trained on",), "across": "seed {}".format}
        horizons = "Horizons by training distribution"
        steps = "Steps until 99 % of the strings up to 30 letters are right"
        taken_back = "Yes answers taken back by one more"
        return (
            Table.of(
                "What predicts a failure",
                self.scores,
                "rule",
                "test",
                "weight",
                names=("rule", "tested on", "weighing"),
            ),
            Table.of("Thresholds", self.percentiles, "seed"),
            Table.of("Wrong logits", self.logits, "seed"),
            Table.of("Which half of the rule is violated", self.halves, "seed"),
            Table.of("How far the nearest right string is", self.steps, "seed"),
            Table.of(horizons, self.horizons, "cell", whole=True, **by_training),
            *([Table.of(steps, self.speed, "cell", **by_training)] if self.speed else []),
            *([Table.of(taken_back, self.taken_back, "seed")] if self.taken_back else []),
        )
