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
    """Everything that is to be known of one ensemble, on disk when this returns."""
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
    content = shard_bytes(runs, members, [one.weights for one in trained])
    table = parquet(frame(rows))
    _write(weights_path(place, task.name), content)
    _write(rows_path(place, task.name), table)


def _train(task: Task) -> list[_Trained]:
    """Every model to its end, in the order of the task."""
    initial = [start(piece.config, seed) for piece in task.pieces for seed in piece.seeds]
    place = {(member.config, member.seed): index for index, member in enumerate(initial)}
    last = list(initial)
    kept: list[WeightArrays] = [member.weights for member in initial]
    epochs = [0] * len(initial)
    for members in train_ensemble(initial):
        for member in members:
            index = place[member.config, member.seed]
            last[index] = member
            epoch = chosen_epoch([row.validation_loss for row in member.metrics])
            if epoch == member.epoch:
                kept[index], epochs[index] = member.weights, epoch
    found = zip(initial, last, kept, epochs, strict=True)
    return [_Trained(first.weights, end, weights, e) for first, end, weights, e in found]


def _rows(task: Task, trained: Sequence[_Trained], seconds: float) -> list[dict[str, Any]]:
    """One for each model, in the order of the task."""
    config, many = task.pieces[0].config, [one.weights for one in trained]
    tests, tested = _timed(measures.tested, config, many)
    heads = measures.heads(config.classifier, many)
    shared = {"seconds_train": seconds / len(many), "seconds_test": tested / len(many)}
    rows, index = [], 0
    for piece in task.pieces:
        options = options_of(piece.config)
        common = {"cell": piece.label, "config_key": piece.config.key(), "shard": task.name}
        for row, seed in zip(piece.rows, piece.seeds, strict=True):
            one = trained[index]
            checkpoint = Checkpoint(piece.config.classifier, one.weights)
            rows.append(
                {
                    "row": row, "seed": seed, **options, **common, **shared,
                    "weight_hash": checkpoint.weight_hash(),
                    **_training_row(one), **tests[index], **heads[index],
                    **measures.verified(checkpoint, task.options),
                    **measures.norms(one.weights, "norm_"),
                    **measures.norms(one.initial, "initial_norm_"),
                }
            )  # fmt: skip
            index += 1
    return rows


def _training_row(one: _Trained) -> dict[str, Any]:
    chosen = one.last.metrics[one.epoch - 1] if one.epoch else None
    return {
        "ending": one.last.ending,
        "epochs": one.last.epoch,
        "chosen_epoch": one.epoch,
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
