"""The weights of a sweep: one safetensors file per ensemble, each weight stacked over its models.

    sweeps/width/weights/000000128-000000255-9f2c....safetensors

A file's name begins with its first and last row, so that a row is found without a database. The
metadata name each model's row, seed, epoch and run configuration, with a hash over all of it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tsc_interp._version import __version__
from tsc_interp.checkpoints import safe
from tsc_interp.checkpoints.checkpoint import SUFFIX, Checkpoint, WeightArrays
from tsc_interp.checkpoints.run_records import run_key
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, ConfigError, UsageError
from tsc_interp.files import entries, shown

FORMAT = "tsc-interp/sweep-weights"
FORMAT_VERSION = 1
DESCRIPTION = "sweep.json"
DEFAULT_SWEEPS = Path("sweeps")

_NAME = re.compile(rf"(\d{{9}})-(\d{{9}})-[0-9a-f]{{16}}{re.escape(SUFFIX)}")


@dataclass(frozen=True)
class Member:
    """One model of an ensemble."""

    row: int
    run: int
    """Which of the ensemble's configurations is its own."""
    seed: int
    epoch: int


def weights_folder(directory: Path) -> Path:
    return directory / "weights"


def shard_bytes(
    runs: Sequence[Mapping[str, Any]], members: Sequence[Member], many: Sequence[WeightArrays]
) -> bytes:
    """The content of a file. `runs` are configurations: `{"classifier": ..., "training": ...}`."""
    stacked = {name: np.stack([weights[name] for weights in many]) for name in many[0]}
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "tsc_interp": __version__,
        "runs": json.dumps(runs, sort_keys=True),
        "members": json.dumps([[m.row, m.run, m.seed, m.epoch] for m in members]),
    }
    return safe.sealed_bytes(stacked, metadata)


def is_sweep(directory: str | os.PathLike[str]) -> bool:
    try:
        return (Path(directory) / DESCRIPTION).is_file()
    except (OSError, ValueError):  # a name that no directory can have
        return False


def find_sweep(name: str) -> Path | None:
    """The directory of a sweep: as it is named, or of that name in `sweeps`."""
    return next((place for place in (Path(name), DEFAULT_SWEEPS / name) if is_sweep(place)), None)


def all_sweeps() -> list[Path]:
    """Every sweep in `sweeps`."""
    places = entries(DEFAULT_SWEEPS, CheckpointError)
    return [Path(place) for place in places if is_sweep(place)]


def row_checkpoint(directory: str | os.PathLike[str], row: int) -> Checkpoint:
    """The model of one row of a sweep."""
    directory = Path(directory)
    for path, first, last in _shards(directory):
        if first <= row <= last:
            checkpoint = _read(directory, path, row)
            if checkpoint is not None:
                return checkpoint
    raise UsageError(
        f"{shown(directory)} has no row {row} yet; 'tsc-interp runs {shown(directory)}' lists the "
        "rows that are there, and running the sweep again makes what is missing"
    )


def _shards(directory: Path) -> Iterator[tuple[Path, int, int]]:
    for entry in entries(weights_folder(directory), CheckpointError):
        if match := _NAME.fullmatch(entry.name):
            yield Path(entry), int(match[1]), int(match[2])


def _read(directory: Path, path: Path, row: int) -> Checkpoint | None:
    """A row's model, or None if the file is not the one that has it."""
    with safe.opened(path) as file:
        metadata = file.metadata
        _check_format(metadata)
        members = [Member(*fields) for fields in json.loads(metadata["members"])]
        index = next((i for i, member in enumerate(members) if member.row == row), None)
        if index is None:
            return None
        run = json.loads(metadata["runs"])[members[index].run]
        config = _config(run)
        shapes = config.weight_shapes()
        stacked = file.read_sealed({name: (len(members), *shapes[name]) for name in shapes})
    member = members[index]
    provenance = {
        "seed": member.seed,
        "epoch": member.epoch,
        "training": run["training"],
        "run_key": run_key(run),
        "trained_by": f"tsc-interp {metadata['tsc_interp']}",
        "sweep_row": row,
    }
    weights = {name: np.ascontiguousarray(array[index]) for name, array in stacked.items()}
    return Checkpoint(config, weights, provenance, source=f"{directory}:{row}")


def _check_format(metadata: Mapping[str, str]) -> None:
    version = metadata.get("format"), metadata.get("format_version")
    if version != (FORMAT, str(FORMAT_VERSION)):
        raise CheckpointError(
            f"these are not a sweep's weights of version {FORMAT_VERSION}; it says it is "
            f"{shown(str(version[0]))} {shown(str(version[1]))}"
        )


def _config(run: Mapping[str, Any]) -> ClassifierConfig:
    try:
        return ClassifierConfig.from_dict(run["classifier"])
    except ConfigError as error:
        raise CheckpointError(f"the stored configuration cannot be used: {error}") from None
