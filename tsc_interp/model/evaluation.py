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
from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import Counts, as_strings

_BATCH = 4096
"""Strings at once: bounds the memory, whatever the model's width."""


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
        """A logit that is not a number is no answer, whatever the label."""
        return self.prediction == self.label and not math.isnan(self.logit)

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
    results: list[Evaluation] = []
    for start in range(0, len(strings), _BATCH):
        results += _batch(checkpoint, strings[start : start + _BATCH])
    return results


def _batch(checkpoint: Checkpoint, strings: Sequence[str]) -> list[Evaluation]:
    config = checkpoint.config
    if config.n_outputs > 1:
        raise UnsupportedError(
            f"this model has {config.n_outputs} outputs, and an answer here is the sign of one; "
            "tsc.load(model)(strings) gives all of them"
        )
    logits, counts = _logits_and_counts(checkpoint, strings)
    labels = config.classes(strings)
    letters = config.alphabet.letters
    return [
        Evaluation(
            string=string,
            length=sum(row),
            counts=dict(zip(letters, row, strict=True)),
            logit=logit,
            probability=sigmoid(logit),
            # A logit of exactly zero counts as negative.
            prediction=int(logit > 0),
            label=int(label),
        )
        for string, row, logit, label in zip(
            strings, counts.tolist(), logits.tolist(), labels.tolist(), strict=True
        )
    ]


def sigmoid(x: float) -> float:
    """Accurate at both ends: a logit of -40 keeps its digits."""
    decay = math.exp(-abs(x))
    return (1.0 if x >= 0 else decay) / (1.0 + decay)


def _logits_and_counts(
    checkpoint: Checkpoint, strings: Sequence[str]
) -> tuple[NDArray[np.float64], Counts]:
    """One logit per string, from the float32 model, and how many of each letter it has."""
    import torch

    from tsc_interp.model.forward import forward
    from tsc_interp.model.inputs import from_strings, letter_counts

    config = checkpoint.config
    weights = {name: torch.from_numpy(array) for name, array in checkpoint.weights.items()}
    inputs = from_strings(config, strings)
    with torch.no_grad():
        logits = forward(config, weights, inputs)
    return logits.double().numpy(), letter_counts(config, inputs)
