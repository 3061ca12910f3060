"""Logits and labels of given strings, without hooks: torch is needed, TransformerLens is not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.strings import as_strings


@dataclass(frozen=True)
class Evaluation:
    """What the model says about one string, and what is true of it."""

    string: str
    length: int
    counts: dict[str, int]
    logit: float
    probability: float
    prediction: int
    label: int

    @property
    def correct(self) -> bool:
        return self.prediction == self.label

    @property
    def margin(self) -> float:
        """How far the logit is on the right side of zero; negative when the model is wrong."""
        return self.logit if self.label else -self.logit

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(model: ModelLike, strings: str | Iterable[str]) -> list[Evaluation]:
    """What the float32 model says of each string in run-length notation, in the order given.

    `model` is a hooked model, a checkpoint, a bundled name, a path, or a run.
    """
    checkpoint, strings = as_checkpoint(model), as_strings(strings)
    config = checkpoint.config
    counts = config.alphabet.count_matrix(strings)
    logits = logits_of_strings(checkpoint, strings)
    labels = config.task.labels(counts)
    return [
        Evaluation(
            string=string,
            length=int(row.sum()),
            counts=dict(zip(config.alphabet.letters, row.tolist(), strict=True)),
            logit=float(logit),
            probability=sigmoid(float(logit)),
            # A logit of exactly zero counts as negative.
            prediction=int(logit > 0),
            label=int(label),
        )
        for string, row, logit, label in zip(strings, counts, logits, labels, strict=True)
    ]


def sigmoid(x: float) -> float:
    """Accurate at both ends: a logit of -40 keeps its digits."""
    decay = math.exp(-abs(x))
    return (1.0 if x >= 0 else decay) / (1.0 + decay)


def logits_of_strings(checkpoint: Checkpoint, strings: Sequence[str]) -> NDArray[np.float64]:
    """One logit per string, from the float32 model."""
    import torch

    from tsc_interp.model.forward import forward
    from tsc_interp.model.inputs import from_strings

    weights = {name: torch.from_numpy(array) for name, array in checkpoint.weights.items()}
    with torch.no_grad():
        logits = forward(checkpoint.config, weights, from_strings(checkpoint.config, strings))
    return logits.double().numpy()
