"""A sweep on one page: its answer, every cell, distributions by option, every model.

    sweep_report("sweeps/width")          -> sweeps/width/report.html

The page opens from disk without a network, like a report's. Its numbers are queries on the sweep's
rows (`sweeps/analysis.py`); a row that stands out comes with the command that explains its model.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tsc_interp.files import write_output
from tsc_interp.output.numbers import counted
from tsc_interp.report.html import part_of, render_page
from tsc_interp.results.base import Table
from tsc_interp.results.intervals import told_share
from tsc_interp.sweeps import Sweep
from tsc_interp.sweeps.analysis import Analysis, analyse
from tsc_interp.sweeps.figures import figures

_GENERATOR = "tsc-interp sweep"
PAGE = "report.html"
REPORTS = "reports"
"""Beside a sweep's rows: a folder for the report of each row that has one."""


def sweep_report(
    sweep: Sweep | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    where: str | None = None,
    plotlyjs: str = "inline",
    force: bool = False,
) -> Path:
    """Write the page about a sweep.

    Args:
        sweep: A sweep, or its directory.
        path: Where to write the page, by default `report.html` in the sweep's directory.
        where: An SQL condition on rows, such as `"d_model = 4"`.
        plotlyjs: `"inline"`, `"cdn"`, or `"directory"` for a file beside the page.
        force: Replace a file that tsc-interp did not write.

    Returns:
        The path of the page.
    """
    opened = sweep if isinstance(sweep, Sweep) else Sweep.open(sweep)
    target = opened.path / PAGE if path is None else Path(path)
    page = render_sweep(opened, where=where, plotlyjs=plotlyjs, beside=target.parent)
    mark = f'content="{_GENERATOR} '.encode()
    write_output(target, page.encode(), lambda start: mark in start, force=force)
    return target


def render_sweep(
    sweep: Sweep,
    *,
    where: str | None = None,
    plotlyjs: str = "inline",
    beside: Path | None = None,
) -> str:
    """The page; links to reports of single models are relative to the folder `beside`."""
    table = sweep.table(where)
    analysis = analyse(table)
    drawn = [part_of(figure, 0, "sweep") for figure in figures(analysis)]
    options = len(analysis.factors)
    return render_page(
        "sweep.html",
        plotlyjs,
        generator=_GENERATOR,
        name=sweep.name,
        about=sweep.definition.about,
        where=where,
        answer=answer(analysis),
        sentences=sentences(sweep, analysis, where),
        cells=cell_table(analysis),
        by_option=drawn[:options],
        together=drawn[options:],
        outliers=[
            (outlier, report_link(sweep, outlier.row, beside), explain(sweep, outlier.row))
            for outlier in analysis.outliers
        ],
        every=model_table(sweep, table, beside),
        most=MOST_MODELS,
        left_out=analysis.left_out,
        path=str(sweep.path),
        command=explain(sweep, "ROW"),
    )


FEWEST = 6
"""With fewer models in a cell there is no 95 % interval of their median."""


def answer(analysis: Analysis) -> str:
    """The question's answer: which cells are best and worst, if any are, and what makes it so."""
    measured = [cell for cell in analysis.cells if cell["median"] is not None]
    if len(measured) < 2:
        return ""
    ranked = sorted(measured, key=lambda cell: (cell["median"], cell["infinite"] / cell["models"]))
    best, worst = ranked[-1], ranked[0]
    if best["median"] == worst["median"]:
        return f"No cell differs in its median first error: {_first(best['median'])} in each."
    return f"{_compared(best, worst)} {_of_options(analysis)}".strip()


def _compared(best: dict[str, Any], worst: dict[str, Any]) -> str:
    few = min(best["models"], worst["models"]) < FEWEST
    if few or worst["median_high"] >= best["median_low"]:
        why = f"a cell has fewer than {FEWEST} models" if few else "their 95 % intervals overlap"
        return (
            "No cell is clearly better than another: the median first error lies between "
            f"{_first(worst['median'])} (`{worst['cell']}`) and {_first(best['median'])} "
            f"(`{best['cell']}`), but {why}."
        )
    endless = best["median"] == float("inf")
    how = "are right at every length" if endless else f"err at {_first(best['median'])} or later"
    return (
        f"Models of `{best['cell']}` stay right longest: at least half of them {how}. Those of "
        f"`{worst['cell']}` fail first: at least half of them by {_first(worst['median'])}."
    )


