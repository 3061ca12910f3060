"""`tsc-interp eval`: what a model says about some strings."""

from __future__ import annotations

import sys
from math import isnan
from typing import TYPE_CHECKING

import typer

from tsc_interp.cli.common import (
    CheckpointOption,
    EpochOption,
    JsonOption,
    ModelArgument,
    model_and_strings,
    output,
    print_json,
)

if TYPE_CHECKING:
    from tsc_interp.model.evaluation import Evaluation

_MOST_IN_TABLE = 500
_MOST_NAMED = 10


def command(
    model: ModelArgument = None,
    strings: list[str] | None = typer.Argument(
        None, metavar="STRING", help="Strings such as aac or 'ab{100}c{55}'.", show_default=False
    ),
    checkpoint: CheckpointOption = None,
    epoch: EpochOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate strings: logit, probability, prediction and true label.

    Without strings, a few that exercise the model's task.
    """
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.model.evaluation import evaluate
    from tsc_interp.report.scoring import sensible_strings

    named, texts = model_and_strings(model, strings, checkpoint)
    loaded = load_checkpoint(named, epoch=epoch)
    results = evaluate(loaded, texts or sensible_strings(loaded.config))
    if as_json:
        rows = [result.to_dict() for result in results]
        print_json("eval/1", {"checkpoint": loaded.source, "results": rows})
    else:
        _print_table(loaded.source, loaded.config.question, results)


def _print_table(source: str, question: str, results: list[Evaluation]) -> None:
    from rich.text import Text

    from tsc_interp.output.table import print_table

    console, title = output(), f"{source}: {question}?"
    if len(results) > _MOST_IN_TABLE:
        console.print(Text(title, style="bold"), soft_wrap=True)
        _print_lines(results)
    else:
        rows: list[list[str | Text]] = []
        for row in results:
            answer = Text(str(row.prediction), style="green" if row.correct else "bold red")
            rows.append([row.string, *_numbers(row), answer, str(row.label)])
        share = "P" if results and results[0].logits else "P(1)"
        headings = ["string", "length", "logit", share, "predicted", "label"]
        print_table(console, headings, rows, title=title, right=range(1, 6))
    console.print(_summary(results), soft_wrap=True)


def _numbers(row: Evaluation) -> list[str]:
    return [f"{row.length:,}", f"{row.logit:.4f}", f"{row.probability:.4g}"]


def _print_lines(results: list[Evaluation]) -> None:
    """Many rows, at once and plainly; the string comes last, so that the numbers stay aligned."""
    out = sys.stdout
    out.write(f"{'length':>13} {'logit':>10} {'P(1)':>10} predicted label  string\n")
    for row in results:
        length, logit, probability = _numbers(row)
        classes = f"{row.prediction:9d} {row.label:5d}"
        out.write(f"{length:>13} {logit:>10} {probability:>10} {classes}  {row.string}\n")
    out.flush()


def _summary(results: list[Evaluation]) -> str:
    wrong = [row for row in results if not row.correct]
    right = f"{len(results) - len(wrong):,} of {len(results):,} right"
    if not wrong:
        return right
    named = ", ".join(f"{row.string} ({_mistake(row)})" for row in wrong[:_MOST_NAMED])
    more = len(wrong) - _MOST_NAMED
    return f"{right}; wrong: {named}{f' and {more:,} more' if more > 0 else ''}"


def _mistake(row: Evaluation) -> str:
    if isnan(row.logit) or any(map(isnan, row.logits)):
        return "the logit is not a number"
    if row.logits:
        return f"{row.prediction}, not {row.label}"
    return f"false {'positive' if row.prediction else 'negative'}"
