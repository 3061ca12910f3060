"""A run on disk, for all who read one: the only place that knows the layout.

    <runs>/<experiment>/<run key>/seed=5/
      config.json                          what was trained: run key, seed, every option
      metrics.jsonl                        a line per epoch
      checkpoints/epoch=000.safetensors    the initial weights, then every epoch's
      resume.safetensors                   the optimiser's state; gone when the run is finished
      result.json                          written last: its presence means finished

Nothing is believed because of where it lies. Each file says which run, seed and epoch it belongs to
and carries a checksum; the result also knows the hashes of the weights it is about and of the
metrics. What does not fit is a `DamagedRun`, and says what.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

from tsc_interp.checkpoints.checkpoint import SUFFIX, Checkpoint, read_checkpoint
from tsc_interp.checkpoints.run_records import (
    EpochMetrics,
    RunResult,
    hash_lines,
    parsed,
    run_key,
    unsealed,
)
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, ConfigError, UsageError, shorten
from tsc_interp.files import read_regular, reason, shown

FORMAT = "tsc-interp/run"
FORMAT_VERSION = 2
DEFAULT_RUNS = Path("runs")

_MAX_BYTES = 100_000_000
_EPOCH = re.compile(rf"epoch=(\d{{3,6}}){re.escape(SUFFIX)}")


class RunError(CheckpointError):
    """A run that cannot be read or written."""


class DamagedRun(RunError):
    """A run whose files are not, or not all, what was written."""


class RunDirectory:
    """One run on disk: `RunDirectory.open(path)`."""

    def __init__(self, path: Path, key: str, seed: int) -> None:
        self.path, self.key, self.seed = path, key, seed
        self.result_path, self.metrics_path = path / "result.json", path / "metrics.jsonl"
        self.resume_path = path / f"resume{SUFFIX}"
        """The state from which a killed run resumes."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The run in a directory, its description checked; a `RunError` if there is none."""
        path = Path(path)
        stored = read_description(path)
        return cls(path, stored["run_key"], stored["seed"])

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return self.path.absolute().parent.parent.name

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """Everything that was trained with, as in `config.json`: `classifier` and `training`."""
        stored = read_description(self.path)
        return {part: stored[part] for part in ("classifier", "training")}

    @cached_property
    def classifier(self) -> ClassifierConfig:
        """The configuration of the classifier."""
        try:
            return ClassifierConfig.from_dict(self.options["classifier"])
        except ConfigError as error:
            raise RunError(f"{shown(self.path)}: {error}") from None

    # -- files ---------------------------------------------------------------------------------

    def checkpoint_path(self, epoch: int) -> Path:
        """Return the path of the weights of an epoch."""
        return self.path / "checkpoints" / f"epoch={epoch:03d}{SUFFIX}"

    def epochs(self) -> list[int]:
        """The epochs of which a checkpoint is there, by its name; other names are not looked at."""
        try:
            names = [file.name for file in (self.path / "checkpoints").iterdir()]
        except OSError:
            return []
        matches = [match for name in names if (match := _EPOCH.fullmatch(name))]
        epochs = {int(match[1]) for match in matches}
        return sorted(epoch for epoch in epochs if self.checkpoint_path(epoch).name in names)

    # -- content -------------------------------------------------------------------------------

    def metrics(self) -> tuple[EpochMetrics, ...]:
        """A row per epoch; none before the first one has ended."""
        try:
            lines = self._metrics_content().splitlines()
            return tuple(EpochMetrics.model_validate_json(line) for line in lines)
        except ValueError as error:
            raise self._damaged(self.metrics_path, error) from None

    def result(self) -> RunResult | None:
        """How the run ended, or None if it has not; whether the weights fit is not looked at."""
        return stored.result if (stored := self._stored_result()) else None

    def checkpoint(self, epoch: int | None = None) -> Checkpoint:
        """One epoch's weights; without a number, those of the epoch the run chose."""
        expected_hash = None
        if epoch is None:
            stored = self._stored_result()
            if stored is None:
                raise RunError(
                    f"{shown(self.path)} is not finished, so no epoch is chosen yet; name one "
                    "with --epoch (in Python: epoch=)"
                )
            epoch, expected_hash = stored.result.chosen_epoch, stored.weight_hash
        elif epoch not in (present := self.epochs()):
            there = f"has epochs {present[0]} to {present[-1]}" if present else "has no epochs"
            raise UsageError(f"{shown(self.path)} {there}; there is no epoch {epoch}")
        checkpoint = self._checked(epoch)
        if expected_hash not in (None, checkpoint.weight_hash()):
            raise self._damaged(
                self.checkpoint_path(epoch), "these are not the weights the result is about"
            )
        return checkpoint

    def history(self) -> dict[int, Checkpoint]:
        """Every epoch that was kept."""
        return {epoch: self._checked(epoch) for epoch in self.epochs()}

    # -- checks --------------------------------------------------------------------------------

    def _checked(self, epoch: int) -> Checkpoint:
        """The checkpoint of an epoch, if it says that it is that."""
        checkpoint = read_checkpoint(self.checkpoint_path(epoch))
        expected = {"run_key": self.key, "seed": self.seed, "epoch": epoch}
        for name, value in expected.items():
            stated = checkpoint.provenance.get(name)
            if stated != value:
                raise self._damaged(
                    self.checkpoint_path(epoch), f"{name} is {shorten(stated)}, expected {value!r}"
                )
        return checkpoint

    def _metrics_content(self) -> bytes:
        try:
            return read_regular(self.metrics_path, _MAX_BYTES)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self._damaged(self.metrics_path, error) from None

    def _stored_result(self) -> _StoredResult | None:
        try:
            document = unsealed(read_regular(self.result_path, _MAX_BYTES))
            stored = _StoredResult(
                RunResult.model_validate(document["result"]),
                weight_hash=str(document["weight_hash"]),
                metrics_hash=str(document["metrics_hash"]),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError) as error:
            raise self._damaged(self.result_path, error) from None
        if (stored.result.run_key, stored.result.seed) != (self.key, self.seed):
            raise self._damaged(self.result_path, "it is the result of another seed or run")
        if hash_lines(self._metrics_content()) != stored.metrics_hash:
            raise self._damaged(self.metrics_path, "these are not the metrics the result is about")
        return stored

    def _damaged(self, path: Path, error: Exception | str) -> DamagedRun:
        return damaged(self.path, path, error)


