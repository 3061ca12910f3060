"""What `sweep` shows while it works: models per second, and the time left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tsc_interp.cli.common import Update, live_bar, messages
from tsc_interp.output.numbers import counted

if TYPE_CHECKING:
    from rich.console import Console

    from tsc_interp.sweeps.running import SweepWatcher


class Pace:
    """Models per second since the beginning, and what is left at that pace."""

    def __init__(self, models: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.left, self.done = models, 0
        self._clock, self._began = clock, clock()

    def finish(self, models: int) -> None:
        self.done += models
        self.left -= models

    def told(self) -> str:
        seconds = self._clock() - self._began
        if not self.done or seconds <= 0:
            return "time left not known yet"
        pace = self.done / seconds
        return f"{pace:,.1f} models/s, {written_seconds(self.left / pace)} left"


def written_seconds(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def written_length(length: float | None) -> str:
    if length is None:
        return ""
    return "infinite" if math.isinf(length) else f"{int(length):,}"


@contextmanager
def watching(quiet: bool) -> Iterator[SweepWatcher]:
    """A live bar on a terminal, plain lines otherwise, nothing when quiet."""
    from tsc_interp.sweeps.running import SweepWatcher

    if quiet:
        yield SweepWatcher()
        return
    console = messages()
    with live_bar(console, "models") as update:
        yield _watcher(console, update)


def _watcher(console: Console, update: Update | None) -> SweepWatcher:
    from tsc_interp.sweeps.packing import Task
    from tsc_interp.sweeps.running import SweepPlan, SweepWatcher

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    class Showing(SweepWatcher):
        def planned(self, plan: SweepPlan) -> None:
            self.plan, self.pace = plan, Pace(plan.missing)
            say(
                f"{counted(plan.missing, 'model')} to make in {counted(plan.tasks, 'ensemble')} on "
                f"{counted(plan.workers, 'core')}, {plan.finished:,} already in {plan.directory}"
            )
            if update:
                update("starting", total=plan.models, completed=plan.finished)

        def finished(self, task: Task) -> None:
            self.pace.finish(task.models)
            if update:
                update(self.pace.told(), advance=task.models)
            else:
                say(f"{self.pace.done:,} of {self.plan.missing:,} models, {self.pace.told()}")

        def failed(self, task: Task, error: BaseException) -> None:
            say(f"ensemble {task.name} could not be made: {error}")

        def lost(self, reason: str) -> None:
            say(f"{reason}; going on with what is missing")

        def stopping(self, running: int) -> None:
            say(f"finishing {running} running ensembles; press Ctrl-C again to stop at once")

        def waiting(self, directory: Path) -> None:
            say(f"waiting for another process that runs the sweep in {directory}")

        def damaged(self, ensembles: int) -> None:
            say(f"the weights of {ensembles} ensembles are cut off; they are made again")

    return Showing()
