"""`tsc-interp sweep`: thousands of models, trained, tested and verified, and a page of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsc_interp.cli.common import (
    Pace,
    Update,
    live_bar,
    messages,
    output,
    print_json,
)
from tsc_interp.cli.signature import takes
from tsc_interp.output.numbers import counted

if TYPE_CHECKING:
    from rich.console import Console

    from tsc_interp.sweeps import Sweep
    from tsc_interp.sweeps.running import SweepWatcher


@takes("sweeps/running.py:sweep", "what", "verify", "limit", "boxes")
def command(
    file: Path,
    *,
    scheduler: str | None = None,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Train, test and verify a grid of configurations and seeds, one row for each model.

    Finished models are kept on disk, so running the command again does only what is missing. Ctrl-C
    finishes the running ensembles; pressed again, it stops at once.

    Args:
        file (FILE.toml): The sweep: grids, seeds and options.
        out (DIR): Write the sweep here (default: sweeps/NAME).
        processes (N): The number of processes (default: one per core).
        scheduler (ADDRESS): A Dask scheduler, such as tcp://10.0.0.1:8786.
        ensemble (N): The most models to train together in one task.
    """
    import time

    from tsc_interp.errors import UsageError
    from tsc_interp.sweeps import sweep
    from tsc_interp.sweeps.executors import connected
    from tsc_interp.sweeps.tables import by

    if scheduler is not None and "processes" in options:
        raise UsageError("--processes is for this machine; leave it out with --scheduler")
    started = time.perf_counter()
    with connected(scheduler) as client, watching(quiet) as watcher:
        result = sweep(file, client=client, watcher=watcher, **options)
    seconds = round(time.perf_counter() - started, 3)
    rows = by(result.table(), "cell")
    if as_json:
        document = {
            "name": result.name,
            "directory": str(result.path),
            "models": result.models,
            "verify": result.options.verify,
            "cells": rows,
            "seconds": seconds,
        }
        print_json("sweep/1", document)
        return
    _print(result, rows)
    messages(quiet).print(
        f"'tsc-interp sweep-report {result.path}' writes a page; --checkpoint {result.path}:ROW "
        "is the model of a row",
        soft_wrap=True,
    )


def _horizons(row: dict[str, Any]) -> list[str]:
    shortest, median, low, high, longest = (
        _length(row[key]) for key in ("shortest", "median", "median_low", "median_high", "longest")
    )
    return [shortest, median, f"{low} to {high}" if low else "", longest, f"{row['infinite']:,}"]


def _print(result: Sweep, rows: list[dict[str, Any]]) -> None:
    from tsc_interp.output.table import print_table

    verified = result.options.verify != "off"
    headings = ["cell", "models", "no test errors"]
    headings += ["horizon min", "median", "95% CI", "max", "infinite"] * verified
    cells = [
        [
            row["cell"] or "all",
            f"{row['models']:,}",
            f"{row['no_test_errors']:,}",
            *(_horizons(row) if verified else []),
        ]
        for row in rows
    ]
    print_table(output(), headings, cells, title=result.name, right=range(1, len(headings)))
    if verified:
        proved, models = sum(row["proved"] for row in rows), sum(row["models"] for row in rows)
        output().print(
            "horizon: every string up to that length is right, by the search; the independent "
            f"checker confirmed {proved:,} of {counted(models, 'model')}; infinite: "
            "proved right at every length; 95% CI: of the median, over seeds",
            soft_wrap=True,
        )
    diverged = sum(row["diverged"] for row in rows)
    if diverged:
        messages().print(f"{counted(diverged, 'model')} diverged; a lower learning_rate may help")


def _length(length: float | None) -> str:
    if length is None:
        return ""
    return "infinite" if isinf(length) else f"{int(length):,}"


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
            self.pace.spend(task.models)
            pace = f"{self.pace.per_second():,.1f} models/s, {self.pace.time_left()}"
            if update:
                update(pace, advance=task.models)
            else:
                say(f"{self.pace.done:,} of {self.plan.missing:,} models, {pace}")

        def say(self, text: str) -> None:
            say(text)

    return Showing()
