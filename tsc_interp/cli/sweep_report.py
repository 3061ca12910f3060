"""`tsc-interp sweep-report`: a page about a sweep."""

from __future__ import annotations

from pathlib import Path

from tsc_interp.cli.common import tell_page


def command(
    directory: Path,
    *,
    out: Path | None = None,
    where: str | None = None,
    plotlyjs: str = "inline",
    open_page: bool = False,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Write a page about a sweep: which options matter, every model, and the outliers.

    Args:
        directory (DIR): A sweep's directory, such as sweeps/width.
        out (FILE.html): The page to write (default: DIR/report.html).
        where (SQL): Only these rows, such as 'd_model = 4 and horizon < 50'.
        plotlyjs: inline, cdn, or directory (plotly.min.js beside the page).
    """
    from tsc_interp.report.sweep import sweep_report

    written = sweep_report(directory, out, where=where, plotlyjs=plotlyjs, force=force)
    size = written.stat().st_size / 1000
    tell_page(written, quiet=quiet, open_page=open_page, what=f"report ({size:,.0f} kB)")
