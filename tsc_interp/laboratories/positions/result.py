"""What the positions laboratory found: exact errors by length, for each kind of positions."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from tsc_interp.laboratories.base import Cell, LabeledArray, LabOptions, LabResult, Table, option

CONTAINS, BEFORE = "contains a and b", "an a before any b"
TASKS = (CONTAINS, BEFORE)
NONE, LEARNED, SINUSOIDAL = "none", "learned", "sinusoidal"
KINDS = (NONE, LEARNED, SINUSOIDAL)


class PositionsOptions(LabOptions):
    # Of one model for each kind, a seed that shows what most do.
    QUICK: ClassVar = {
        "seeds": 1,
        "seed": 3,
        "max_length": 8,
        "batches": 80,
        "epochs": 8,
    }

    seeds: int = option(5, "Models of each kind.", ge=1, le=64)
    seed: int = option(0, "The first of them.", ge=0)
    train_length: int = option(6, "Longest string trained on.", ge=2, le=20)
    max_length: int = option(10, "Longest string decided.", ge=3, le=24)
    d_model: int = option(8, "Width, and neurons of the MLP.", ge=2, le=64)
    batches: int = option(100, "Of 64 strings, per epoch.", ge=1, le=2000)
    epochs: int = option(12, "Of training, at most.", ge=1, le=200)
    budget: float = option(4.0, "Estimated seconds of search for each model.", gt=0, le=600)

    @model_validator(mode="after")
    def _longer(self) -> Self:
        if self.max_length <= self.train_length:
            raise ValueError(
                f"max_length = {self.max_length} must be more than train_length = "
                f"{self.train_length}: the question is what happens beyond it"
            )
        if self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, got {self.d_model}")
        return self


def leads(weights: LabeledArray) -> NDArray[np.float64]:
    """`[string head]`: the weight on the earlier of `a` and `b`, less that on the other."""
    a, b = (weights.at(letter=letter) for letter in "ab")
    signs = [1 if s.index("a") < s.index("b") else -1 for s in weights.labels["string"]]
    return np.asarray((a - b) * np.array(signs)[:, None])


class PositionsResult(LabResult):
    probe: ClassVar[str] = "positions"

    options: PositionsOptions
    wrong: LabeledArray
    """`[task kind seed length]`: the share of all strings of the length that are wrong."""
    undecided: LabeledArray
    """`[task kind seed length]`: the share that the search's budget left undecided."""
    through: LabeledArray
    """`[task kind seed]`: every string up to this length is right."""
    horizons: LabeledArray
    """`[seed]`: of the models without positions, over all lengths; inf: no error anywhere."""
    blind: LabeledArray
    """`[length]`: the least share of strings that any model blind to order gets wrong."""
    swing: LabeledArray
    """`[task kind seed]`: the largest difference of logits between two orders of one string."""
    moved: LabeledArray
    """`[position]`: how far training moved a learned position, the mean over models."""
    first_wrong: tuple[tuple[str, str, int, str], ...]
    """Task, kind, seed and the shortest string that is wrong, where there is one."""
    traced: str
    """Which model is traced: a kind and a seed."""
    logits: LabeledArray
    """`[string]`: of that model."""
    weights: LabeledArray
    """`[string head letter]`: what CLS attends to, from the trace."""
    places: LabeledArray
    """`[head letter position]`: CLS's scores for a letter, by where it stands."""

    def tables(self) -> tuple[Table, ...]:
        return (self._by_model(), self._by_length(), self._traced())

    def share(self, task: str, kind: str, length: int) -> float:
        """Wrong strings of a length, the mean over models."""
        return float(self.wrong.at(task=task, kind=kind, length=length).mean())

    def has(self, task: str, kind: str) -> bool:
        return bool(np.isfinite(self.through.at(task=task, kind=kind)).all())

    def order_head(self) -> int:
        """The head that gives most to whichever of `a` and `b` comes first, in every string."""
        return int(leads(self.weights).min(axis=0).argmax())

    def _by_model(self) -> Table:
        firsts = {(task, kind, seed): string for task, kind, seed, string in self.first_wrong}
        rows: list[tuple[Cell, ...]] = []
        for i, task in enumerate(TASKS):
            for j, kind in enumerate(KINDS):
                if not self.has(task, kind):
                    continue
                for k, seed in enumerate(map(int, self.through.labels["seed"])):
                    first = firsts.get((task, kind, seed), "none found")
                    through, swing = (a.array[i, j, k] for a in (self.through, self.swing))
                    rows.append((task, kind, seed, int(through), first, float(swing)))
        columns = ("task", "positions", "seed", "right through", "first wrong", "swing by order")
        title = f"Each model, decided to {self.options.max_length} letters"
        return Table.from_rows(title, columns, rows)

    def _by_length(self) -> Table:
        lengths = self.wrong.labels["length"]
        rows: list[tuple[Cell, ...]] = [
            (task, kind, *(self.share(task, kind, int(n)) for n in lengths))
            for task in TASKS
            for kind in KINDS
            if self.has(task, kind)
        ]
        rows.append((BEFORE, "any model blind to order, at best", *self.blind.array.tolist()))
        columns = ("task", "positions", *(f"length {n}" for n in lengths))
        return Table.from_rows("Share of strings wrong, the mean over models", columns, rows)

    def _traced(self) -> Table:
        labels = self.weights.labels
        logits = self.logits.array.tolist()
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (string, logits[i], f"head {head}", *self.weights.array[i, h].tolist())
            for i, string in enumerate(labels["string"])
            for h, head in enumerate(labels["head"])
        )
        columns = ("string", "logit", "head", *labels["letter"])
        title = f"What CLS attends to ({self.traced}, {BEFORE})"
        return Table.from_rows(title, columns, rows)
