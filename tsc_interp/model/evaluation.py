"""Logits and labels of given strings, without hooks: torch is needed, TransformerLens is not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.output.display import table
from tsc_interp.strings import Counts, as_strings
from tsc_interp.tasks.base import Classes

_BATCH = 4096
"""Strings at once: bounds the memory, whatever the model's width."""


@dataclass(frozen=True)
class Evaluation:
    """The model's answer to one string, and the right answer."""

    string: str
    length: int
    counts: dict[str, int]
    logit: float
    """The one output; of several, the largest."""
    probability: float
    """Of class 1; of several outputs, the largest one's."""
    prediction: int
    label: int
    logits: tuple[float, ...] = ()
    """Every output, where there are several."""

    @property
    def correct(self) -> bool:
        """A logit that is not a number is no answer, whatever the label."""
        logits = self.logits or (self.logit,)
        return self.prediction == self.label and not any(map(math.isnan, logits))

    @property
    def margin(self) -> float:
        """How far the logit is on the right side of zero; negative if the model is wrong.

        For several outputs, the label's output minus the largest of the others.
        """
        if not self.logits:
            return self.logit if self.label else -self.logit
        others = [logit for index, logit in enumerate(self.logits) if index != self.label]
        return self.logits[self.label] - max(others)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON types."""
        fields = asdict(self)
        if not self.logits:
            del fields["logits"]
        return fields


class Evaluations(list[Evaluation]):
    """A list of evaluations that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        columns = ["string", "length", "logit", "answer", "label", ""]
        rows = [
            [row.string, row.length, row.logit, row.prediction, row.label,
             "" if row.correct else "wrong"]
            for row in self
        ]  # fmt: skip
        return table(columns, rows)


@checked
def evaluate(
    model: ModelLike, strings: str | Iterable[str], *, frame: FrameLike | None = None
) -> Evaluations:
    """Return the float32 model's answer to each string, beside the right one.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        strings: One or more strings in run-length notation. For a model with a frame, the letters
            at its places, or whole rows; names of tokens are separated by spaces.
        frame: The format of the inputs (`tsc.Frame`), for a model that was imported without one.

    Returns:
        One evaluation per string, in the order given. A multiclass model answers with its largest
        output; ties go to the first.

    Raises:
        StringError: A string has letters that the model does not read.

    Example:
        >>> for said in evaluate("generalization-errors", ["baac", "ab{100}"]):
        ...     print(said.string, round(said.logit, 2), said.correct)
        baac 19.94 True
        ab{100} -1.97 False
    """
    checkpoint, strings = as_checkpoint(with_frame(model, frame)), as_strings(strings)
    results = Evaluations()
    for start in range(0, len(strings), _BATCH):
        results += _batch(checkpoint, strings[start : start + _BATCH])
    return results


def _batch(checkpoint: Checkpoint, strings: Sequence[str]) -> list[Evaluation]:
    config = checkpoint.config
    logits, counts, labels = _logits_counts_and_classes(checkpoint, strings)
    letters = config.alphabet.letters
    answer = _one_output if config.n_outputs == 1 else _several_outputs
    return [
        Evaluation(
            string=string,
            length=sum(row),
            counts=dict(zip(letters, row, strict=True)),
            label=label,
            **answer(output),
        )
        for string, row, output, label in zip(
            strings, counts.tolist(), logits.tolist(), labels.tolist(), strict=True
        )
    ]


def _one_output(logit: float) -> dict[str, Any]:
    # A logit of exactly zero counts as negative.
    return {"logit": logit, "probability": sigmoid(logit), "prediction": int(logit > 0)}


def _several_outputs(logits: list[float]) -> dict[str, Any]:
    known = [-math.inf if math.isnan(logit) else logit for logit in logits]
    largest = max(known)
    # NaN where the largest is infinite: such outputs have no shares.
    total = sum(math.exp(logit - largest) for logit in known)
    return {
        "logit": largest,
        "probability": 1.0 / total,
        "prediction": known.index(largest),
        "logits": tuple(logits),
    }


def sigmoid(x: float) -> float:
    """Accurate at both ends: a logit of -40 keeps its digits."""
    decay = math.exp(-abs(x))
    return (1.0 if x >= 0 else decay) / (1.0 + decay)


def _logits_counts_and_classes(
    checkpoint: Checkpoint, strings: Sequence[str]
) -> tuple[NDArray[np.float64], Counts, Classes]:
    """Of each string: the float32 model's outputs, how many of each letter it has, its class."""
    import torch

    from tsc_interp.model.forward import forward
    from tsc_interp.model.inputs import from_strings, letter_counts, true_classes

    config = checkpoint.config
    weights = {name: torch.from_numpy(array) for name, array in checkpoint.weights.items()}
    inputs = from_strings(config, strings)
    with torch.no_grad():
        logits = forward(config, weights, inputs)
    return logits.double().numpy(), letter_counts(config, inputs), true_classes(config, inputs)
