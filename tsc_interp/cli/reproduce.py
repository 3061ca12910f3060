"""`tsc-interp reproduce`: train the source report's experiments, compare with its figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tsc_interp.cli.common import output, print_json
from tsc_interp.cli.training_view import complain_about_diverged, print_runs, run_row, watching

if TYPE_CHECKING:
    from tsc_interp.reproduction.published import PublishedFigure


def command(
    experiments: list[str] | None = None,
    *,
    runs: Path = Path("runs"),
    check: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Train the source report's experiments, all 45 runs or those named, and test them.

    Runs already in the runs directory are not trained again.

    Args:
        experiments (NAME): Names of experiments (default: all; see tsc-interp list).
        check: List every published figure; exit 3 if one does not hold.
    """
    import time

    from tsc_interp.processes import cores
    from tsc_interp.reproduction.experiments import SOURCE_EXPERIMENTS, experiment_named
    from tsc_interp.reproduction.published import check_figures
    from tsc_interp.training.jobs import train

    started = time.perf_counter()
    wanted = list(dict.fromkeys(experiments or ["all"]))
    chosen = list(SOURCE_EXPERIMENTS) if "all" in wanted else map(experiment_named, wanted)
    jobs = [job for experiment in chosen for job in experiment.jobs()]
    with watching(quiet) as watcher:
        finished = train(jobs, runs, watcher, processes=cores())
    figures = check_figures(finished)
    seconds = time.perf_counter() - started
    if as_json:
        document = {
            "runs": [run_row(run) for run in finished],
            "claims": [figure.to_dict() for figure in figures],
            "seconds": round(seconds, 3),
        }
        print_json("reproduce/1", document)
    else:
        print_runs(finished, with_horizon=True)
        if check:
            _print_figures(figures)
        held = sum(bool(figure.holds) for figure in figures)
        output().print("horizon: every string up to that length is right, proved exactly")
        output().print(
            f"{held} of {len(figures)} published figures hold; {seconds:.1f} s; runs in {runs}"
        )
    if check and not all(figure.holds for figure in figures):
        raise typer.Exit(3)
    complain_about_diverged(finished)


def _print_figures(figures: list[PublishedFigure]) -> None:
    from itertools import groupby

    from rich.text import Text

    from tsc_interp.output.table import Cell, print_table

    yes, no = Text("yes", style="green"), Text("NO", style="bold red")
    for experiment, group in groupby(figures, key=lambda figure: figure.experiment):
        cells: list[list[Cell]] = [
            [str(figure.seed), figure.statement, _written(figure.published),
             _written(figure.measured), yes if figure.holds else no]
            for figure in group
        ]  # fmt: skip
        headings = ("seed", "figure", "published", "measured", "holds")
        print_table(output(), headings, cells, title=f"{experiment}: published figures")


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and value and not isinstance(value[0], list):
        return ", ".join(_written(item) for item in value)
    return str(value)
