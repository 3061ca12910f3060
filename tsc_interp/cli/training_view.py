"""What `train` and `reproduce` show: progress while they work, a table and JSON rows at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsc_interp.cli.common import messages, output

if TYPE_CHECKING:
    from tsc_interp.training.jobs import TrainedRun, Watcher

RunsOption = Annotated[
    Path, typer.Option("--runs", metavar="DIR", help="Where runs are kept and looked for.")
]


@contextmanager
def watching(quiet: bool) -> Iterator[Watcher]:
    """A live bar on a terminal, plain lines otherwise, nothing when quiet."""
    from tsc_interp.training.jobs import Watcher

    console = messages(quiet)
    if quiet:
        yield Watcher()
    elif console.is_terminal:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = [
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("runs,"),
            TimeRemainingColumn(),
            TextColumn("left: {task.description}", markup=False),
        ]
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("training", total=None)
            yield _watcher(
                lambda text, **fields: bar.update(task, description=text, **fields), None
            )
    else:
        yield _watcher(
            lambda text, **fields: None, lambda text: console.print(text, soft_wrap=True)
        )


def _watcher(update: Callable[..., None], say: Callable[[str], None] | None) -> Watcher:
    from tsc_interp.checkpoints.run_directory import DamagedRun
    from tsc_interp.checkpoints.run_records import RunResult
    from tsc_interp.training.config import Job
    from tsc_interp.training.ensemble import TrainingState
    from tsc_interp.training.jobs import Plan, Watcher

    class Showing(Watcher):
        def planned(self, plan: Plan) -> None:
            update("training", total=plan.to_train)
            if say:
                say(f"{plan.to_train} runs to train, {plan.finished} already there")

        def epoch(self, job: Job, state: TrainingState) -> None:
            row = state.metrics[-1]
            update(
                f"{job.experiment} epoch {row.epoch:>2}: "
                f"loss {row.train_loss:.4g}, validation {row.validation_loss:.4g}"
            )

        def finished(self, job: Job, result: RunResult) -> None:
            update(job.experiment, advance=1)
            if say:
                say(f"{job.experiment} seed {job.seed}: {_one_line(result)}")

        def waiting(self, directory: Path) -> None:
            (say or update)(f"waiting for another process that is training in {directory}")

        def damaged(self, problem: DamagedRun, moved_to: Path) -> None:
            (say or update)(f"{problem}; moved to {moved_to}, training it again")

    return Showing()


def _one_line(result: Any) -> str:
    return (
        f"{result.epochs} epochs, epoch {result.chosen_epoch} chosen, "
        f"validation loss {result.validation_loss:.5g}, {result.test.errors} test errors"
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


def horizon_of(run: TrainedRun) -> str:
    """The length up to which the run's model makes no error at all, exactly."""
    from tsc_interp.errors import UnsupportedError
    from tsc_interp.verification import horizon

    if run.result.ending == "diverged":
        return ""
    try:
        found = horizon(run.directory.checkpoint(run.result.chosen_epoch), budget=20_000)
    except UnsupportedError:
        return ""
    if found.proved and found.length is not None:
        return f"{found.length:,}"
    return f"{found.right_through:,} or more"


def print_runs(
    runs: Sequence[TrainedRun], labels: Sequence[str] | None = None, with_horizon: bool = False
) -> None:
    """A table per experiment, a line per run; `labels` tell the cells of a grid apart."""
    from itertools import groupby

    from rich import box
    from rich.table import Table
    from rich.text import Text

    labelled = list(zip(runs, labels or [""] * len(runs), strict=True))
    for experiment, rows in groupby(labelled, key=lambda row: row[0].job.experiment):
        table = Table(
            title=experiment,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        if any(labels or []):
            table.add_column("cell", overflow="fold")
        for heading in ("seed", "epochs", "chosen", "validation loss", "TN", "FP", "FN", "TP"):
            table.add_column(heading, justify="right")
        if with_horizon:
            table.add_column("horizon", justify="right")
        for run, label in rows:
            (tn, fp), (fn, tp) = run.result.test.confusion_matrix
            loss = run.result.validation_loss
            table.add_row(
                *([label] if any(labels or []) else []),
                str(run.job.seed),
                str(run.result.epochs),
                str(run.result.chosen_epoch),
                "diverged" if run.result.ending == "diverged" else f"{loss:.5g}",
                str(tn),
                Text(str(fp), style="bold red" if fp else ""),
                Text(str(fn), style="bold red" if fn else ""),
                str(tp),
                *([horizon_of(run)] if with_horizon else []),
            )
        output().print(table)


def complain_about_diverged(runs: Sequence[TrainedRun]) -> None:
    """Runs whose loss stopped being a number: reported last, and a failure."""
    diverged = [run for run in runs if run.result.ending == "diverged"]
    if diverged:
        named = ", ".join(f"{run.job.experiment} seed {run.job.seed}" for run in diverged[:5])
        more = f" and {len(diverged) - 5} more" if len(diverged) > 5 else ""
        messages().print(
            f"tsc-interp: {len(diverged)} of {len(runs)} runs diverged (a loss was not a finite "
            f"number): {named}{more}; a lower learning_rate may help",
            soft_wrap=True,
        )
        raise typer.Exit(1)
