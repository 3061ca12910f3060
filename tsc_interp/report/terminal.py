"""A report for the terminal: what matters first; all findings and tables if asked."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from tsc_interp.probes.base import Finding, Table
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.numbers import format_cell, is_number
from tsc_interp.report.report import Report

_STYLES = {"failure": "bold red", "warning": "yellow", "note": "cyan", "good": "green"}


def print_report(report: Report, console: Console, *, tables: bool = False) -> None:
    for model in report.models:
        _print_model(model, console, tables)


def _print_model(model: ModelReport, console: Console, tables: bool) -> None:
    console.rule(f"[bold]{escape(model.card.name)}[/bold]", align="left")
    findings = RichTable.grid(padding=(0, 1))
    findings.add_column(width=max(map(len, _STYLES)))
    findings.add_column(overflow="fold")
    told = model.findings()
    shown = told if tables else model.highlights()
    for _, finding in shown:
        findings.add_row(
            Text(finding.severity, style=_STYLES[finding.severity]), _sentence(finding)
        )
    console.print(findings)
    if len(shown) < len(told):
        more = f"{len(told) - len(shown)} more findings in the report (or here, with --tables)"
        console.print(Text(more, style="dim"))
    for name, reason in model.not_run.items():
        console.print(Text(f"{name} does not apply: {reason}", style="dim"))
    if tables:
        for section in model.sections.values():
            console.print(Text(f"\n{section.probe.title}: {section.probe.question}", style="bold"))
            for remark in section.result.not_applicable:
                console.print(Text(remark, style="dim"))
            for table in section.result.tables():
                console.print(_rich_table(table))


def _sentence(finding: Finding) -> Text:
    """Code between backticks in bold, without the backticks."""
    text = Text()
    for index, part in enumerate(finding.text.split("`")):
        text.append(part, style="bold" if index % 2 else "")
    return text


def _rich_table(table: Table) -> RichTable:
    shown = RichTable(title=Text(table.title), title_justify="left")
    for index, column in enumerate(table.columns):
        numeric = all(is_number(row[index]) for row in table.rows)
        shown.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(format_cell(cell)) for cell in row))
    return shown
