"""A report for the terminal: what matters first; all findings and tables if asked."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tsc_interp.output.numbers import format_cell, is_number
from tsc_interp.output.table import print_table
from tsc_interp.output.visible import visible
from tsc_interp.probes.base import Table
from tsc_interp.report.cause import Confirmation
from tsc_interp.report.compare import disagreements
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.report import Report

_STYLES = {"failure": "bold red", "warning": "yellow", "note": "cyan", "good": "green"}


def print_report(report: Report, console: Console, *, tables: bool = False) -> None:
    for sentence in report.comparison:
        console.print(_sentence(sentence))
    if tables and (table := disagreements(report)) is not None:
        _print_table(table, console)
    for model in report.models:
        _print_model(model, console, tables)


def _print_model(model: ModelReport, console: Console, tables: bool) -> None:
    told = model.findings()
    shown = told if tables else model.highlights()
    rows = [
        (Text(finding.severity, style=_STYLES[finding.severity]), _sentence(finding.text))
        for _, finding in shown
    ]
    print_table(console, ("", ""), rows, title=model.card.name)
    if len(shown) < len(told):
        more = f"{len(told) - len(shown)} more findings in the report (or here, with --tables)"
        console.print(Text(more, style="dim"))
    if model.confirmation is not None:
        console.print(_sentence(_confirmed(model.confirmation)))
    for name, reason in model.not_run.items():
        console.print(Text(visible(f"{name} was not asked: {reason}"), style="dim"))
    if tables:
        for section in model.sections.values():
            console.print(Text(f"\n{section.probe.title}: {section.probe.question}", style="bold"))
            for remark in section.result.not_applicable:
                console.print(Text(visible(remark), style="dim"))
            for table in section.result.tables():
                console.print()
                _print_table(table, console)


def _confirmed(known: Confirmation) -> str:
    return f"`{known.string}` put to the test: {known.sentence()}"


def _sentence(told: str) -> Text:
    """Code between backticks in bold, without the backticks."""
    text = Text()
    for index, part in enumerate(visible(told).split("`")):
        text.append(part, style="bold" if index % 2 else "")
    return text


def _print_table(table: Table, console: Console) -> None:
    numeric = [
        index
        for index in range(len(table.columns))
        if all(is_number(row[index]) for row in table.rows)
    ]
    rows = [[format_cell(cell) for cell in row] for row in table.rows]
    print_table(console, table.columns, rows, title=table.title, right=numeric)
