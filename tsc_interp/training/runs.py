"""Runs on disk: what is there, what is missing, and writing it so that nothing can break it.

    <runs>/<experiment>/<config key>/seed=5/
      config.json                          what was trained, and the format's version
      metrics.jsonl                        a line per epoch
      checkpoints/epoch=000.safetensors    the initial weights, then every epoch's
      resume.safetensors                   the optimiser's state; gone when the run is finished
      result.json                          written last: its presence means finished

A file appears under its name only when it is complete (temporary file, then rename), and in an
order in which a killed process leaves a run that can be resumed from its last complete epoch. A
lock per configuration makes a second process wait and then find the work done.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from tsc_interp._version import __version__
from tsc_interp.checkpoints.format import SUFFIX, Checkpoint, read_checkpoint
from tsc_interp.errors import CheckpointError, TscError
from tsc_interp.files import temporary_name, write_atomically
from tsc_interp.training.config import RunConfig
from tsc_interp.training.ensemble import EpochMetrics, Progress
from tsc_interp.training.stopping import Verdict
from tsc_interp.training.testing import TestResult

FORMAT = "tsc-interp/run"
FORMAT_VERSION = 1


class RunError(TscError):
    """A run that cannot be read or written."""


class RunResult(BaseModel):
    """A finished run: how it ended, which epoch it keeps, and how that one did on the test set."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    seed: int
    config_key: str
    verdict: Verdict
    epochs: int
    chosen_epoch: int
    validation_loss: float
    """The chosen epoch's; NaN if no epoch had a finite one."""
    test: TestResult


class RunDirectory:
    """One run on disk."""

    def __init__(self, path: Path, config: RunConfig, seed: int) -> None:
        self.path, self.config, self.seed = path, config, seed

    @classmethod
    def of(cls, runs: Path, experiment: str, config: RunConfig, seed: int) -> RunDirectory:
        return cls(runs / experiment / config.key() / f"seed={seed}", config, seed)

    def checkpoint_path(self, epoch: int) -> Path:
        return self.path / "checkpoints" / f"epoch={epoch:03d}{SUFFIX}"

    # -- reading -----------------------------------------------------------------------------

    def result(self) -> RunResult | None:
        """The finished run, or None if it is not there or not whole."""
        self._check_format()
        try:
            stored = json.loads((self.path / "result.json").read_text())
            result = RunResult.model_validate(stored["result"])
            read_checkpoint(self.checkpoint_path(result.chosen_epoch))
        except (OSError, ValueError, KeyError, TypeError, CheckpointError):
            return None
        return result

    def metrics(self) -> tuple[EpochMetrics, ...]:
        """Typed rows of `metrics.jsonl`."""
        try:
            lines = (self.path / "metrics.jsonl").read_text().splitlines()
            return tuple(EpochMetrics.model_validate_json(line) for line in lines)
        except (OSError, ValidationError):
            return ()

    def checkpoint(self, epoch: int | None = None) -> Checkpoint:
        """One epoch's weights; without a number, the chosen epoch's."""
        if epoch is None:
            result = self.result()
            if result is None:
                raise RunError(f"{self.path} is not finished, so no epoch is chosen yet; name one")
            epoch = result.chosen_epoch
        return read_checkpoint(self.checkpoint_path(epoch))

    def progress(self) -> Progress | None:
        """Where an unfinished run stands, or None if it has to begin at the beginning."""
        self._check_format()
        try:
            with safe_open(self.path / "resume.safetensors", framework="np") as file:
                epoch = int((file.metadata() or {})["epoch"])
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            weights = read_checkpoint(self.checkpoint_path(epoch)).weights
            read_checkpoint(self.checkpoint_path(0))
        except (OSError, SafetensorError, ValueError, KeyError, CheckpointError):
            return None
        metrics = self.metrics()[:epoch]
        names = [f"{kind}.{name}" for kind in ("mean", "square") for name in weights]
        if len(metrics) < epoch or set(names) != state.keys():
            return None
        mean, square = (
            {name: state[f"{kind}.{name}"] for name in weights} for kind in ("mean", "square")
        )
        return Progress(self.config, self.seed, weights, mean, square, metrics)

    def _check_format(self) -> None:
        path = self.path / "config.json"
        try:
            stored = json.loads(path.read_text())
            version = stored["format_version"] if stored["format"] == FORMAT else None
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} cannot be read ({error}); move the directory away") from None
        if version != FORMAT_VERSION:
            raise RunError(
                f"{self.path} holds a run of format version {version!r}; this tsc-interp reads and "
                f"writes version {FORMAT_VERSION}; choose another directory with --runs"
            )

    # -- writing -----------------------------------------------------------------------------

    def begin(self, progress: Progress) -> None:
        """Write what precedes the first epoch."""
        (self.path / "result.json").unlink(missing_ok=True)
        self._write_checkpoint(progress)
        described = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tsc_interp": __version__,
            "seed": self.seed,
            **self.config.to_dict(),
        }
        _write(self.path / "config.json", _json_bytes(described))

    def save(self, progress: Progress) -> None:
        """Write one epoch. Only when the last of these files is there has the epoch happened."""
        if progress.verdict != "diverged":  # weights that are not numbers are no checkpoint
            self._write_checkpoint(progress)
        rows = "".join(f"{row.model_dump_json()}\n" for row in progress.metrics)
        _write(self.path / "metrics.jsonl", rows.encode())
        if progress.verdict is None:
            state = {f"mean.{name}": array for name, array in progress.mean.items()}
            state |= {f"square.{name}": array for name, array in progress.square.items()}
            content = to_safetensors(state, metadata={"epoch": str(progress.epoch)})
            _write(self.path / "resume.safetensors", content)

    def finish(self, result: RunResult) -> None:
        flat = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "chosen_epoch": result.chosen_epoch,
            "result": result.model_dump(mode="json"),
        }
        _write(self.path / "result.json", _json_bytes(flat))
        (self.path / "resume.safetensors").unlink(missing_ok=True)

    def adopt(self, other: RunDirectory) -> None:
        """Make this the same finished run as `other`, without the disk space where links exist."""
        temporary = self.path.with_name(temporary_name())
        with _explained(self.path):
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.copytree(other.path, temporary, copy_function=_link_or_copy)
            shutil.rmtree(self.path, ignore_errors=True)
            os.replace(temporary, self.path)

    def _write_checkpoint(self, progress: Progress) -> None:
        provenance = {
            "seed": self.seed,
            "epoch": progress.epoch,
            "training": self.config.training.to_dict(),
            "run_key": self.config.key(),
            "trained_by": f"tsc-interp {__version__}",
        }
        if progress.metrics:
            provenance["validation_loss"] = progress.metrics[-1].validation_loss
        checkpoint = Checkpoint(self.config.classifier, progress.weights, provenance)
        _write(self.checkpoint_path(progress.epoch), checkpoint.to_bytes())


@contextmanager
def locked(directory: Path, waiting: Callable[[Path], None]) -> Iterator[None]:
    """Hold the directory's lock; `waiting` is told if another process has it first."""
    try:
        import fcntl
    except ImportError:  # no advisory locks here; renames still keep every file whole
        yield
        return
    with _explained(directory):
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting(directory)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # closing, like dying, lets go of the lock


def _write(path: Path, content: bytes) -> None:
    """Complete or not at all, for a process that may be killed; without waiting for the disk."""
    with _explained(path):
        write_atomically(path, content, durable=False)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror or error}; what was finished before is kept, "
            "and the same command goes on from there (--runs DIR chooses another place)"
        ) from None


def _json_bytes(document: object) -> bytes:
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
