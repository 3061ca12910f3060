"""A whole ensemble on the test set: confusion matrices, and which strings each model gets wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import WeightArrays
from tsc_interp.checkpoints.run_records import TestResult
from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import counts_of_tokens, letters_of_tokens
from tsc_interp.tasks.base import Classes
from tsc_interp.training.config import RunConfig
from tsc_interp.training.engine import Engine, batches, engine_for, labelled, shape_of
from tsc_interp.training.losses import loss_named

# Strings evaluated at once: large enough that calls cost nothing, small enough for 1,000 models.
_AT_ONCE = 1024


@dataclass(frozen=True)
class Answered:
    """What models of one shape say to the strings of a test set."""

    engine: Engine
    strings: NDArray[np.int64]
    """Tokens, or counts where that is exact."""
    classes: Classes
    """Of each string, the right one."""
    answers: Classes
    """`[model string]`."""
    least: NDArray[np.float32]
    """`[model]`: how far the right answer is ahead at the worst of the strings."""


def answered(config: RunConfig, many: Sequence[WeightArrays]) -> Answered:
    """Ask every model of an ensemble about the configuration's test set."""
    outputs, source = config.classifier.n_outputs, config.training.test
    engine = engine_for(shape_of(config.classifier), loss_named(config.training.loss, outputs))
    parameters = engine.pack(many)
    strings, classes = labelled(engine, source, 0)
    said, least, start = [], [], 0
    for batch, labels in batches(engine, source, 0, _AT_ONCE):
        logits, own = engine.logits(parameters, batch), classes[start : start + len(labels)]
        said.append(answers(logits, outputs))
        least.append(ahead(logits, own, outputs).min(axis=1))
        start += len(labels)
    worst = np.min(least, axis=0)
    return Answered(engine, strings, classes, np.concatenate(said, axis=1), worst)


def evaluate_ensemble(config: RunConfig, many: Sequence[WeightArrays]) -> list[TestResult]:
    """Return each model's confusion matrix, and the strings that it gets wrong."""
    found = answered(config, many)
    sides = range(max(config.classifier.n_outputs, 2))
    return [
        TestResult(
            confusion_matrix=tuple(
                tuple(int(((found.classes == label) & (row == answer)).sum()) for answer in sides)
                for label in sides
            ),
            misclassified=_written(found.engine, found.strings[found.classes != row]),
        )
        for row in found.answers
    ]


def answers(logits: NDArray[np.float32], outputs: int) -> Classes:
    """The class of each string: the sign of one output, or the first of the largest ones.

    NaN counts as the lowest.
    """
    if outputs == 1:
        return (logits > 0).astype(np.int64)
    return np.asarray(np.where(np.isnan(logits), -np.inf, logits).argmax(axis=-1))


def ahead(
    logits: NDArray[np.floating[Any]], classes: Classes, outputs: int
) -> NDArray[np.floating[Any]]:
    """How far the right class of each string leads the largest other; of one output, ±logit."""
    if outputs == 1:
        return np.where(classes > 0, logits, -logits)
    right = np.arange(outputs) == classes[..., None]
    own = np.where(right, logits, -np.inf).max(axis=-1)
    others = np.where(right, -np.inf, logits).max(axis=-1)
    return np.asarray(own - others)


def _written(engine: Engine, strings: NDArray[np.int64]) -> tuple[str, ...]:
    """Each string once, shorter ones first: in its own order where the model sees it."""
    config: ClassifierConfig = engine.config
    if engine.uses_tokens and config.needs_order:
        letters = letters_of_tokens(np.unique(strings, axis=0))
        texts = ["".join(config.alphabet.letters[i] for i in row if i >= 0) for row in letters]
        lengths = {config.alphabet.canonical(text): len(text) for text in texts}
    else:
        counts = counts_of_tokens(strings, config.n_letters) if engine.uses_tokens else strings
        rows = np.unique(counts, axis=0)
        lengths = {config.alphabet.write(row): int(row.sum()) for row in rows}
    return tuple(sorted(lengths, key=lambda string: (lengths[string], string)))
