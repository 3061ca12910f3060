"""The command `tsc-interp`: the list of commands, and what happens when one of them fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tsc_interp._version import __version__
from tsc_interp.cli import (
    analyze,
    evaluate,
    import_,
    info,
    list_,
    playground,
    reproduce,
    train,
    verify,
)
from tsc_interp.errors import TscError

# Some versions of typer carry their own click, others use the installed one: ask typer which.
_ClickError: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="tsc-interp",
    help="Why a small transformer sequence classifier is right or wrong, exactly.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("analyze")(analyze.command)
app.command("eval")(evaluate.command)
app.command("info")(info.command)
app.command("import")(import_.command)
app.command("list")(list_.command)
app.command("reproduce")(reproduce.command)
app.command("train")(train.command)
app.command("playground")(playground.command)
app.command("verify")(verify.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"tsc-interp {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if debug:
        os.environ["TSC_DEBUG"] = "1"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code is 0 fine, 1 failed, 2 wrong usage, 3 does not hold."""
    os.environ.pop("TSC_DEBUG", None)
    try:
        result = app(args=None if arguments is None else list(arguments), standalone_mode=False)
    except _ClickError as error:
        error.show()
        return int(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader has left (`| head`); the rest of the output has nowhere to go.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except TscError as error:
        if os.environ.get("TSC_DEBUG"):
            raise
        return _fail(str(error), error.exit_code)
    return result if isinstance(result, int) else 0


def _fail(message: str, exit_code: int) -> int:
    sys.stderr.write(f"tsc-interp: {message}\n")
    return exit_code


def run() -> None:
    """The installed command."""
    sys.exit(main())