class _StoredResult(NamedTuple):
    result: RunResult
    weight_hash: str
    metrics_hash: str


def read_description(path: Path) -> dict[str, Any]:
    """A run's `config.json`: whole, of a version we read, and with the key of its own options."""
    file = path / "config.json"
    try:
        content = read_regular(file, _MAX_BYTES)
        stored = parsed(content)
        version = stored.get("format_version")
        if stored.get("format") == FORMAT and type(version) is int and version != FORMAT_VERSION:
            raise RunError(
                f"{shown(path)} holds a run of format version {shorten(version)}; this tsc-interp "
                f"reads and writes version {FORMAT_VERSION}; choose another directory with --runs"
            )
        stored = unsealed(content)
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedRun(f"{shown(path)} is not a run directory: no config.json in it") from None
    except (OSError, ValueError) as error:
        raise damaged(path, file, error) from None
    parts = {part: stored.get(part) for part in ("classifier", "training")}
    if stored.get("run_key") != run_key(parts) or type(stored.get("seed")) is not int:
        raise damaged(path, file, "its run key is not that of its options")
    return stored


def damaged(run: Path, file: Path, error: Exception | str) -> DamagedRun:
    if isinstance(error, ValidationError):
        error = f"{error.error_count()} fields are not as expected"
    elif isinstance(error, Exception):
        error = reason(error)
    return DamagedRun(f"{shown(run)} is damaged: {file.name}: {error}")


def run_of(source: str | os.PathLike[str]) -> tuple[Path, int] | None:
    """The run directory and the epoch behind a checkpoint's path, or None if it is not a run's."""
    path = Path(source)
    match = _EPOCH.fullmatch(path.name)
    if match is None or path.parent.name != "checkpoints":
        return None
    return path.parent.parent, int(match[1])
