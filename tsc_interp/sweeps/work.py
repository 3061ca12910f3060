"""One task, wherever it runs: train an ensemble, test and verify it, write weights, then rows.

The rows are written last and a file appears only when it is complete, so an ensemble whose rows are
there is finished, and one whose worker died has left nothing that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

from tsc_interp._version import __version__
from tsc_interp.checkpoints.checkpoint import SUFFIX, Checkpoint, WeightArrays
from tsc_interp.checkpoints.shards import Member, shard_bytes, weights_folder
from tsc_interp.errors import OutputError, UsageError
from tsc_interp.files import reason, shown, write_atomically
from tsc_interp.model.threads import one_thread
from tsc_interp.sweeps import measures
from tsc_interp.sweeps.columns import options_of
from tsc_interp.sweeps.packing import Task
from tsc_interp.sweeps.tables import frame, parquet
from tsc_interp.training.ensemble import TrainingState, start, train_ensemble
from tsc_interp.training.stopping import chosen_epoch

ROWS_SUFFIX = ".parquet"


@dataclass(frozen=True)
class _Trained:
    """One model: where it started, where it ended, and the weights of its chosen epoch."""

    initial: WeightArrays
    last: TrainingState
    weights: WeightArrays
    epoch: int


def rows_folder(directory: Path) -> Path:
    return directory / "rows"


def rows_path(directory: Path, name: str) -> Path:
    return rows_folder(directory) / f"{name}{ROWS_SUFFIX}"


def weights_path(directory: Path, name: str) -> Path:
    return weights_folder(directory) / f"{name}{SUFFIX}"


def do_task(task: Task, directory: str, version: str = __version__) -> None:
    """Train, test and verify one ensemble; the results are on disk when this returns."""
    if version != __version__:
        raise UsageError(
            f"this worker has tsc-interp {__version__}, and the sweep is run by {version}; they "
            "must be the same"
        )
    place = Path(directory)
    if rows_path(place, task.name).exists() and weights_path(place, task.name).exists():
        return  # the answer was lost, not the work
    with one_thread():
        trained, seconds = _timed(_train, task)
        rows = _rows(task, trained, seconds)
    runs = [piece.config.to_dict() for piece in task.pieces]
    piece_of_each = [index for index, piece in enumerate(task.pieces) for _ in piece.rows]
    members = [
        Member(row["row"], run, row["seed"], row["chosen_epoch"])
        for row, run in zip(rows, piece_of_each, strict=True)
    ]
    content = shard_bytes(runs, members, [model.weights for model in trained])
    table = parquet(frame(rows))
    _write(weights_path(place, task.name), content)
    _write(rows_path(place, task.name), table)


def _train(task: Task) -> list[_Trained]:
    """Train every model to its end; the results are in the order of the task."""
    initial = [start(piece.config, seed) for piece in task.pieces for seed in piece.seeds]
    place = {(member.config, member.seed): index for index, member in enumerate(initial)}
    last = list(initial)
    chosen: list[WeightArrays] = [member.weights for member in initial]
    epochs = [0] * len(initial)
    for members in train_ensemble(initial):
        for member in members:
            index = place[member.config, member.seed]
            last[index] = member
            epoch = chosen_epoch([row.validation_loss for row in member.metrics])
            if epoch == member.epoch:
                chosen[index], epochs[index] = member.weights, epoch
    results = zip(initial, last, chosen, epochs, strict=True)
    return [_Trained(first.weights, end, weights, e) for first, end, weights, e in results]


def _rows(task: Task, trained: Sequence[_Trained], seconds: float) -> list[dict[str, Any]]:
    """One for each model, in the order of the task."""
    config, weights = task.pieces[0].config, [model.weights for model in trained]
    tests, tested = _timed(measures.tested, config, weights)
    shared = {"seconds_train": seconds / len(weights), "seconds_test": tested / len(weights)}
    rows, index = [], 0
    for piece in task.pieces:
        options = options_of(piece.config)
        common = {"cell": piece.label, "config_key": piece.config.key(), "shard": task.name}
        for row, seed in zip(piece.rows, piece.seeds, strict=True):
            model = trained[index]
            checkpoint = Checkpoint(piece.config.classifier, model.weights)
            rows.append(
                {
                    "row": row, "seed": seed, **options, **common, **shared,
                    "weight_hash": checkpoint.weight_hash(),
                    **_training_row(model), **tests[index],
                    **measures.verified(checkpoint, task.options),
                    **measures.norms(model.weights, "norm_"),
                    **measures.norms(model.initial, "initial_norm_"),
                }
            )  # fmt: skip
            index += 1
    return rows


def _training_row(model: _Trained) -> dict[str, Any]:
    chosen = model.last.metrics[model.epoch - 1] if model.epoch else None
    return {
        "ending": model.last.ending,
        "epochs": model.last.epoch,
        "chosen_epoch": model.epoch,
        "train_loss": chosen.train_loss if chosen else None,
        "validation_loss": chosen.validation_loss if chosen else None,
    }


def _timed(function: Any, *arguments: Any) -> tuple[Any, float]:
    started = process_time()
    return function(*arguments), process_time() - started


def _write(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        raise OutputError(
            f"cannot write {shown(path)}: {reason(error)}; finished ensembles are kept, and the "
            "same command goes on from there"
        ) from None
