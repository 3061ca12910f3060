"""`tsc-interp eval`: what a model says about some strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tsc_interp.cli.common import CheckpointOption, EpochOption, JsonOption, output, print_json

if TYPE_CHECKING:
    from tsc_interp.model.evaluation import Evaluation

# The report's running examples, for a first look without thinking of any.
EXAMPLES = ["aac", "baac", "ab{100}", "b{2}c{152}", "ab{100}c{55}"]


def command(
    strings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STRING]...", help="Strings such as aac or 'ab{100}c{55}'.", show_default=False
        ),
    ] = None,
    checkpoint: CheckpointOption = "walkthrough",
    epoch: EpochOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate strings: logit, probability, prediction and true label.

    Without strings, the report's own examples.
    """
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.model.evaluation import evaluate

    loaded = load_checkpoint(checkpoint, epoch=epoch)
    results = evaluate(loaded, strings or _examples(loaded.config.alphabet.letters))
    if as_json:
        rows = [result.to_dict() for result in results]
        print_json("eval/1", {"checkpoint": loaded.source, "results": rows})
    else:
        _print_table(loaded.source, loaded.config.task.describe(), results)


def _examples(letters: str) -> list[str]:
    known = [string for string in EXAMPLES if set(string) & set("abc") <= set(letters)]
    return known or [letters[0]]


def _print_table(source: str, question: str, results: list[Evaluation]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{source}: {question}?", title_justify="left")
    for heading in ("string", "length", "logit", "probability", "predicted", "label", "margin"):
        table.add_column(
            heading, justify="left" if heading == "string" else "right", overflow="fold"
        )
    for row in results:
        style = "green" if row.correct else "bold red"
        table.add_row(
            row.string,
            f"{row.length:,}",
            f"{row.logit:.4f}",
            f"{row.probability:.4g}",
            Text(str(row.prediction), style=style),
            str(row.label),
            Text(f"{row.margin:+.4f}", style=style),
        )
    output().print(table)
    output().print(_summary(results), soft_wrap=True)


def _summary(results: list[Evaluation]) -> str:
    wrong = [
        f"{row.string} (false {'positive' if row.prediction else 'negative'})"
        for row in results
        if not row.correct
    ]
    right = f"{len(results) - len(wrong)} of {len(results)} right"
    return f"{right}; wrong: {', '.join(wrong)}" if wrong else right
