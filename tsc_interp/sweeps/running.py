"""All tasks of a sweep: what is missing is packed, handed out, and waited for.

    tsc.sweep("sweep.toml")                            on every core of this machine
    tsc.sweep("sweep.toml", client=Client("tcp://..."))   on a Dask cluster

Workers write what they finish, so the process that hands out tasks holds nothing that could be
lost. Only a few tasks per worker are handed out at a time: a scheduler then has little to remember,
and stopping leaves little to wait for.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.shards import DEFAULT_SWEEPS
from tsc_interp.errors import TscError, UsageError, shorten
from tsc_interp.files import shown
from tsc_interp.sweeps.definition import Verify, What, definition_of
from tsc_interp.sweeps.directory import Sweep, SweepError, prepared, refuse_strangers, tidied
from tsc_interp.sweeps.executors import Lost, Pool, Processes, Workers, cluster, is_loss
from tsc_interp.sweeps.interrupts import Interrupts, interrupts
from tsc_interp.sweeps.packing import Task, pack
from tsc_interp.sweeps.tables import polars
from tsc_interp.sweeps.work import do_task, rows_path
from tsc_interp.telling import say
from tsc_interp.training.locking import locked

if TYPE_CHECKING:
    from distributed import Client

_MOST_FAILURES = 3
"""So many tasks that fail end a sweep: the others would fail as well."""
_MOST_LOSSES = 3
"""So many losses in a row, without a task finished between them."""
_POLL = 0.2
_SHARED = 10.0
"""Seconds until a file written on another machine must be visible here."""


@dataclass(frozen=True)
class SweepPlan:
    """What is to be done."""

    directory: Path
    models: int
    """Of this sweep, in all."""
    finished: int
    """There already."""
    tasks: int
    workers: int

    @property
    def missing(self) -> int:
        return self.models - self.finished


class SweepWatcher:
    """Progress callbacks of a sweep; the default ignores them."""

    def planned(self, plan: SweepPlan) -> None:
        """Called with what is on disk and what is left to do."""

    def finished(self, task: Task) -> None:
        """Called when an ensemble is on disk."""

    def say(self, text: str) -> None:
        """Something that a person should know: workers that died, an ensemble that failed."""
        say(text)


@checked
def sweep(
    what: What,
    out: str | os.PathLike[str] | None = None,
    *,
    verify: Verify | None = None,
    limit: int | None = None,
    boxes: int | None = None,
    processes: int | None = None,
    client: Client | None = None,
    ensemble: int | None = None,
    watcher: SweepWatcher | None = None,
) -> Sweep:
    """Train, test and verify every model of a sweep that is not on disk yet.

    Args:
        what: A TOML file, an experiment, or several experiments.
        out: The directory of rows and weights, by default `sweeps/NAME`. A sweep that is already
            there is continued or extended.
        verify: `"prove"`: the checker confirms every horizon; `"found"`: it confirms only models
            without an error up to the limit; `"off"`: no horizons.
        limit: The length up to which first errors are searched.
        boxes: The number of boxes to examine for each set of letters; called `budget` in files.
        processes: The number of processes on this machine, by default one per core.
        client: A Dask client, whose workers must see `out` under the same name.
        ensemble: The largest number of models to train together.
        watcher: Its methods are called as the sweep goes on; see `SweepWatcher`.

    Returns:
        The sweep on disk; `table()` has a row per model.

    Raises:
        SweepError: An ensemble failed; finished ones are kept.
        UsageError: An option is out of range.

    Example:
        >>> import tsc_interp as tsc
        >>> experiment = tsc.Experiment.of("width", "0..31", classifier={"d_model": [2, 4]})
        >>> found = sweep(experiment, processes=2)  # doctest: +SKIP
        >>> found.table().shape[0]  # doctest: +SKIP
        64
    """
    polars()
    definition = definition_of(what, verify=verify, limit=limit, budget=boxes)
    watcher = watcher or SweepWatcher()
    for name, count in (("processes", processes), ("ensemble", ensemble)):
        if count is not None and (type(count) is not int or count < 1):
            raise UsageError(f"{name} is a whole number from 1, got {shorten(count)}")
    path = Path(out) if out is not None else DEFAULT_SWEEPS / definition.name
    workers = Processes(processes) if client is None else cluster(client)
    refuse_strangers(path)
    with locked(path, watcher.say, "--out"), tidied(path):
        stored = prepared(path.absolute(), definition)
        if damaged := stored.put_damaged_aside():
            watcher.say(f"the weights of {damaged} ensembles are cut off; they are made again")
        wanted = stored.wanted(definition)
        missing = wanted & ~stored.present()
        tasks = pack(stored.pieces, missing, stored.options, workers.count, ensemble)
        models = int(wanted.sum())
        watcher.planned(
            SweepPlan(path, models, models - int(missing.sum()), len(tasks), workers.count)
        )
        if tasks:
            with interrupts() as stop:
                _Run(stored, workers, watcher, stop).do(tasks)
    return Sweep(path, stored.definition)


class _Run:
    """Tasks handed out and waited for, until all are done or it is told to stop."""

    def __init__(
        self, stored: Sweep, workers: Workers, watcher: SweepWatcher, stop: Interrupts
    ) -> None:
        self._path, self._workers, self._watcher, self._stop = stored.path, workers, watcher, stop
        self._failures: list[BaseException] = []
        self._losses = 0
        self._told = False

    def do(self, tasks: Sequence[Task]) -> None:
        left = deque(tasks)
        while left and not self._ending:
            running: dict[Future[Any], Task] = {}
            try:
                with self._workers.opened() as pool:
                    self._drain(pool, left, running)
            except Lost as loss:
                left.extendleft(running.values())
                self._losses += 1
                self._watcher.say(f"{loss}; going on with what is missing")
                if self._losses > _MOST_LOSSES:
                    raise SweepError(
                        f"{loss}, {self._losses} times in a row; finished ensembles are kept, and "
                        "the same command goes on from there"
                    ) from None
                if not self._ending:
                    self._workers.recover()
        if self._failures:
            first, count = self._failures[0], len(self._failures)
            kind = "" if isinstance(first, TscError) else f"{type(first).__name__}: "
            more = f" ({count} ensembles failed)" if count > 1 else ""
            raise SweepError(
                f"an ensemble could not be made: {kind}{first}{more}; the others that were "
                "finished are kept"
            )
        if self._stop.pressed:
            raise KeyboardInterrupt

    @property
    def _ending(self) -> bool:
        return self._stop.pressed or len(self._failures) >= _MOST_FAILURES

    def _drain(self, pool: Pool, left: deque[Task], running: dict[Future[Any], Task]) -> None:
        try:
            while running or (left and not self._ending):
                most = self._workers.count * (1 + self._workers.in_flight)
                while left and not self._ending and len(running) < most:
                    future = _submitted(pool, left[0], self._path)
                    running[future] = left.popleft()
                if self._stop.pressed and not self._told:
                    self._told = True
                    self._watcher.say(
                        f"finishing {len(running)} running ensembles; press Ctrl-C again to stop "
                        "at once"
                    )
                for future in wait(running, _POLL, FIRST_COMPLETED).done:
                    self._take(future, running)
        except KeyboardInterrupt:
            pool.kill()
            raise

    def _take(self, future: Future[Any], running: dict[Future[Any], Task]) -> None:
        task = running[future]
        try:
            future.result()
        except (Exception, CancelledError) as error:
            if reason := is_loss(error):
                raise Lost(reason) from None
            del running[future]
            self._failures.append(error)
            self._watcher.say(f"ensemble {task.name} could not be made: {error}")
            return
        del running[future]
        _require_shared(self._path, task.name)
        self._losses = 0
        self._watcher.finished(task)


def _submitted(pool: Pool, task: Task, path: Path) -> Future[Any]:
    try:
        return pool.submit(do_task, task, str(path))
    except (BrokenExecutor, OSError, RuntimeError) as error:
        raise Lost(is_loss(error) or f"the workers do not answer ({error})") from None


def _require_shared(path: Path, name: str) -> None:
    """A worker elsewhere may write to a directory of the same name that is another one."""
    ends = monotonic() + _SHARED
    while not rows_path(path, name).exists():
        if monotonic() > ends:
            raise SweepError(
                f"a worker has written {name} to {shown(path)}, but it is not there: the "
                "workers of a cluster must share the sweep's directory (--out DIR) with this "
                "machine, under the same name"
            )
        sleep(_POLL)
