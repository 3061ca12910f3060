"""`tsc-interp analyze`: ask a model every question and leave a report."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from tsc_interp.cli.common import (
    CheckpointOption,
    EpochOption,
    JsonOption,
    ModelArgument,
    OpenOption,
    QuietOption,
    complete_checkpoint,
    complete_probe,
    model_and_strings,
    only,
    output,
    print_saved,
    working,
)
from tsc_interp.errors import UsageError


class ImageKind(StrEnum):
    png = "png"
    svg = "svg"


class Plotlyjs(StrEnum):
    inline = "inline"
    cdn = "cdn"
    directory = "directory"


def command(
    model: ModelArgument = None,
    strings: list[str] | None = typer.Argument(
        None,
        metavar="STRING",
        help="Strings such as aac or 'ab{100}c{55}' (default: examples, shortest errors).",
        show_default=False,
    ),
    checkpoint: CheckpointOption = None,
    epoch: EpochOption = None,
    probe: list[str] | None = typer.Option(
        None,
        "--probe",
        "-p",
        metavar="NAME",
        help="Run only this probe; repeatable.",
        autocompletion=complete_probe,
    ),
    pair: tuple[str, str] | None = typer.Option(
        None,
        metavar="CLEAN CORRUPTED",
        help="Patch between two strings; runs the patching probe unless --probe names another.",
    ),
    compare: str | None = typer.Option(
        None,
        metavar="MODEL",
        help="Compare with this model; @3 is epoch 3 of the same run.",
        autocompletion=complete_checkpoint,
    ),
    seconds: float | None = typer.Option(
        None,
        help="For order-sensitive models: stop the search after so many seconds (default: 60).",
    ),
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        metavar="DIR",
        help="Write the report here (default: tsc-report/MODEL).",
    ),
    formats: str = typer.Option(
        "html,md,json",
        "--format",
        metavar="LIST",
        help="Formats to write: any of html, md, json, separated by commas.",
    ),
    images: ImageKind | None = typer.Option(
        None, help="Also write each figure as an image (needs a browser)."
    ),
    plotlyjs: Plotlyjs = typer.Option(
        Plotlyjs.inline,
        help="Where plotly.js comes from: inside the page, the network, or a file beside it.",
    ),
    tables: bool = typer.Option(False, "--tables", help="Print every finding and every table."),
    open_page: OpenOption = False,
    force: bool = typer.Option(
        False, "--force", help="Write into a directory that holds other files."
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Analyse a model: print its findings and write a report with figures for the browser.

    With --json the report goes to standard output, and to disk only with --out.
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
        texts, probe = list(pair), probe or ["patching"]
    wanted = [name.strip() for name in formats.split(",") if name.strip()]
    kind = None if images is None else images.value
    check_options(wanted, plotlyjs.value, kind)
    if out is not None:
        check_directory(out, force=force)
    with working(quiet) as say:
        if kind is not None:
            from tsc_interp.report.images import check_images

            say("starting a browser for the images")
            check_images(kind)
        report = analyze(
            named, texts, probes=probe, compare=compare, epoch=epoch, seconds=seconds, progress=say
        )
        page = None
        if out is not None or not as_json:
            say("writing the report")
            page = report.save(
                out,
                formats=wanted,
                plotlyjs=plotlyjs.value,
                images=kind,
                force=force,
            )
    print_saved(report, page, tables=tables, as_json=as_json, quiet=quiet, open_page=open_page)
    if not (as_json or quiet):
        from tsc_interp.report.terminal import print_lessons

        print_lessons(report, output())
