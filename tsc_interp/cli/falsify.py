"""`tsc-interp falsify`: the simplest input that a model gets wrong, found and proved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tsc_interp.cli.common import messages, output, print_json, working
from tsc_interp.cli.signature import takes

if TYPE_CHECKING:
    from tsc_interp.falsification.result import Falsification

_FOUND = 3
_ROWS = 5


@takes("falsification/falsify.py:falsify")
def command(
    model: str = "walkthrough",
    *,
    config: Path | None = None,
    frame: str | None = None,
    label: str | None = None,
    tables: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Search for the simplest wrong input of a model of any depth, and prove that it is wrong.

    A search that finds nothing proves nothing. Exit code 3 if a wrong input was found.

    Args:
        config: For a state saved by torch.save: TOML or JSON with TransformerLens's options under
            [model], and frame and task under [reading].
        frame: What inputs look like: '[START] x{20} [END]; x=0..30; START=31; ...'.
        label: What is right, such as palindrome (default: the model's).
        exhaustive: Decide every input of the frame, and count exactly.
        tables: Print all rows of every table, not five.
    """
    from tsc_interp.falsification.falsify import falsify

    subject: Any = model
    if config is not None:
        subject, claim = _described(Path(model), config)
        frame, label = frame or claim.get("frame"), label or claim.get("task")
    with working(quiet) as doing:
        result = falsify(
            subject,
            label,
            frame=frame,
            progress=doing if messages().is_terminal else None,
            **options,
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

    from tsc_interp.checkpoints.tensor_files import read_tensors
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
