"""From a list of jobs to finished runs on disk: reuse, resume, group, train, test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tsc_interp.config import ClassifierConfig
from tsc_interp.training.config import RunConfig, TrainingConfig
from tsc_interp.training.engine import shape_of
from tsc_interp.training.ensemble import Progress, start, train_ensemble
from tsc_interp.training.runs import RunDirectory, RunResult, locked
from tsc_interp.training.stopping import chosen_epoch
from tsc_interp.training.testing import evaluate_ensemble

DEFAULT_RUNS = Path("runs")


@dataclass(frozen=True)
class Job:
    """One run that is wanted, and the experiment it is wanted for."""

    experiment: str
    config: RunConfig
    seed: int


@dataclass(frozen=True)
class Run:
    """A finished job: the result, and where the weights are."""

    job: Job
    result: RunResult
    directory: RunDirectory

    @property
    def checkpoint_path(self) -> Path:
        return self.directory.checkpoint_path(self.result.chosen_epoch)


class Watcher:
    """Told what happens, as it happens. This one does not look."""

    def planned(self, to_train: int, finished: int) -> None:
        """How many different runs are to be trained, and how many are there already."""

    def epoch(self, job: Job, progress: Progress) -> None:
        """A model has ended an epoch."""

    def finished(self, job: Job, result: RunResult) -> None:
        """A run has ended and been tested."""

    def waiting(self, directory: Path) -> None:
        """Another process is training in this directory."""


def train(
    jobs: Iterable[Job], runs: str | Path = DEFAULT_RUNS, watcher: Watcher | None = None
) -> list[Run]:
    """All jobs, finished, in the order given. What is on disk already is not done again."""
    jobs, runs, watcher = list(jobs), Path(runs), watcher or Watcher()
    wanted: dict[tuple[RunConfig, int], list[Job]] = {}
    for job in jobs:
        wanted.setdefault((job.config, job.seed), []).append(job)
    with ExitStack() as locks:
        # Sorted, so that two processes cannot wait for each other.
        for folder in sorted({_directory(runs, job).path.parent for job in jobs}):
            locks.enter_context(locked(folder, watcher.waiting))
        found = {key: _find(runs, same) for key, same in wanted.items()}
        missing = [wanted[key][0] for key, directory in found.items() if directory is None]
        watcher.planned(len(missing), len(wanted) - len(missing))
        _train_missing(missing, runs, watcher)
        for key, same in wanted.items():
            _share(runs, found[key] or _directory(runs, same[0]), same)
        return [_finished(runs, job) for job in jobs]


def train_seeds(
    config: ClassifierConfig,
    seeds: Sequence[int],
    training: TrainingConfig | None = None,
    *,
    runs: str | Path = DEFAULT_RUNS,
    experiment: str = "python",
) -> list[Run]:
    """The same configuration from several seeds: the short way for scripts."""
    run_config = RunConfig(classifier=config, training=training or TrainingConfig())
    return train([Job(experiment, run_config, seed) for seed in seeds], runs)


def _train_missing(jobs: Sequence[Job], runs: Path, watcher: Watcher) -> None:
    """Resume or begin every job, the ones that can share a loop together."""
    groups: dict[tuple[ClassifierConfig, TrainingConfig, int], list[tuple[Job, Progress]]] = {}
    for job in jobs:
        directory = _directory(runs, job)
        progress = directory.progress()
        if progress is None:
            progress = start(job.config, job.seed)
            directory.begin(progress)
        shape = shape_of(job.config.classifier)
        key = (shape, job.config.training, progress.epoch)
        groups.setdefault(key, []).append((job, progress))
    for group in groups.values():
        of_member = {(job.config, job.seed): job for job, _ in group}
        for members in train_ensemble([progress for _, progress in group]):
            ended = []
            for member in members:
                job = of_member[member.config, member.seed]
                _directory(runs, job).save(member)
                watcher.epoch(job, member)
                if member.verdict is not None:
                    ended.append((job, member))
            _finish(ended, runs, watcher)


def _finish(ended: Sequence[tuple[Job, Progress]], runs: Path, watcher: Watcher) -> None:
    """Test the chosen weights of runs that have just ended, all in one go."""
    if not ended:
        return
    losses = [[row.validation_loss for row in member.metrics] for _, member in ended]
    chosen = [chosen_epoch(row) for row in losses]
    weights = [
        _directory(runs, job).checkpoint(epoch).weights
        for (job, _), epoch in zip(ended, chosen, strict=True)
    ]
    tests = evaluate_ensemble(ended[0][0].config, weights)
    for (job, member), row, epoch, test in zip(ended, losses, chosen, tests, strict=True):
        assert member.verdict is not None
        result = RunResult(
            seed=job.seed,
            config_key=job.config.key(),
            verdict=member.verdict,
            epochs=member.epoch,
            chosen_epoch=epoch,
            validation_loss=row[epoch - 1] if epoch else float("nan"),
            test=test,
        )
        _directory(runs, job).finish(result)
        watcher.finished(job, result)


def _find(runs: Path, same: Sequence[Job]) -> RunDirectory | None:
    """A finished run of this configuration and seed, under any experiment's name."""
    own = [_directory(runs, job) for job in same]
    others = runs.glob(f"*/{same[0].config.key()}/seed={same[0].seed}")
    candidates = own + [RunDirectory(path, same[0].config, same[0].seed) for path in others]
    return next((run for run in candidates if run.result() is not None), None)


def _share(runs: Path, directory: RunDirectory, same: Sequence[Job]) -> None:
    for job in same:
        own = _directory(runs, job)
        if own.path != directory.path and own.result() is None:
            own.adopt(directory)


def _finished(runs: Path, job: Job) -> Run:
    directory = _directory(runs, job)
    result = directory.result()
    assert result is not None, f"{directory.path} was just finished"
    return Run(job, result, directory)


def _directory(runs: Path, job: Job) -> RunDirectory:
    return RunDirectory.of(runs, job.experiment, job.config, job.seed)
