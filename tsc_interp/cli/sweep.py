"""`tsc-interp sweep`: thousands of models, trained, tested and verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tsc_interp.cli.common import JsonOption, QuietOption, messages, output, print_json
from tsc_interp.cli.sweep_view import written_length
from tsc_interp.output.numbers import counted

if TYPE_CHECKING:
    from tsc_interp.sweeps import Sweep


def command(
    file: Path = typer.Argument(
        ..., metavar="FILE.toml", help="The sweep: grids, seeds and options."
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", metavar="DIR", help="Write the sweep here (default: sweeps/NAME)."
    ),
    processes: int | None = typer.Option(
        None, metavar="N", help="The number of processes (default: one per core)."
    ),
    scheduler: str | None = typer.Option(
        None, metavar="ADDRESS", help="A Dask scheduler, such as tcp://10.0.0.1:8786."
    ),
    ensemble: int | None = typer.Option(
        None, metavar="N", help="The most models to train together in one task."
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train, test and verify a grid of configurations and seeds, one row for each model.

    Finished models are kept on disk, so running the command again does only what is missing. Ctrl-C
    finishes the running ensembles; pressed again, it stops at once.
    """
    import time

    from tsc_interp.cli.sweep_view import watching
    from tsc_interp.errors import UsageError
    from tsc_interp.sweeps import sweep
    from tsc_interp.sweeps.executors import connected

    if scheduler is not None and processes is not None:
        raise UsageError("--processes is for this machine; leave it out with --scheduler")
    started = time.perf_counter()
    with connected(scheduler) as client, watching(quiet) as watcher:
        made = sweep(
            file, out, processes=processes, client=client, ensemble=ensemble, watcher=watcher
        )
    seconds = round(time.perf_counter() - started, 3)
    rows = _summary(made)
    if as_json:
        document = {
            "name": made.name,
            "directory": str(made.path),
            "models": made.models,
            "verify": made.options.verify,
            "cells": rows,
            "seconds": seconds,
        }
        print_json("sweep/1", document)
        return
    _print(made, rows)
    messages(quiet).print(
        f"'tsc-interp sweep-report {made.path}' writes a page; --checkpoint {made.path}:ROW "
        "is the model of a row",
        soft_wrap=True,
    )


def _summary(found: Sweep) -> list[dict[str, Any]]:
    from tsc_interp.sweeps.summary import by

    return by(found.table(), "cell")


def _horizons(row: dict[str, Any]) -> list[str]:
    shortest, median, low, high, longest = (
        written_length(row[key])
        for key in ("shortest", "median", "median_low", "median_high", "longest")
    )
    return [shortest, median, f"{low} to {high}" if low else "", longest, f"{row['infinite']:,}"]


def _print(found: Sweep, rows: list[dict[str, Any]]) -> None:
    from tsc_interp.output.table import print_table

    verified = found.options.verify != "off"
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
    print_table(output(), headings, cells, title=found.name, right=range(1, len(headings)))
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
