"""`tsc-interp lab`: the laboratories; `tsc-interp lab NAME` runs one and leaves a page.

Each laboratory's options are read off its own record of them, and only when it is named: until
then nothing of it is imported.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsc_interp.cli.common import (
    JsonOption,
    OpenOption,
    QuietOption,
    only,
    output,
    print_json,
    print_saved,
    working,
)
from tsc_interp.cli.grouped import GroupedCommands, PlainCommand

if TYPE_CHECKING:
    from tsc_interp.laboratories.registry import Laboratory


class Laboratories(GroupedCommands):
    """A command for each laboratory of the registry, made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        from tsc_interp.laboratories.registry import LABORATORIES

        return [laboratory.name for laboratory in LABORATORIES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from tsc_interp.laboratories.registry import find_laboratory

        return laboratory_command(find_laboratory(cmd_name))


def laboratory_command(laboratory: Laboratory) -> Any:
    """The command of one laboratory: the options of all, and its own."""
    settings = {"help_option_names": ["-h", "--help"]}
    app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=settings)
    app.command(laboratory.name, cls=PlainCommand)(_function(laboratory))
    return typer.main.get_command(app)


group = typer.Typer(
    cls=Laboratories,
    rich_markup_mode=None,
    invoke_without_command=True,
    no_args_is_help=False,
    help="List the laboratories, or run one by name.",
)


@group.callback()
def list_them(context: typer.Context, as_json: JsonOption = False) -> None:
    if context.invoked_subcommand is not None:
        return
    from tsc_interp.laboratories.registry import LABORATORIES

    rows = [
        {"name": laboratory.name, "question": laboratory.question, "source": laboratory.source}
        for laboratory in LABORATORIES
    ]
    if as_json:
        print_json("laboratories/1", {"laboratories": rows})
        return
    from tsc_interp.output.table import print_table

    title = "laboratories (tsc-interp lab NAME, tsc-interp lab NAME --help)"
    print_table(output(), list(rows[0]), [list(row.values()) for row in rows], title=title)


def _function(laboratory: Laboratory) -> Any:
    """What typer makes a command of: a function whose signature is written here."""
    own, keyword = laboratory.options_type.model_fields, inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, default=None, annotation=_option(name, field))
        for name, field in own.items()
        if name != "quick"
    ]
    of_all = inspect.signature(_run, eval_str=True).parameters.values()
    parameters += [parameter for parameter in of_all if parameter.kind is keyword]

    def command(**options: Any) -> None:
        chosen = {name: options.pop(name) for name in own if name != "quick"}
        _run(laboratory.name, {k: v for k, v in chosen.items() if v is not None}, **options)

    command.__doc__ = (
        f"{laboratory.question}\n\n"
        "Prints findings and writes a page with figures. With --json the result goes to standard "
        "output, and to disk only with --out."
    )
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _option(name: str, field: Any) -> Any:
    """One of a laboratory's own options; its bounds are checked by the laboratory."""
    is_list = isinstance(field.default, tuple)
    kind = field.annotation if field.annotation in (bool, int, float) else str
    usual = ", ".join(map(str, field.default)) if is_list else str(field.default).replace(",", ", ")
    written = f"--{name.replace('_', '-')}"
    flags = [f"{written}/{written.replace('--', '--no-', 1)}"] if kind is bool else [written]
    described = f"{field.description or ''} [default: {usual}]".strip()
    option = typer.Option(
        *flags, help=described, show_default=False,
        metavar="LIST" if is_list else None,
    )  # fmt: skip
    return Annotated[kind | None, option]


def _run(
    name: str,
    options: dict[str, Any],
    *,
    quick: bool = typer.Option(False, "--quick", help="Run a smaller version."),
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        metavar="DIR",
        help="Write the page here (default: tsc-report/lab-NAME).",
    ),
    tables: bool = typer.Option(False, "--tables", help="Print every table as well."),
    open_page: OpenOption = False,
    force: bool = typer.Option(
        False, "--force", help="Write into a directory that holds other files."
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a laboratory with its own options; the others, which all laboratories have, are here."""
    from tsc_interp.laboratories.registry import find_laboratory
    from tsc_interp.report.files import check_directory
    from tsc_interp.report.laboratory import lab

    if as_json:
        only("--json", tables=tables, open=open_page and out is None)
    find_laboratory(name).options_type(quick=quick, **options)  # refused before torch is imported
    if out is not None:
        check_directory(out, force=force)
    with working(quiet) as say:
        report = lab(name, quick=quick, progress=say, **options)
        page = None
        if out is not None or not as_json:
            say("writing the page")
            page = report.save(out, force=force)
    print_saved(report, page, tables=tables, as_json=as_json, quiet=quiet, open_page=open_page)
