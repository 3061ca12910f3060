"""From a list of jobs to finished runs on disk: reuse, resume, group, train, test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.run_directory import DEFAULT_RUNS, DamagedRun, RunError
from tsc_interp.checkpoints.run_records import Ending, RunResult
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError, shorten
from tsc_interp.files import remove_temporaries
from tsc_interp.telling import say
from tsc_interp.training.config import Job, RunConfig, TrainingConfig
from tsc_interp.training.engine import shape_of
from tsc_interp.training.ensemble import TrainingState, start, train_ensemble
from tsc_interp.training.experiments import Experiment
from tsc_interp.training.locking import locked
from tsc_interp.training.run_writer import Examined, RunWriter
from tsc_interp.training.sharing import Same, groups_of, helpers, shared_out
from tsc_interp.training.stopping import chosen_epoch
from tsc_interp.training.testing import evaluate_ensemble

LOCKS_AT_ONCE = 64
"""Each is an open file, of which a process may have a few hundred."""


@dataclass(frozen=True)
class TrainedRun:
    """A finished job: the result, and where the weights are."""

    job: Job
    result: RunResult
    directory: RunWriter

    @property
    def path(self) -> Path:
        return self.directory.path

    @property
    def checkpoint_path(self) -> Path:
        return self.directory.checkpoint_path(self.result.chosen_epoch)

    def checkpoint(self, epoch: int | None = None) -> Checkpoint:
        """One epoch's weights; without a number, the chosen one's."""
        return self.directory.checkpoint(epoch)


@dataclass(frozen=True)
class Plan:
    """What is to be done, in different runs: the same run under two names counts once."""

    to_train: int
    finished: int
    """There already."""
    unfinished: int = 0
    """Of those to train: begun by an earlier process, and going on where it stopped."""
    most_epochs: int = 0
    """To be trained, if no run stops early."""


class Watcher:
    """Progress callbacks of `train`; these ignore what happens, and subclasses may show it."""

    def planned(self, plan: Plan) -> None:
        """What was found on disk, and what is left to do."""

    def epoch(self, job: Job, state: TrainingState) -> None:
        """A model has ended an epoch."""

    def finished(self, job: Job, result: RunResult) -> None:
        """A run has ended and been tested."""

    def say(self, text: str) -> None:
        """Something that a person should know: a run that was damaged, another process."""
        say(text)


@checked
def train(
    jobs: Experiment | ClassifierConfig | Iterable[Job],
    runs: str | Path = DEFAULT_RUNS,
    watcher: Watcher | None = None,
    *,
    seeds: Sequence[int] | None = None,
    training: TrainingConfig | None = None,
    processes: int = 1,
) -> list[TrainedRun]:
    """Train every run of an experiment that is not on disk yet.

    Args:
        jobs: An experiment, one configuration, or a list of jobs.
        runs: The directory of the runs.
        watcher: Its methods are called as training goes on; see `Watcher`.
        seeds: For one configuration: the seeds, by default 0.
        training: For one configuration: the options of training.
        processes: The number of processes that train at the same time, including this one.

    Returns:
        The finished runs in the order of the jobs. Every function accepts a run as a model.

    Raises:
        UsageError: The argument is none of these.
        RunError: A directory cannot be written, or holds something else.

    Example:
        >>> import tempfile
        >>> quick = TrainingConfig(max_epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run, = train(ClassifierConfig(), folder, seeds=[5], training=quick)
        >>> run.result.epochs
        1
    """
    return _Training(Path(runs), watcher or Watcher()).train(
        _listed(jobs, seeds, training), processes
    )


def _listed(
    jobs: object, seeds: Sequence[int] | None, training: TrainingConfig | None
) -> list[Job]:
    if isinstance(jobs, ClassifierConfig):
        config = RunConfig(classifier=jobs, training=training or TrainingConfig())
        return [Job("python", config, seed) for seed in ((0,) if seeds is None else seeds)]
    if seeds is not None or training is not None:
        raise UsageError("seeds and training are for one ClassifierConfig; jobs have their own")
    if isinstance(jobs, Experiment):
        return jobs.jobs()
    listed = []
    for job in jobs if isinstance(jobs, Iterable) else [jobs]:
        if not isinstance(job, Job):
            raise UsageError(
                "train takes an experiment, a ClassifierConfig or a list of jobs, got "
                f"{shorten(job)}"
            )
        listed.append(job)
    return listed


class _Training:
    """Runs of one directory: what is there, what is to be done, and what has been done."""

    def __init__(self, runs: Path, watcher: Watcher) -> None:
        self.runs, self.watcher = runs, watcher
        self.done: dict[Path, RunResult] = {}

    def train(self, jobs: list[Job], processes: int) -> list[TrainedRun]:
        wanted: dict[tuple[RunConfig, int], list[Job]] = {}
        for job in jobs:
            wanted.setdefault((job.config, job.seed), []).append(job)
        own, others = shared_out(self._look(wanted.values()), processes)
        with helpers(len(others)) as helper:
            futures = [(share, helper.submit(_finish_share, share, self.runs)) for share in others]
            self._do(own)
            for share, future in futures:
                self._take_share(share, future)
        directories = [self._directory(job) for job in jobs]
        return [
            TrainedRun(job, self.done[directory.path], directory)
            for job, directory in zip(jobs, directories, strict=True)
        ]

    def _directory(self, job: Job) -> RunWriter:
        return RunWriter.of(self.runs, job.experiment, job.config, job.seed)

    # -- what is there -------------------------------------------------------------------------

    def _look(self, wanted: Iterable[Same]) -> list[Same]:
        """Note what is finished under every name it is wanted for, and return the rest.

        This locks and changes nothing. A run that it misses is looked for again later.
        """
        remaining, to_train, finished, unfinished, most_epochs = [], 0, 0, 0, 0
        for same in wanted:
            directories = [self._directory(job) for job in same]
            on_disk = {directory.path: _peek(directory) for directory in directories}
            results = {path: peek.result for path, peek in on_disk.items() if peek.result}
            if len(results) == len(on_disk):
                finished += 1
                self.done |= results
                continue
            remaining.append(same)
            if self._find(same):
                finished += 1
            else:
                begun = next(iter(on_disk.values())).state
                to_train += 1
                unfinished += begun is not None
                most_epochs += same[0].config.training.max_epochs - (begun.epoch if begun else 0)
        self.watcher.planned(Plan(to_train, finished, unfinished, most_epochs))
        return remaining

    def _find(self, same: Same) -> RunWriter | None:
        """A finished run of this configuration and seed, under any experiment's name."""
        job = same[0]
        paths = sorted(self.runs.glob(f"*/{job.config.key()}/seed={job.seed}"))
        candidates = [self._directory(job) for job in same]
        candidates += [RunWriter(path, job.config, job.seed) for path in paths]
        return next((run for run in candidates if _usable(run)), None)

    # -- doing it ------------------------------------------------------------------------------

    def _do(self, waiting: Sequence[Same]) -> None:
        for part in self._parts(waiting):
            folders = {self._directory(job).path.parent for same in part for job in same}
            with ExitStack() as locks:
                # Sorted, so that two processes cannot wait for each other.
                for folder in sorted(folders):
                    locks.enter_context(locked(folder, self.watcher.say))
                    remove_temporaries(folder)
                finished = {id(same): self._find(same) for same in part}
                self._train_missing([same[0] for same in part if not finished[id(same)]])
                for same in part:
                    self._share(finished[id(same)] or self._directory(same[0]), same)

    def _parts(self, waiting: Sequence[Same]) -> Iterator[list[Same]]:
        """What is locked and trained at a time: few locks, and alike configurations together."""
        part: list[Same] = []
        folders: set[Path] = set()
        for same in chain.from_iterable(groups_of(waiting)):
            needed = {self._directory(job).path.parent for job in same}
            if part and len(folders | needed) > LOCKS_AT_ONCE:
                yield part
                part, folders = [], set()
            part.append(same)
            folders |= needed
        if part:
            yield part

    def _take_share(self, share: Sequence[Same], future: Future[dict[Path, RunResult]]) -> None:
        """What another process has done; if it died, it is done here."""
        try:
            results = future.result()
        except BrokenExecutor:
            self._do(share)
            return
        self.done |= results
        for same in share:
            self.watcher.finished(same[0], results[self._directory(same[0]).path])

    def _train_missing(self, jobs: Sequence[Job]) -> None:
        """Resume or begin every job, the ones that can share a loop together."""
        groups: dict[tuple[ClassifierConfig, TrainingConfig, int], list[tuple[Job, TrainingState]]]
        groups = {}
        for job in jobs:
            directory = self._directory(job)
            state = self._examined(directory).state
            remove_temporaries(directory.path, directory.checkpoint_path(0).parent)
            if state is None:
                state = start(job.config, job.seed)
                directory.begin(state)
            key = (shape_of(job.config.classifier), job.config.training, state.epoch)
            groups.setdefault(key, []).append((job, state))
        for group in groups.values():
            of_member = {(job.config, job.seed): job for job, _ in group}
            for members in train_ensemble([state for _, state in group]):
                ended = []
                for member in members:
                    job = of_member[member.config, member.seed]
                    self._directory(job).save(member)
                    self.watcher.epoch(job, member)
                    if member.ending is not None:
                        ended.append((job, member, member.ending))
                if ended:
                    self._finish(ended)

    def _examined(self, directory: RunWriter) -> Examined:
        """What is there; what is damaged is moved out of the way, and said."""
        try:
            return directory.examine()
        except DamagedRun as problem:
            moved_to = directory.put_aside("damaged")
            self.watcher.say(f"{problem}; moved to {moved_to}, training it again")
            return Examined()

    def _finish(self, ended: Sequence[tuple[Job, TrainingState, Ending]]) -> None:
        """Test the chosen weights of runs that have just ended, all in one go."""
        losses = [[row.validation_loss for row in member.metrics] for _, member, _ in ended]
        epochs = list(map(chosen_epoch, losses))
        directories = [self._directory(job) for job, _, _ in ended]
        chosen = [run.checkpoint(epoch) for run, epoch in zip(directories, epochs, strict=True)]
        tests = evaluate_ensemble(ended[0][0].config, [checkpoint.weights for checkpoint in chosen])
        for index, (job, member, ending) in enumerate(ended):
            epoch = epochs[index]
            result = RunResult(
                seed=job.seed,
                run_key=job.config.key(),
                ending=ending,
                epochs=member.epoch,
                chosen_epoch=epoch,
                validation_loss=losses[index][epoch - 1] if epoch else float("nan"),
                test=tests[index],
            )
            directories[index].finish(result, chosen[index])
            self.watcher.finished(job, result)

    def _share(self, source: RunWriter, same: Same) -> None:
        """The run under every name it is wanted for."""
        for job in same:
            directory = self._directory(job)
            examined = self._examined(directory)
            if examined.result is None:
                if examined.state is not None:
                    directory.put_aside("unfinished")
                directory.adopt(source)
                examined = directory.examine()
            assert examined.result is not None, f"{directory.path} was just finished"
            self.done[directory.path] = examined.result


def _finish_share(share: Sequence[Same], runs: Path) -> dict[Path, RunResult]:
    """In another process: all of a share's jobs, and where their results are."""
    finished = train([job for same in share for job in same], runs)
    return {run.path: run.result for run in finished}


def _peek(directory: RunWriter) -> Examined:
    try:
        return directory.examine()
    except DamagedRun:
        return Examined()


def _usable(run: RunWriter) -> bool:
    try:
        return run.examine().result is not None
    except RunError:  # damaged, or of another version: somebody else's name, not our business
        return False
