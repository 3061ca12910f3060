"""A report for the terminal: what matters first; all findings and tables if asked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from tsc_interp.output.numbers import columns_of_numbers, counted, format_cell
from tsc_interp.output.table import print_table
from tsc_interp.output.visible import visible
from tsc_interp.report.content import ReportContent, disagreements
from tsc_interp.report.model_report import ModelReport, Section
from tsc_interp.results.base import Finding, ProbeResult, Table

_STYLES = {"failure": "bold red", "warning": "yellow", "note": "cyan", "good": "green"}


def print_report(report: ReportContent, console: Console, *, tables: bool = False) -> None:
    for sentence in report.comparison:
        console.print(_sentence(sentence))
    if tables and (table := disagreements(report)) is not None:
        print_result_table(table, console)
    for model in report.models:
        _print_model(model, console, tables)


def print_lessons(report: ReportContent, console: Console) -> None:
    """Of each model the one sentence to remember."""
    for model in report.models:
        if (lesson := model.card.lesson()) is not None:
            console.print(_sentence(lesson))


def _print_model(model: ModelReport, console: Console, tables: bool) -> None:
    findings = model.findings()
    shown = findings if tables else model.highlights()
    _print_findings([finding for _, finding in shown], console, model.card.name)
    if len(shown) < len(findings):
        more = counted(len(findings) - len(shown), "more finding")
        console.print(Text(f"{more} in the report (or here, with --tables)", style="dim"))
    if model.confirmation is not None:
        console.print(_sentence(model.confirmation.tested()))
    for name, reason in model.not_run.items():
        console.print(Text(visible(f"{name} was not run: {reason}"), style="dim"))
    if tables:
        for section in model.sections.values():
            console.print(Text(f"\n{section.probe.title}: {section.probe.question}", style="bold"))
            _print_tables(section.result, console)


def print_section(section: Section, console: Console, *, tables: bool = False) -> None:
    """A laboratory says little, so all of it is printed; the tables if asked."""
    _print_findings(section.result.findings, console, section.probe.title)
    if tables:
        _print_tables(section.result, console)


def _print_findings(findings: Sequence[Finding], console: Console, title: str) -> None:
    rows = [
        (Text(finding.severity, style=_STYLES[finding.severity]), _sentence(finding.text))
        for finding in findings
    ]
    print_table(console, ("", ""), rows, title=title)


def _print_tables(result: ProbeResult, console: Console) -> None:
    for remark in result.not_applicable:
        console.print(Text(visible(remark), style="dim"))
    for table in result.tables():
        console.print()
        print_result_table(table, console)


def _sentence(sentence: str) -> Text:
    """Code between backticks in bold, without the backticks."""
    text = Text()
    for index, part in enumerate(visible(sentence).split("`")):
        text.append(part, style="bold" if index % 2 else "")
    return text


def print_result_table(table: Table, console: Console) -> None:
    """A result's table, its columns of numbers to the right."""
    rows = [[format_cell(cell) for cell in row] for row in table.rows]
    print_table(
        console, table.columns, rows, title=table.title, right=columns_of_numbers(table.rows)
    )
