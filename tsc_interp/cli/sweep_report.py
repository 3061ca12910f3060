"""`tsc-interp sweep-report`: the page about a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tsc_interp.cli.common import ForceOption, OpenOption, QuietOption, tell_page

WhereOption = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Only these rows, such as 'd_model = 4 and horizon < 50'."),
]


def command(
    directory: Path = typer.Argument(
        ..., metavar="DIR", help="A sweep's directory, such as sweeps/width."
    ),
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        metavar="FILE.html",
        help="The page to write (default: DIR/report.html).",
    ),
    where: WhereOption = None,
    plotlyjs: str = typer.Option(
        "inline", help="inline, cdn, or directory (plotly.min.js beside the page)."
    ),
    open_page: OpenOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a page about a sweep: which options matter, every model, and the outliers."""
    from tsc_interp.report.sweep import sweep_report

    written = sweep_report(directory, out, where=where, plotlyjs=plotlyjs, force=force)
    size = written.stat().st_size / 1000
    tell_page(written, quiet=quiet, open_page=open_page, what=f"report ({size:,.0f} kB)")
