"""`tsc-interp lab`: the laboratories; `tsc-interp lab NAME` runs one and leaves a page.

Each laboratory's options are read off its own record of them, and only when it is named: until
then nothing of it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from tsc_interp.cli import signature
from tsc_interp.cli.common import only, output, print_json, print_saved, working
from tsc_interp.cli.grouped import GroupedCommands


class Laboratories(GroupedCommands):
    """A command for each laboratory of the registry."""

    @classmethod
    def table(cls) -> Mapping[str, Mapping[str, str]]:
        from tsc_interp.laboratories.registry import LABORATORIES

        return {"Laboratories": {one.name: one.question for one in LABORATORIES}}

    @classmethod
    def made(cls, name: str) -> Any:
        from tsc_interp.laboratories.registry import find_laboratory

        laboratory = find_laboratory(name)
        fields = laboratory.options_type.model_fields
        own = [_asked(name, field) for name, field in fields.items() if name != "quick"]

        def body(
            *,
            quick: bool = False,
            out: Path | None = None,
            tables: bool = False,
            open_page: bool = False,
            force: bool = False,
            as_json: bool = False,
            quiet: bool = False,
            **options: Any,
        ) -> None:
            from tsc_interp.report.files import check_directory
            from tsc_interp.report.laboratory import lab

            if as_json:
                only("--json", tables=tables, open=open_page and out is None)
            laboratory.options_type(quick=quick, **options)  # refused before torch is imported
            if out is not None:
                check_directory(out, force=force)
            with working(quiet) as say:
                report = lab(laboratory.name, quick=quick, progress=say, **options)
                page = None
                if out is not None or not as_json:
                    say("writing the page")
                    page = report.save(out, force=force)
            print_saved(
                report, page, tables=tables, as_json=as_json, quiet=quiet, open_page=open_page
            )

        body.__doc__ = f"{laboratory.question}\n\n{_ABOUT}"
        body.asked = lambda told, names: own  # type: ignore[attr-defined]
        return signature.command(laboratory.name, body)


_ABOUT = """\
Prints findings and writes a page with figures. With --json the result goes to standard output, and
to disk only with --out.

Args:
    quick: Run a smaller version.
    out (DIR): Write the page here (default: tsc-report/lab-NAME).
    tables: Print every table as well.
    force: Write into a directory that holds other files.
"""

group = typer.Typer(
    cls=Laboratories,
    rich_markup_mode=None,
    invoke_without_command=True,
    no_args_is_help=False,
)


@group.callback()
def command(
    context: typer.Context,
    as_json: bool = typer.Option(False, "--json", help=signature.HELP["as_json"]),
) -> None:
    """List the laboratories, or run one by name."""
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


def _asked(name: str, field: Any) -> signature.Asked:
    """One of a laboratory's own options; its bounds are checked by the laboratory."""
    is_list = isinstance(field.default, tuple)
    usual = ", ".join(map(str, field.default)) if is_list else str(field.default).replace(",", ", ")
    return signature.Asked(
        name=name,
        kind=field.annotation if field.annotation in (bool, int, float) else str,
        help=f"{field.description or ''} [default: {usual}]".strip(),
        metavar="LIST" if is_list else None,
    )
