"""A sweep on one page: distributions by option, options together, outliers, every cell.

    tsc.sweep_report("sweeps/width")          -> sweeps/width/report.html

The page opens from disk without a network, like a report's. Its numbers are queries on the sweep's
rows (`sweeps/analysis.py`); a row that stands out comes with the command that explains its model.
"""

from __future__ import annotations

import os
from pathlib import Path

from tsc_interp.files import write_output
from tsc_interp.output.numbers import counted
from tsc_interp.output.visible import visible
from tsc_interp.report.html import part_of, render_page
from tsc_interp.results.base import Table
from tsc_interp.results.intervals import told_share
from tsc_interp.sweeps import Sweep
from tsc_interp.sweeps.analysis import Analysis, analyse
from tsc_interp.sweeps.figures import figures

_GENERATOR = "tsc-interp sweep"
PAGE = "report.html"


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
    found = sweep if isinstance(sweep, Sweep) else Sweep.open(sweep)
    target = found.path / PAGE if path is None else Path(path)
    page = render_sweep(found, where=where, plotlyjs=plotlyjs)
    write_output(target, page.encode(), is_sweep_page, force=force)
    return target


def is_sweep_page(start: bytes) -> bool:
    return f'content="{_GENERATOR} '.encode() in start


def render_sweep(found: Sweep, *, where: str | None = None, plotlyjs: str = "inline") -> str:
    analysis = analyse(found.table(where))
    drawn = [part_of(figure, 0, "sweep") for figure in figures(analysis)]
    options = len(analysis.factors)
    return render_page(
        "sweep.html",
        plotlyjs,
        generator=_GENERATOR,
        name=found.name,
        about=found.definition.about,
        where=where,
        sentences=sentences(found, analysis, where),
        cells=cell_table(analysis),
        by_option=drawn[:options],
        together=drawn[options:],
        outliers=outlier_table(found, analysis),
        left_out=analysis.left_out,
        path=str(found.path),
    )


def sentences(found: Sweep, analysis: Analysis, where: str | None = None) -> list[str]:
    """What the rows say, in a few numbers."""
    keys = ("models", "no_test_errors", "verified", "proved", "infinite", "diverged")
    total = {key: sum(cell[key] for cell in analysis.cells) for key in keys}
    of = counted(total["models"], "model")
    cells = len(analysis.cells)
    told = [f"{of} in {cells:,} cell{'s' if cells != 1 else ''} of the grid."]
    if where is None and total["models"] < found.models:
        told[0] = f"{of} of the {found.models:,} of this sweep are finished so far."
    told.append(
        f"{told_share(total['no_test_errors'], total['models'])} make no error on test strings."
    )
    if total["verified"]:
        told.append(
            f"{told_share(total['infinite'], total['verified'])} are proved right at every length; "
            f"of {total['proved']:,} the checker derived the horizon again, the other horizons are "
            "as the search found them."
        )
    if total["diverged"]:
        told.append(f"{told_share(total['diverged'], total['models'])} diverged in training.")
    if analysis.factors:
        strongest = analysis.factors[0]
        told.append(
            f"`{strongest.name}` explains {strongest.explained:.0%} of the variance of the "
            f"logarithm of the {analysis.measure}, more than any other option."
        )
    return told


def cell_table(analysis: Analysis) -> Table:
    columns = ("cell", "models", "no test errors", "95% CI", "shortest", "median", "95% CI of it",
               "longest", "infinite")  # fmt: skip
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
    return Table(title="Every cell: up to which length its models are right", columns=columns,
                 rows=rows)  # fmt: skip


def _length(value: float | None) -> str | int:
    return "" if value is None else "infinite" if value == float("inf") else int(value)


def _ends(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return " to ".join("∞" if end == float("inf") else f"{end:,.0f}" for end in (low, high))


def outlier_table(found: Sweep, analysis: Analysis) -> list[dict[str, str]]:
    """Models far from the others of their cell, with the command that explains them."""
    return [
        {
            "row": f"{one.row}",
            "cell": one.cell or "all",
            "seed": f"{one.seed}",
            "measure": f"{one.measure:,.0f}",
            "typical": f"{one.typical:,.0f}",
            "first": one.first_error or "",
            "command": visible(f"tsc-interp analyze --checkpoint {found.path}:{one.row}"),
        }
        for one in analysis.outliers
    ]
