"""`tsc-interp falsify`: the simplest input that a model gets wrong, found and proved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsc_interp.cli.common import (
    JsonOption,
    QuietOption,
    messages,
    model_argument,
    output,
    print_json,
    working,
)

if TYPE_CHECKING:
    from tsc_interp.falsification.result import Falsification

_FOUND = 3
_ROWS = 5


def command(
    model: Annotated[str, model_argument("walkthrough")] = "walkthrough",
    config: Path | None = typer.Option(
        None,
        help="For a state saved by torch.save: TOML or JSON with TransformerLens's options "
        "under [model], and frame and task under [reading].",
    ),
    frame: str | None = typer.Option(
        None, help="What inputs look like: '[START] x{20} [END]; x=0..30; START=31; ...'."
    ),
    task: str | None = typer.Option(
        None, help="What is right, such as palindrome (default: the model's)."
    ),
    seconds: float = typer.Option(60, min=0.1, help="Stop after this many seconds."),
    seed: int = typer.Option(0, min=0, help="Equal seeds give equal results."),
    every: bool = typer.Option(
        False, "--every", help="Decide every input of the frame, and count exactly."
    ),
    state: Path | None = typer.Option(
        None, help="Keep the search in this file; a killed search goes on from it."
    ),
    tables: bool = typer.Option(False, help="Print all rows of every table, not five."),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Search for the simplest wrong input of a model of any depth, and prove that it is wrong.

    A search that finds nothing proves nothing. Exit code 3 if a wrong input was found.
    """
    from tsc_interp.falsification.falsify import falsify

    subject: Any = model
    label: Any = task
    if config is not None:
        subject, claim = _described(Path(model), config)
        frame, label = frame or claim.get("frame"), label or claim.get("task")
    with working(quiet) as doing:
        result = falsify(
            subject,
            label,
            frame=frame,
            seconds=seconds,
            seed=seed,
            exhaustive=every,
            state=state,
            progress=doing if messages().is_terminal else None,
        )
    if as_json:
        print_json("falsify/1", result.to_dict())
    else:
        _print(result, None if tables else _ROWS)
    if result.found:
        raise typer.Exit(_FOUND)


def _described(model: Path, config: Path) -> tuple[Any, dict[str, Any]]:
    """The model as TransformerLens builds it, and the claim about it."""
    import warnings

    from tsc_interp.checkpoints.torch_files import read_tensors
    from tsc_interp.model.import_files import build, read_description

    options, claim = read_description(config)
    with warnings.catch_warnings(action="ignore"):
        return build(options, read_tensors(model)), claim


def _print(falsification: Falsification, most: int | None) -> None:
    from tsc_interp.report.terminal import print_result_table

    console = output()
    console.print(f"{falsification.model}: {falsification.frame.partition(';')[0]}", style="bold")
    for finding in falsification.findings:
        console.print(f"  {finding.text.replace('`', '')}")
    left_out = 0
    for table in falsification.tables():
        wrong = table.columns.index("wrong")
        rows = table.rows
        if most is not None and len(rows) > most:
            rows = tuple(sorted(rows, key=lambda row: -float(row[wrong] or 0))[:most])
        left_out += len(table.rows) - len(rows)
        print_result_table(table.model_copy(update={"rows": rows}), console)
    if left_out:
        console.print(f"{left_out} rows with fewer wrong answers are left out: --tables")
