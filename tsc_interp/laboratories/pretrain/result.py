"""What the pretrain laboratory found: two tasks, with and without span corruption before."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from tsc_interp.laboratories.base import LabOptions, LabResult, option
from tsc_interp.results.base import Cell, LabeledArray, Record, Table

BOTH, ALONE, LONGER = "pre-trained, fine-tuned", "fine-tuned alone", "alone, as many steps"
ONLY = "pre-trained only"
TRAINED = (BOTH, ALONE, LONGER)
ARMS = (*TRAINED, ONLY)
GROUPS = ("shown", "held out", "strangers")
STAGES = ("initial", "pre-trained", "fine-tuned")
MEASURED = (
    "right, like the family",
    "right, exceptions",
    "home, exceptions",
    "home, strangers",
    "same answer, one family",
    "same answer, two families",
)
"""Of held-out names, of strangers, and of pairs of names."""


class Characters(Record):
    """Character corruption, names that share letters: right answers, and those of similar names."""

    measured: LabeledArray
    """`[arm measure seed]`."""
    names: int
    """Held-out names of each seed."""
    exceptions: LabeledArray
    """`[seed]`: those of them that are not from their family's home."""
    places: int

    def table(self) -> Table:
        rows = tuple(
            (arm, measure, *mean_and_error(self.measured.at(arm=arm, measure=measure)))
            for arm in self.measured.labels["arm"]
            for measure in MEASURED
        )
        columns = ("training", "measure", "share", "standard error")
        return Table.from_rows("Names that share letters", columns, rows)


class PretrainOptions(LabOptions):
    QUICK: ClassVar = {
        "seeds": 4,
        "pretrain_steps": 150,
        "finetune_steps": 60,
        "batch": 32,
        "labels": (8, 32),
        "character_seeds": 2,
        "character_steps": 100,
        "character_tuning": 30,
    }

    seeds: int = option(16, "Models of each arm.", ge=2, le=128)
    seed: int = option(0, "The first of them.", ge=0, lt=2**31)
    labels: tuple[int, ...] = option(
        (8, 16, 32), "Labelled strings for contains a and b, even numbers."
    )
    pretrain_steps: int = option(600, "Of span corruption.", ge=1, le=20_000)
    finetune_steps: int = option(200, "On the task.", ge=1, le=20_000)
    batch: int = option(64, "Corrupted strings in a step.", ge=1, le=1024)
    max_length: int = option(20, "Accuracy is over every string up to it.", ge=10, le=60)
    limit: int = option(1_000_000, "Horizons are sought up to it.", ge=10, le=10**9)

    character_seeds: int = option(4, "Of character models.", ge=2, le=64)
    character_steps: int = option(600, "Of character corruption.", ge=1, le=50_000)
    character_tuning: int = option(60, "Steps on questions about names.", ge=1, le=50_000)

    @field_validator("labels")
    @classmethod
    def _even(cls, labels: tuple[int, ...]) -> tuple[int, ...]:
        if not labels or any(n < 2 or n > 200 or n % 2 for n in labels):
            raise ValueError("labels are one or more even numbers from 2 to 200")
        return tuple(sorted(set(labels)))


class PretrainResult(LabResult):
    probe: ClassVar[str] = "pretrain"

    options: PretrainOptions
    partners: LabeledArray
    """`[arm group seed]`: the share of questions about a letter's partner answered right."""
    confidence: LabeledArray
    """`[arm group seed]`: the mean probability of the answer given, right or wrong."""
    constant: LabeledArray
    """`[seed]`: right answers about held-out names of who always says one partner."""
    questions: int
    """Held-out names, over all seeds."""
    contains: LabeledArray
    """`[arm labels seed]`: contains a and b, half the weight on either label; constant: 0.5."""
    horizons: LabeledArray
    """`[arm labels seed]`: every string up to this length is right; sought up to `limit`."""
    heads: LabeledArray
    """`[stage seed head letter]`: attention weights on a string with each letter once."""
    gaps: LabeledArray
    """`[restoring]`: distance (total variation) from the best restoration of a letter taken out."""
    characters: Characters | None = None
    """None in results saved before this was measured."""

    def tables(self) -> tuple[Table, ...]:
        tables = (self._partners(), self._contains(), self._heads())
        return (*tables, *((self.characters.table(),) if self.characters else ()))

    def gains(self, against: str, labels: int) -> NDArray[np.float64]:
        """What pre-training adds to accuracy, seed against its twin."""
        pretrained, other = (self.contains.at(arm=arm, labels=labels) for arm in (BOTH, against))
        return np.asarray(pretrained - other)

    def _partners(self) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for arm in ARMS:
            for group in GROUPS:
                right = mean_and_error(self.partners.at(arm=arm, group=group))
                sure = float(self.confidence.at(arm=arm, group=group).mean())
                rows.append((arm, group, *right, sure))
        rows.append(("constant answer", GROUPS[1], *mean_and_error(self.constant.array), None))
        columns = ("training", "names", "right", "standard error", "confidence")
        return Table.from_rows("A letter's partner", columns, rows)

    def _contains(self) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for labels in self.options.labels:
            for arm in TRAINED:
                right = mean_and_error(self.contains.at(arm=arm, labels=labels))
                gain = mean_and_error(self.gains(arm, labels)) if arm != BOTH else (None, None)
                through = self.horizons.at(arm=arm, labels=labels)
                learned = int((through >= 10).sum())
                rows.append((labels, arm, *right, *gain, float(np.median(through)), learned))
        columns = ("labels", "training", "accuracy", "standard error", "pre-training adds",
                   "its standard error", "median horizon", "right to 10 letters")  # fmt: skip
        return Table.from_rows("Contains a and b", columns, rows)

    def _heads(self) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for stage in STAGES:
            largest = self.heads.at(stage=stage).max(-1)
            rows.append((stage, float(largest.mean()), int((largest > 0.9).sum()), largest.size))
        columns = ("stage", "mean largest weight", "heads above 90 %", "heads")
        return Table.from_rows("What heads read of abc", columns, rows)


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
