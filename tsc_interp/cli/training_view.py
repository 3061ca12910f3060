"""What `train` and `reproduce` show: progress while they work, a table and JSON rows at the end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from tsc_interp.cli.common import Pace, Update, live_bar, messages, output
from tsc_interp.output.numbers import counted

if TYPE_CHECKING:
    from rich.console import Console

    from tsc_interp.checkpoints.run_list import StoredRun
    from tsc_interp.output.table import Cell
    from tsc_interp.training.jobs import TrainedRun, Watcher
    from tsc_interp.verification import Horizon

_WORTH_A_PROCESS = 16
"""Horizons: a tenth of a second each, and a process needs about one to start."""


@contextmanager
def watching(quiet: bool, labels: Mapping[str, str] | None = None) -> Iterator[Watcher]:
    """A live bar on a terminal, plain lines otherwise, nothing when quiet.

    `labels` name the cells of a grid by the keys of their configurations.
    """
    from tsc_interp.training.jobs import Watcher

    if quiet:
        yield Watcher()
        return
    console = messages()
    with live_bar(console, "runs") as update:
        yield _watcher(console, labels or {}, update)


def _watcher(console: Console, labels: Mapping[str, str], update: Update | None) -> Watcher:
    from tsc_interp.checkpoints.run_records import RunResult
    from tsc_interp.training.config import Job
    from tsc_interp.training.ensemble import TrainingState
    from tsc_interp.training.jobs import Plan, Watcher

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    def name(job: Job) -> str:
        cell = labels.get(job.config.key())
        return " ".join([job.experiment, *([cell] if cell else []), f"seed {job.seed}"])

    class Showing(Watcher):
        def planned(self, plan: Plan) -> None:
            self.plan, self.ended, self.time = plan, 0, Pace(plan.most_epochs)
            begun = f" ({plan.unfinished} begun before)" if plan.unfinished else ""
            runs = counted(plan.to_train, "run")
            say(f"{runs} to train{begun}, {plan.finished:,} already there")
            if update:
                update("starting", total=plan.to_train)

        def epoch(self, job: Job, state: TrainingState) -> None:
            self.time.spend(1)  # a run may stop early, so this says at most, and shrinks
            if update:
                row = state.metrics[-1]
                update(
                    f"{self.time.time_left('at most ')}: {name(job)}, epoch {row.epoch}, "
                    f"validation loss {row.validation_loss:.4g}"
                )

        def finished(self, job: Job, result: RunResult) -> None:
            self.ended += 1
            self.time.save(job.config.training.max_epochs - result.epochs)
            if update:
                update(f"{self.time.time_left('at most ')}: {name(job)}", advance=1)
            else:
                say(f"{self.ended} of {self.plan.to_train}: {name(job)}: {_one_line(result)}")

        def say(self, text: str) -> None:
            say(text)

    return Showing()


def _one_line(result: Any) -> str:
    return (
        f"{counted(result.epochs, 'epoch')}, epoch {result.chosen_epoch} chosen, "
        f"validation loss {result.validation_loss:.5g}, {counted(result.test.errors, 'test error')}"
    )


def run_row(run: TrainedRun) -> dict[str, Any]:
    """One run in JSON."""
    loss = run.result.validation_loss
    return {
        "experiment": run.job.experiment,
        "seed": run.job.seed,
        "epochs": run.result.epochs,
        "chosen_epoch": run.result.chosen_epoch,
        "validation_loss": loss if math.isfinite(loss) else None,
        "confusion_matrix": run.result.test.matrix(),
        "checkpoint": str(run.checkpoint_path),
    }


def horizon_of(run: TrainedRun | StoredRun) -> Horizon | None:
    """The length up to which a run's model makes no error at all; None where there is no such."""
    return horizons_of([run])[0]


def horizons_of(runs: Sequence[TrainedRun | StoredRun]) -> list[Horizon | None]:
    """The same of many runs; if they are more than a few, a second process does half of them."""
    from functools import partial

    from tsc_interp.verification.horizons import first_errors
    from tsc_interp.verification.summaries import DEFAULT_LIMIT

    ask = partial(first_errors, limit=DEFAULT_LIMIT, boxes=20_000)
    places = [i for i, run in enumerate(runs) if run.result is not None and not run.result.diverged]
    checkpoints = [runs[place].checkpoint() for place in places]
    if len(checkpoints) < _WORTH_A_PROCESS:
        horizons = ask(checkpoints)
    else:
        from concurrent.futures import BrokenExecutor

        from tsc_interp.training.sharing import helpers

        horizons = [None] * len(checkpoints)
        with helpers(1) as helper:
            future = helper.submit(ask, checkpoints[1::2])
            horizons[::2] = ask(checkpoints[::2])
            try:
                horizons[1::2] = future.result()
            except BrokenExecutor:
                horizons[1::2] = ask(checkpoints[1::2])
    known = dict(zip(places, horizons, strict=True))
    return [known.get(place) for place in range(len(runs))]


def written_horizon(found: Horizon | None) -> str:
    if found is None:
        return ""
    if found.proved and found.length is not None:
        return f"{found.length:,}"
    return f"{found.verified_length:,} or more"


def print_runs(
    runs: Sequence[TrainedRun], labels: Sequence[str] | None = None, with_horizon: bool = False
) -> None:
    """A table per experiment, a line per run; `labels` tell the cells of a grid apart."""
    from itertools import groupby

    from tsc_interp.output.table import print_table

    reached = horizons_of(runs) if with_horizon else [None] * len(runs)
    labelled = list(zip(runs, labels or [""] * len(runs), reached, strict=True))
    with_cell = any(labels or [])
    for experiment, group in groupby(labelled, key=lambda row: row[0].job.experiment):
        rows = list(group)
        two = all(len(run.result.test.confusion_matrix) == 2 for run, _, _ in rows)
        headings = ["cell"] * with_cell + ["seed", "epochs", "chosen", "validation loss"]
        headings += ["TN", "FP", "FN", "TP"] if two else ["tested", "wrong"]
        headings += ["horizon"] * with_horizon
        cells = [
            [label] * with_cell
            + _cells(run, two)
            + ([written_horizon(horizon)] if with_horizon else [])
            for run, label, horizon in rows
        ]
        right = range(int(with_cell), len(headings))
        print_table(output(), headings, cells, title=experiment, right=right)


def _cells(run: TrainedRun, two: bool) -> list[Cell]:
    from rich.text import Text

    result, matrix = run.result, run.result.test.confusion_matrix
    loss = "diverged" if result.diverged else f"{result.validation_loss:.5g}"
    cells: list[Cell] = [run.job.seed, result.epochs, result.chosen_epoch, loss]

    def wrong(count: int) -> Cell:
        return Text(str(count), style="bold red" if count else "")

    if not two:
        return [*cells, sum(map(sum, matrix)), wrong(result.test.errors)]
    (tn, fp), (fn, tp) = matrix
    return [*cells, tn, wrong(fp), wrong(fn), tp]


def complain_about_diverged(runs: Sequence[TrainedRun]) -> None:
    """Runs whose loss stopped being a number: reported last, and a failure."""
    diverged = [run for run in runs if run.result.diverged]
    if diverged:
        named = ", ".join(f"{run.job.experiment} seed {run.job.seed}" for run in diverged[:5])
        more = f" and {len(diverged) - 5} more" if len(diverged) > 5 else ""
        messages().print(
            f"tsc-interp: {len(diverged)} of {counted(len(runs), 'run')} diverged (a loss was not "
            f"a finite number): {named}{more}; a lower learning_rate may help",
            soft_wrap=True,
        )
        raise typer.Exit(1)
