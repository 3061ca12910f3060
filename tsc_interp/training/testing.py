"""A whole ensemble on the test set: confusion matrices, and which strings each model gets wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.checkpoints.format import WeightArrays
from tsc_interp.checkpoints.run_records import TestResult
from tsc_interp.strings import Alphabet, Counts
from tsc_interp.task import Labels
from tsc_interp.training.config import RunConfig
from tsc_interp.training.engine import batches, engine_for, shape_of
from tsc_interp.training.losses import loss_named

# Strings evaluated at once: large enough that calls cost nothing, small enough for 1,000 models.
_AT_ONCE = 1024


def evaluate_ensemble(config: RunConfig, many: Sequence[WeightArrays]) -> list[TestResult]:
    """Models of one shape on the configuration's test set, in count space where that is exact."""
    engine = engine_for(shape_of(config.classifier), loss_named(config.training.loss))
    source = config.training.test
    parameters = engine.pack(many)
    predicted = np.concatenate(
        [
            engine.logits(parameters, strings) > 0
            for strings, _ in batches(engine, source, 0, _AT_ONCE)
        ],
        axis=1,
    )
    counts = source.epoch(config.classifier, 0)
    labels = config.classifier.task.labels(counts)
    return [_result(config.classifier.alphabet, counts, labels, row) for row in predicted]


def _result(alphabet: Alphabet, counts: Counts, labels: Labels, predicted: Labels) -> TestResult:
    matrix = tuple(
        tuple(int(((labels == label) & (predicted == guess)).sum()) for guess in (False, True))
        for label in (False, True)
    )
    wrong = np.unique(counts[labels != predicted], axis=0)
    strings = {alphabet.write(row): int(row.sum()) for row in wrong}
    return TestResult(
        confusion_matrix=matrix,  # type: ignore[arg-type]
        misclassified=tuple(sorted(strings, key=lambda string: (strings[string], string))),
    )
