"""`tsc-interp eval`: what a model says about some strings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import isnan
from typing import TYPE_CHECKING

from tsc_interp.cli.common import model_and_strings, output, print_json

if TYPE_CHECKING:
    from tsc_interp.checkpoints import Checkpoint
    from tsc_interp.model.evaluation import Evaluation

_MOST_IN_TABLE = 500
_MOST_NAMED = 10


def command(
    model: str | None = None,
    strings: list[str] | None = None,
    *,
    checkpoint: str | None = None,
    epoch: int | None = None,
    as_json: bool = False,
) -> None:
    """Evaluate strings: logit, probability, prediction and true label.

    Without strings, a few that exercise the model's task.

    Args:
        strings (STRING): Strings such as aac or 'ab{100}c{55}'.
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
        _print_table(f"{loaded.source}: {loaded.config.question}?", class_names(loaded), results)


def class_names(loaded: Checkpoint) -> Callable[[int], str]:
    """What an answer is called: the token, where the model writes tokens, else its number."""
    from tsc_interp.strings import FIRST_LETTER
    from tsc_interp.tasks.transducer import Writing

    config = loaded.config
    return config.called[FIRST_LETTER:].__getitem__ if isinstance(config.task, Writing) else str


def _print_table(title: str, name: Callable[[int], str], results: list[Evaluation]) -> None:
    from rich.text import Text

    from tsc_interp.output.table import print_table

    console = output()
    if len(results) > _MOST_IN_TABLE:
        console.print(Text(title, style="bold"), soft_wrap=True)
        _print_lines(results, name)
    else:
        rows: list[list[str | Text]] = []
        for row in results:
            answer = Text(name(row.prediction), style="green" if row.correct else "bold red")
            rows.append([row.string, *_numbers(row), answer, name(row.label)])
        share = "P" if results and results[0].logits else "P(1)"
        headings = ["string", "length", "logit", share, "predicted", "label"]
        print_table(console, headings, rows, title=title, right=range(1, 6))
    console.print(_summary(results, name), soft_wrap=True)


def _numbers(row: Evaluation) -> list[str]:
    return [f"{row.length:,}", f"{row.logit:.4f}", f"{row.probability:.4g}"]


def _print_lines(results: list[Evaluation], name: Callable[[int], str]) -> None:
    """Many rows, at once and plainly; the string comes last, so that the numbers stay aligned."""
    out = sys.stdout
    out.write(f"{'length':>13} {'logit':>10} {'P(1)':>10} predicted label  string\n")
    for row in results:
        length, logit, probability = _numbers(row)
        classes = f"{name(row.prediction):>9} {name(row.label):>5}"
        out.write(f"{length:>13} {logit:>10} {probability:>10} {classes}  {row.string}\n")
    out.flush()


def _summary(results: list[Evaluation], name: Callable[[int], str]) -> str:
    wrong = [row for row in results if not row.correct]
    right = f"{len(results) - len(wrong):,} of {len(results):,} right"
    if not wrong:
        return right
    named = ", ".join(f"{row.string} ({_mistake(row, name)})" for row in wrong[:_MOST_NAMED])
    more = len(wrong) - _MOST_NAMED
    return f"{right}; wrong: {named}{f' and {more:,} more' if more > 0 else ''}"


def _mistake(row: Evaluation, name: Callable[[int], str]) -> str:
    if isnan(row.logit) or any(map(isnan, row.logits)):
        return "the logit is not a number"
    if row.logits:
        return f"{name(row.prediction)}, not {name(row.label)}"
    return f"false {'positive' if row.prediction else 'negative'}"
