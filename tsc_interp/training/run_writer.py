"""Writing runs so that nothing can break them, and finding out what an earlier process left.

A file appears under its name only when it is complete (temporary file, then rename), and in an
order in which a killed process leaves a run that can be resumed from its last complete epoch. What
is found damaged is moved aside, never deleted, and trained again.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tsc_interp._version import __version__
from tsc_interp.checkpoints import safe
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.run_directory import (
    FORMAT,
    FORMAT_VERSION,
    DamagedRun,
    RunDirectory,
    damaged,
    read_description,
)
from tsc_interp.checkpoints.run_records import (
    EpochMetrics,
    RunResult,
    hash_lines,
    sealed,
    write_metrics,
)
from tsc_interp.errors import CheckpointError
from tsc_interp.files import temporary_name, write_atomically
from tsc_interp.training.config import RunConfig
from tsc_interp.training.ensemble import TrainingState
from tsc_interp.training.locking import explained


@dataclass(frozen=True)
class Examined:
    """What is on disk of a run: its result, or the state it can go on from, or nothing of use."""

    result: RunResult | None = None
    state: TrainingState | None = None


class RunWriter(RunDirectory):
    """The run of a configuration and a seed, whether or not anything of it is on disk yet."""

    def __init__(self, path: Path, config: RunConfig, seed: int) -> None:
        super().__init__(path, config.key(), seed)
        self.config = config

    @classmethod
    def of(cls, runs: Path, experiment: str, config: RunConfig, seed: int) -> RunWriter:
        return cls(runs / experiment / config.key() / f"seed={seed}", config, seed)

    # -- what is there -------------------------------------------------------------------------

    def examine(self) -> Examined:
        """What an earlier process left; a `DamagedRun` if it is not what was written."""
        if not self._begun():
            return Examined()
        stored = read_description(self.path)
        if (stored["run_key"], stored["seed"]) != (self.key, self.seed):
            raise DamagedRun(f"{self.path} is damaged: config.json is that of another run or seed")
        try:
            result = self.result()
            if result is not None:
                self.checkpoint()
                # Weights that are not numbers are no checkpoint: a diverged run ends without one.
                for epoch in range(result.epochs + (not result.diverged)):
                    self._checked(epoch)
                self._tidy()
                return Examined(result=result)
            return Examined(state=self._state())
        except DamagedRun:
            raise
        except CheckpointError as error:
            raise DamagedRun(f"{self.path} is damaged: {error}") from None

    def _begun(self) -> bool:
        """Whether anything is there that counts: a process may die before its first file."""
        try:
            return any(not entry.name.startswith(".") for entry in self.path.iterdir())
        except FileNotFoundError:
            return False
        except OSError as error:
            raise damaged(self.path, self.path, error) from None

    def _state(self) -> TrainingState | None:
        """Where an unfinished run stands, or None if it has to begin at the beginning."""
        metrics, epochs = self.metrics(), self.epochs()
        if not self.resume_path.exists():
            if epochs in ([], [0], [0, 1]) and len(metrics) <= 1:
                return None  # killed before the end of the first epoch
            raise DamagedRun(f"{self.path} is damaged: {self.resume_path.name} is missing")
        epoch, mean, square = self._read_resume(metrics)
        history = {past: self._checked(past) for past in range(epoch + 1)}
        weights = history[epoch].weights
        return TrainingState(self.config, self.seed, weights, mean, square, metrics[:epoch])

    def _read_resume(
        self, metrics: tuple[EpochMetrics, ...]
    ) -> tuple[int, dict[str, safe.Array], dict[str, safe.Array]]:
        shapes = self.config.classifier.weight_shapes()
        kinds = ("mean", "square")
        with safe.opened(self.resume_path) as file:
            arrays = file.read_sealed(
                {f"{kind}.{name}": shape for kind in kinds for name, shape in shapes.items()}
            )
            metadata = {key: text for key, text in file.metadata.items() if key != "checksum"}
        epoch = metadata.get("epoch", "")
        fits = epoch.isdecimal() and metadata == self._resume_metadata(int(epoch))
        if not fits or len(metrics) < int(epoch):
            raise damaged(self.path, self.resume_path, "it does not fit config.json or the metrics")
        mean, square = ({name: arrays[f"{kind}.{name}"] for name in shapes} for kind in kinds)
        return int(epoch), mean, square

    def _resume_metadata(self, epoch: int) -> dict[str, str]:
        return {
            "run_key": self.key,
            "seed": str(self.seed),
            "epoch": str(epoch),
            "metrics_hash": hash_lines(self._metrics_content(), epoch),
        }

    # -- writing -------------------------------------------------------------------------------

    def begin(self, state: TrainingState) -> None:
        """Write what precedes the first epoch."""
        described = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tsc_interp": __version__,
            "run_key": self.key,
            "seed": self.seed,
            **self.config.to_dict(),
        }
        _write(self.path / "config.json", sealed(described))
        self._write_checkpoint(state)

    def save(self, state: TrainingState) -> None:
        """Write one epoch. Only when the last of these files is there has the epoch happened."""
        if state.ending != "diverged":  # weights that are not numbers are no checkpoint
            self._write_checkpoint(state)
        _write(self.metrics_path, write_metrics(state.metrics))
        if state.ending is None:
            arrays = {f"mean.{name}": array for name, array in state.mean.items()}
            arrays |= {f"square.{name}": array for name, array in state.square.items()}
            metadata = self._resume_metadata(state.epoch)
            _write(self.resume_path, safe.sealed_bytes(arrays, metadata))

    def finish(self, result: RunResult, chosen: Checkpoint) -> None:
        document = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "weight_hash": chosen.weight_hash(),
            "metrics_hash": hash_lines(self._metrics_content()),
            "result": json.loads(result.model_dump_json()),
        }
        _write(self.result_path, sealed(document))
        self._tidy()

    def _tidy(self) -> None:
        """A finished run needs no more; a process may die before this, or the system refuse it."""
        with suppress(OSError):
            self.resume_path.unlink(missing_ok=True)

    def adopt(self, other: RunDirectory) -> None:
        """Make this the same finished run as `other`, without the disk space where links exist."""
        with explained(self.path):
            temporary = self.path.with_name(temporary_name())
            try:
                shutil.copytree(other.path, temporary, copy_function=_link_or_copy)
                os.rename(temporary, self.path)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)

    def put_aside(self, why: str) -> Path:
        """Move what is there out of the way, under a name that says why; nothing is deleted."""
        names = (f"{why}-{self.path.name}" + (f"-{n}" if n > 1 else "") for n in count(1))
        place = next(p for name in names if not (p := self.path.with_name(name)).exists())
        with explained(self.path):
            os.rename(self.path, place)
        return place

    def _write_checkpoint(self, state: TrainingState) -> None:
        provenance = {
            "seed": self.seed,
            "epoch": state.epoch,
            "training": self.config.training.to_dict(),
            "run_key": self.key,
            "trained_by": f"tsc-interp {__version__}",
        }
        if state.metrics:
            provenance["validation_loss"] = state.metrics[-1].validation_loss
        checkpoint = Checkpoint(self.config.classifier, state.weights, provenance)
        _write(self.checkpoint_path(state.epoch), checkpoint.to_bytes())


def _write(path: Path, content: bytes) -> None:
    """Complete or not at all, for a process that may be killed; without waiting for the disk."""
    with explained(path):
        write_atomically(path, content, durable=False)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