def _of_options(analysis: Analysis) -> str:
    """What the strongest option explains, and whether chance explains as much."""
    strongest = next((factor for factor in analysis.factors if factor.explained > 0), None)
    if strongest is None:
        return ""
    share = f"{strongest.explained:.0%} of the variance of the log length"
    if strongest.clear:
        return f"Of the options, `{strongest.name}` explains the most: {share}."
    return f"No option explains more than chance would; `{strongest.name}` explains {share}."


def _first(reach: float) -> str:
    """From the length up to which a model is right to that of its first error."""
    return "none" if reach == float("inf") else f"length {reach + 1:,.0f}"


def sentences(sweep: Sweep, analysis: Analysis, where: str | None = None) -> list[str]:
    """What the rows say, in a few numbers."""
    keys = ("models", "no_test_errors", "verified", "proved", "infinite", "diverged")
    total = {key: sum(cell[key] for cell in analysis.cells) for key in keys}
    of = counted(total["models"], "model")
    cells = len(analysis.cells)
    lines = [f"{of} in {cells:,} cell{'s' if cells != 1 else ''} of the grid."]
    if where is None and total["models"] < sweep.models:
        lines[0] = f"{of} of the {sweep.models:,} of this sweep are finished so far."
    lines.append(
        f"{told_share(total['no_test_errors'], total['models'])} make no error on test strings."
    )
    if total["verified"]:
        lines.append(
            f"{told_share(total['infinite'], total['verified'])} are proved right at every length. "
            f"The independent checker confirmed {total['proved']:,} of {total['verified']:,} "
            "horizons."
        )
    if total["diverged"]:
        lines.append(f"{told_share(total['diverged'], total['models'])} diverged in training.")
    return lines


def cell_table(analysis: Analysis) -> Table:
    columns = ("cell", "models", "no test errors", "95% CI", "first error: shortest", "median",
               "95% CI of it", "longest", "never wrong")  # fmt: skip
    rows = tuple(
        (
            cell["cell"] or "all", cell["models"], cell["no_test_errors"],
            f"{cell['no_test_errors_low']:.0%} to {cell['no_test_errors_high']:.0%}",
            _length(cell["shortest"]), _length(cell["median"]),
            _ends(cell["median_low"], cell["median_high"]),
            _length(cell["longest"]), cell["infinite"],
        )
        for cell in analysis.cells
    )  # fmt: skip
    return Table.from_rows("Every cell: the length of its models' first error", columns, rows)


def _length(value: float | None) -> str | int:
    return "" if value is None else "∞" if value == float("inf") else int(value) + 1


def _ends(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return " to ".join("∞" if end == float("inf") else f"{end + 1:,.0f}" for end in (low, high))


MOST_MODELS = 1_000
"""Rows of single models a page holds; those with the shortest first error come first."""


def model_table(sweep: Sweep, table: Any, beside: Path | None) -> list[dict[str, Any]]:
    """Every model, the worst first, with its report if there is one."""
    rows, endless = table.to_dicts(), float("inf")
    for row in rows:
        row["length"] = endless if row["infinite"] else row["first_error_length"]
    rows.sort(key=lambda row: (endless if row["length"] is None else row["length"], row["row"]))
    return [
        {
            "row": row["row"], "cell": row["cell"] or "all", "seed": row["seed"],
            "errors": row["test_errors"], "first": row["first_error"] or "",
            "length": "∞" if row["length"] == endless else row["length"],
            "report": report_link(sweep, row["row"], beside),
        }
        for row in rows[:MOST_MODELS]
    ]  # fmt: skip


def report_link(sweep: Sweep, row: int, beside: Path | None) -> str | None:
    """Where the report of a row is, seen from the page; None if it has none."""
    page = sweep.path / REPORTS / str(row) / "index.html"
    if not page.is_file():
        return None
    return quote(os.path.relpath(page, beside or sweep.path).replace(os.sep, "/"))


def explain(sweep: Sweep, row: int | str) -> str:
    """The command that writes a row's report to where the page looks for it."""
    return f"tsc-interp analyze {sweep.path}:{row} --out {sweep.path / REPORTS / str(row)}"
