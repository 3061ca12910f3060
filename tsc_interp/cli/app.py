"""The command `tsc-interp`: the list of commands, and what happens when one of them fails."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from keyword import iskeyword
from typing import Any

import typer

from tsc_interp._version import __version__
from tsc_interp.cli.common import print_json
from tsc_interp.cli.grouped import GroupedCommands
from tsc_interp.cli.signature import command, summary
from tsc_interp.errors import TscError, suggest
from tsc_interp.output.visible import visible, write_everything

# Some versions of typer carry their own click, others use the installed one: ask typer which.
_ClickError: Any = typer.BadParameter.__mro__[2]

COMMANDS: Mapping[str, Sequence[str]] = {
    "Understand a model": ("analyze", "playground", "eval", "info"),
    "Decide every string": ("verify", "falsify", "diff", "theorem"),
    "Change a model": ("intervene", "prune"),
    "Get a model": ("list", "import", "construct", "train", "runs"),
    "Study many models": ("sweep", "sweep-report", "reproduce", "lab"),
}
"""Each has a file of its own with a function `command`, or a `group` of them."""


class Commands(GroupedCommands):
    """Every command, imported and made when it is called."""

    @classmethod
    def table(cls) -> Mapping[str, Mapping[str, str]]:
        return {
            title: {name: summary(_module(name).command) for name in names}
            for title, names in COMMANDS.items()
        }

    @classmethod
    def made(cls, name: str) -> Any:
        if not any(name in names for names in COMMANDS.values()):
            return None
        module = _module(name)
        if hasattr(module, "group"):
            return typer.main.get_command(module.group)
        return command(name, module.command)


def _module(name: str) -> Any:
    file = f"{name}_" if iskeyword(name) else name.replace("-", "_")
    return import_module(f"tsc_interp.cli.{file}")


app = typer.Typer(
    name="tsc-interp",
    cls=Commands,
    help="Find the shortest input a small transformer gets wrong, and see why. Start with: "
    "tsc-interp analyze generalization-errors",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"tsc-interp {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    _asked.update(command=context.invoked_subcommand or "", debug=debug)


_LONGEST = 1000
_INTERRUPTED = 130  # 128 and the number of the signal, as shells have it
_FULL = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)

# typer passes on how pydantic says it.
_OTHER_WORDS = {
    "Value error, ": "",
    "Input should be a valid integer": "expected a whole number",
    "Input should be a valid number": "expected a number",
    "Input should be greater than or equal to": "expected at least",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
}

# What the command line said, for the case that the command fails.
_asked: dict[str, Any] = {}

# How to go on after Ctrl-C; the other commands leave nothing half done.
_AFTER_INTERRUPT = {
    "train": "finished epochs are kept: the same command goes on from there",
    "reproduce": "finished epochs are kept: the same command goes on from there",
    "sweep": "finished ensembles are kept: the same command goes on from there",
    "analyze": "no report was written; --probe NAME asks fewer questions",
    "verify": "nothing was written; a smaller --max-length, or --horizon, takes less time",
}


@cache
def _built() -> Any:
    """What typer makes of `app`: building it takes longer than most commands."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code is 0 fine, 1 failed, 2 wrong usage, 3 does not hold."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in typed[: typed.index("--")] if "--" in typed else "--json" in typed
    _asked.update(command="", debug=False, json=as_json)
    try:
        code = _built()(args=typed, standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except SystemExit as stop:
        # How typer ends when the reader of a pipe has left.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        code = _reader_has_left()
    except BrokenPipeError:
        code = _reader_has_left()
    except Exception as error:
        if _asked["debug"]:
            raise
        code = _explain(error)
    if code == _INTERRUPTED:
        advice = _AFTER_INTERRUPT.get(_asked["command"], "nothing was written")
        _fail(f"interrupted; {advice}", code)
    return code if isinstance(code, int) else 0


def _reader_has_left() -> int:
    """As in `| head`: the rest of the output has nowhere to go, and that is no failure."""
    _discard_output()
    return 0


def _explain(error: Exception) -> int:
    """One line for an error: its own words if it is ours or the system's, else "a bug"."""
    if isinstance(error, TscError):
        return _fail(str(error), error.exit_code)
    if isinstance(error, _ClickError):
        return _wrong_usage(error)
    if isinstance(error, MemoryError):
        return _fail(f"there is not enough memory for this ({error})", 1)
    if isinstance(error, OSError):
        if error.filename is None and error.errno in _FULL:
            _discard_output()
            return _fail(f"cannot write the output: {error.strerror or error}", 1)
        where = "" if error.filename is None else f"{error.filename}: "
        return _fail(f"{where}{error.strerror or error}", 1)
    return _fail(
        f"{type(error).__name__}: {error}. This is a bug in tsc-interp: please report it with what "
        "`tsc-interp --debug ...` prints",
        1,
    )


def _wrong_usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        context = getattr(error, "ctx", None)
        where = context.command_path if context else f"tsc-interp {_asked['command']}".strip()
        message = error.format_message().removesuffix(".")
        if (typed := getattr(error, "option_name", None)) and getattr(error, "possibilities", None):
            names = [name.strip("-") for name in error.possibilities]
            near = suggest(typed.strip("-"), names).replace("'", "'--", 1)
            message = f"No such option: {typed}; {near}".strip("; ")
        for theirs, ours in _OTHER_WORDS.items():
            message = message.replace(theirs, ours)
        _fail(f"{message} (see {where} --help)", 2)
    return int(error.exit_code)


def _fail(message: str, exit_code: int) -> int:
    """On one line of bearable length, whatever the message quotes; with --json as JSON, too."""
    written = visible(message)
    if len(written) > _LONGEST:
        written = f"{written[: _LONGEST // 2]} ... {written[-_LONGEST // 2 :]}"
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"tsc-interp: {written}\n")
    if _asked["json"]:
        with contextlib.suppress(OSError, ValueError):
            print_json("error/1", {"error": message, "exit_code": exit_code})
            sys.stdout.flush()
    return exit_code


def _discard_output() -> None:
    """What is still buffered would fail again when Python closes the stream."""
    sys.stdout = sys.__stdout__ or sys.stdout  # typer may have wrapped it
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run() -> None:
    """The installed command."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell, as in `>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        write_everything(getattr(sys, name))
    sys.exit(main())
