"""`tsc-interp analyze`: ask a model every question and leave a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tsc_interp.cli.common import model_and_strings, only, output, print_saved, working
from tsc_interp.cli.signature import takes
from tsc_interp.errors import UsageError


@takes("report/examine.py:analyze")
def command(
    model: str | None = None,
    strings: list[str] | None = None,
    *,
    checkpoint: str | None = None,
    pair: tuple[str, str] | None = None,
    out: Path | None = None,
    formats: str = "html,md,json",
    plotlyjs: Literal["inline", "cdn", "directory"] = "inline",
    tables: bool = False,
    open_page: bool = False,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Analyse a model: print its findings and write a report with figures for the browser.

    With --json the report goes to standard output, and to disk only with --out.

    Args:
        strings (STRING): Strings such as aac or 'ab{100}c{55}' (default: examples, shortest
            errors).
        probes (NAME): Run only this probe; repeatable.
        pair (CLEAN CORRUPTED): Patch between two strings; runs the patching probe unless --probe
            names another.
        compare (MODEL): Compare with this model; @3 is epoch 3 of the same run.
        out (DIR): Write the report here (default: tsc-report/MODEL).
        formats (LIST): Formats to write: any of html, md, json, separated by commas.
        plotlyjs: Where plotly.js comes from: inside the page, the network, or a file beside it.
        tables: Print every finding and every table.
        force: Write into a directory that holds other files.
    """
    from tsc_interp.report.examine import analyze
    from tsc_interp.report.files import check_directory
    from tsc_interp.report.saved import check_options

    if as_json:
        only("--json", tables=tables, open=open_page and out is None)
    named, texts = model_and_strings(model, strings, checkpoint, quiet)
    if pair is not None:
        if texts:
            raise UsageError(f"--pair names the strings; leave out {' '.join(texts)}")
        texts = list(pair)
        options["probes"] = options.get("probes") or ["patching"]
    wanted = [name.strip() for name in formats.split(",") if name.strip()]
    check_options(wanted, plotlyjs)
    if out is not None:
        check_directory(out, force=force)
    with working(quiet) as say:
        report = analyze(named, texts, progress=say, **options)
        page = None
        if out is not None or not as_json:
            say("writing the report")
            page = report.save(out, formats=wanted, plotlyjs=plotlyjs, force=force)
    print_saved(report, page, tables=tables, as_json=as_json, quiet=quiet, open_page=open_page)
    if not (as_json or quiet):
        from tsc_interp.report.terminal import print_lessons

        print_lessons(report, output())
