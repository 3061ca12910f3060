"""What every command shares: options with one wording, where output goes, how errors end.

Import-light on purpose: `tsc-interp --help` reads this file and must answer at once.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


def complete_checkpoint(start: str) -> list[str]:
    """Bundled names for the shell to offer; it completes files by itself."""
    from tsc_interp.checkpoints.locate import bundled_names

    return [name for name in bundled_names() if name.startswith(start)]


CheckpointOption = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        "-c",
        metavar="MODEL",
        help="A bundled model, a .safetensors file, or a run directory.",
        autocompletion=complete_checkpoint,
    ),
]
EpochOption = Annotated[
    int | None,
    typer.Option("--epoch", help="Which epoch of a run directory (default: the chosen one)."),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document on standard output, and nothing else."),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace a file or files that tsc-interp did not write.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No messages, no progress.")]


def output() -> Console:
    """For results: standard output."""
    from rich.console import Console

    return Console(highlight=False)


def messages(quiet: bool = False) -> Console:
    """For progress and remarks: standard error, so that output stays clean."""
    from rich.console import Console

    return Console(stderr=True, quiet=quiet, highlight=False)


def print_json(schema: str, document: dict[str, Any]) -> None:
    """One document with its `schema` first, and nothing else on standard output."""
    text = json.dumps({"schema": f"tsc-interp/{schema}", **document}, indent=2, allow_nan=False)
    sys.stdout.write(text + "\n")
