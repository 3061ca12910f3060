"""Run directories with given weights: as training would write them, without training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tsc_interp.checkpoints import Checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory
from tsc_interp.checkpoints.run_records import EpochMetrics, RunResult, TestResult, write_metrics
from tsc_interp.training.config import RunConfig
from tsc_interp.training.ensemble import TrainingState
from tsc_interp.training.run_writer import RunWriter


def write_run(
    path: Path,
    epochs: Mapping[int, Checkpoint],
    *,
    seed: int = 4,
    chosen: int | None = None,
    with_metrics: bool = True,
) -> RunDirectory:
    """Epoch e has losses 9/e and 4/e; without `chosen` the run is not finished."""
    config = RunConfig(classifier=next(iter(epochs.values())).config)
    writer = RunWriter(path, config, seed)
    rows = tuple(
        EpochMetrics(epoch=e, learning_rate=0.01, train_loss=9.0 / e, validation_loss=4.0 / e)
        for e in range(1, max(epochs) + 1)
    )
    first = epochs.get(0, next(iter(epochs.values())))
    writer.begin(TrainingState(config, seed, first.weights, {}, {}))
    for epoch, checkpoint in epochs.items():
        state = TrainingState(config, seed, checkpoint.weights, {}, {}, rows[:epoch])
        writer._write_checkpoint(state)
    if with_metrics:
        writer.metrics_path.write_bytes(write_metrics(rows))
    if chosen is not None:
        test = TestResult(confusion_matrix=((5, 1), (2, 4)), misclassified=("ab{9}",))
        result = RunResult(
            seed=seed,
            run_key=config.key(),
            ending="last_epoch",
            epochs=max(epochs),
            chosen_epoch=chosen,
            validation_loss=4.0 / chosen,
            test=test,
        )
        writer.finish(result, writer.checkpoint(chosen))
    return RunDirectory.open(path)
