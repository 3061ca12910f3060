"""`tsc-interp runs`: what has been trained, and how to name it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsc_interp.cli.common import messages, output, print_json
from tsc_interp.cli.training_view import horizon_of, written_horizon

_SWEEP_COLUMNS = ("row", "cell", "seed", "test_errors", "horizon", "proved", "first_error")

if TYPE_CHECKING:
    from tsc_interp.checkpoints.run_list import StoredRun


def command(
    experiment: str | None = None,
    *,
    runs: Path = Path("runs"),
    horizon: bool = False,
    where: str | None = None,
    sort: str | None = None,
    limit: int = 20,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """List trained models: runs, by the names that other commands take, and sweeps.

    Given the name or directory of a sweep, list its rows (--where, --sort and --limit).

    Args:
        experiment (NAME): Only this experiment's runs, or the rows of this sweep.
        horizon: Also find the horizon of each model.
        where (SQL): Only these rows of a sweep: 'd_model = 4'.
        sort (COLUMN): Sort the rows of a sweep by this column; -COLUMN for descending order.
        limit: The most rows of a sweep to show.
    """
    from tsc_interp.checkpoints.run_list import runs as stored_runs
    from tsc_interp.checkpoints.shards import all_sweeps, find_sweep
    from tsc_interp.errors import UsageError, suggest

    if experiment is not None and (place := find_sweep(experiment)):
        if horizon:
            raise UsageError(
                f"{experiment} is a sweep, whose rows hold their horizons already; leave out "
                "--horizon, and sort by it with --sort horizon"
            )
        _list_rows(place, where, sort, limit, as_json)
        return
    if where is not None or sort is not None:
        raise UsageError("--where and --sort select rows of a sweep; name the sweep")
    stored = stored_runs(runs, experiment)
    sweeps = all_sweeps() if experiment is None else []
    if experiment is not None and not stored:
        names = [*{run.experiment for run in stored_runs(runs)}, *(p.name for p in all_sweeps())]
        raise UsageError(
            f"no runs of an experiment {experiment!r} in {runs}, and no such sweep; "
            + (suggest(experiment, names) or "'tsc-interp runs' lists them").strip()
        )
    if as_json:
        rows = [_row(run, horizon) for run in stored]
        print_json("runs/2", {"runs": rows, "sweeps": _list_sweeps(sweeps, quietly=True)})
        return
    if stored:
        _print(stored, horizon, runs)
    else:
        messages(quiet).print(f"no runs in {runs}; 'tsc-interp train' makes some", soft_wrap=True)
    if sweeps:
        _list_sweeps(sweeps)


def _row(run: StoredRun, with_horizon: bool) -> dict[str, Any]:
    result = run.result
    loss = math.nan if result is None else result.validation_loss
    row = {
        "run": run.address,
        "experiment": run.experiment,
        "cell": dict(run.cell),
        "seed": run.seed,
        "state": run.state,
        "problem": run.problem,
        "epochs": run.epochs,
        "chosen_epoch": None if result is None else result.chosen_epoch,
        "ending": None if result is None else result.ending,
        "validation_loss": loss if math.isfinite(loss) else None,
        "test_errors": run.errors,
        "path": str(run.path),
    }
    if not with_horizon:
        return row
    reach = horizon_of(run)
    return {
        **row,
        "horizon": reach.length if reach and reach.proved else None,
        "verified_length": reach.verified_length if reach else None,
    }


def _print(stored: list[StoredRun], with_horizon: bool, runs: Path) -> None:
    from tsc_interp.output.table import print_table

    headings = ["run", "epochs", "chosen", "test errors"] + ["horizon"] * with_horizon + ["path"]
    cells = [
        [
            run.address,
            str(run.epochs),
            run.state if run.result is None else str(run.result.chosen_epoch),
            "" if run.errors is None else f"{run.errors:,}",
            *([written_horizon(horizon_of(run))] if with_horizon else []),
            str(run.path),
        ]
        for run in stored
    ]
    print_table(output(), headings, cells, right=range(1, len(headings) - 1))
    for problem in [run.problem for run in stored if run.problem]:
        messages().print(problem, soft_wrap=True)
    if runs == Path("runs"):
        messages().print("use a run by its name: tsc-interp analyze NAME", soft_wrap=True)


def _list_sweeps(places: Sequence[Path], quietly: bool = False) -> list[dict[str, Any]]:
    """One row each: how many models it has and is to have; a sweep that cannot be read says so."""
    from tsc_interp.errors import TscError
    from tsc_interp.output.table import print_table
    from tsc_interp.sweeps import Sweep

    rows: list[dict[str, Any]] = []
    problems = []
    for place in places:
        try:
            sweep = Sweep.open(place)
            present, total = int(sweep.present().sum()), sweep.models
        except TscError as error:
            problems.append(str(error))
            continue
        known = {"sweep": sweep.name, "verify": sweep.options.verify, "path": str(place)}
        rows.append({**known, "models": present, "of": total})
    if not quietly:
        cells = [
            [row["sweep"], f"{row['models']:,} of {row['of']:,}", row["verify"], row["path"]]
            for row in rows
        ]
        print_table(output(), ["sweep", "models", "verify", "path"], cells, right=[1])
        for problem in problems:
            messages().print(problem, soft_wrap=True)
        messages().print("'tsc-interp runs SWEEP' lists its rows", soft_wrap=True)
    return rows


def _list_rows(place: Path, where: str | None, sort: str | None, limit: int, as_json: bool) -> None:
    """The rows of a sweep, or some of them; in JSON with every column."""
    from tsc_interp.output.table import print_table
    from tsc_interp.sweeps import Sweep

    sweep = Sweep.open(place)
    table = sweep.table(where)
    if sort is not None:
        column = sort.removeprefix("-")
        if column not in table.columns:
            raise sweep.no_column(column)
        table = table.sort(column, descending=sort.startswith("-"), nulls_last=True)
    rows = table.head(min(limit, len(table))).to_dicts()
    if as_json:
        print_json("sweep-rows/1", {"sweep": sweep.name, "matching": len(table), "rows": rows})
        return
    for row in rows:
        row["horizon"] = "infinite" if row["infinite"] else row["horizon"]
    cells = [[_written(row[name]) for name in _SWEEP_COLUMNS] for row in rows]
    # Two words may stand on two lines.
    headings = [name.replace("_", " ") for name in _SWEEP_COLUMNS]
    print_table(output(), headings, cells, title=sweep.name, right=(0, 2, 3, 4))
    messages().print(
        f"{len(rows):,} of {len(table):,} rows; --checkpoint {place}:ROW is a row's model",
        soft_wrap=True,
    )


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return str(value)
