"""A report as Markdown: the same findings and tables, figures as images or as links to the page."""

from __future__ import annotations

from collections.abc import Mapping

from tsc_interp.probes.base import Cell, Table
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.numbers import format_cell, is_number
from tsc_interp.report.report import Report
from tsc_interp.report.reproduce import command, python

GENERATOR = "<!-- made by tsc-interp -->"


def render_markdown(report: Report, *, images: Mapping[str, str] | None = None) -> str:
    """`images` maps a figure's anchor to the file that shows it; others link to `index.html`."""
    lines = [GENERATOR, f"# {report.title}", ""]
    for model in report.models:
        if len(report.models) > 1:
            lines += [f"## {model.card.name}", ""]
        for _, finding in model.findings():
            lines.append(f"- **{finding.severity}**: {finding.text}")
        lines += [f"- *{name}* does not apply: {reason}" for name, reason in model.not_run.items()]
        lines += ["", f"Weight hash `{model.card.weight_hash}`.", ""]
    for name in report.probe_names():
        lines += _section(report, name, images or {})
    return "\n".join(lines).rstrip() + "\n"


def anchor(index: int, probe: str, figure: str) -> str:
    """The name of a figure within a report: page anchor and file name."""
    return f"{probe}-{figure}" if index == 0 else f"{probe}-{figure}-{index + 1}"


def _section(report: Report, name: str, images: Mapping[str, str]) -> list[str]:
    shown = [(i, model) for i, model in enumerate(report.models) if name in model.sections]
    if not shown:
        return []
    probe = shown[0][1].sections[name].probe
    lines = [f"## {probe.title}", "", f"*{probe.question}*", ""]
    for index, model in shown:
        if len(report.models) > 1:
            lines += [f"### {model.card.name}", ""]
        lines += _model_section(index, model, name, images)
    fence = "```"
    lines += ["Reproduce it:", "", f"{fence}sh", command(report, name), fence, ""]
    lines += [f"{fence}python", python(report, name), fence, ""]
    return lines


def _model_section(
    index: int, model: ModelReport, name: str, images: Mapping[str, str]
) -> list[str]:
    section = model.sections[name]
    lines = [f"- **{finding.severity}**: {finding.text}" for finding in section.result.findings]
    lines += [f"- {remark}" for remark in section.result.not_applicable] + [""]
    for figure in section.figures:
        key = anchor(index, name, figure.name)
        if key in images:
            lines += [f"![{_plain(figure.alt)}]({images[key]})", ""]
        else:
            lines += [f"[Figure: {figure.title}](index.html#{key}). {figure.alt}", ""]
        lines += [f"{figure.caption}", ""]
    for table in section.result.tables():
        lines += [f"**{table.title}**", "", *_table(table), ""]
    return lines


def _table(table: Table) -> list[str]:
    sides = [
        "---:" if all(is_number(row[index]) for row in table.rows) else "---"
        for index in range(len(table.columns))
    ]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    return [_row([_cell(column) for column in table.columns]), _row(sides), *map(_row, rows)]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return format_cell(cell).replace("|", "\\|")


def _plain(text: str) -> str:
    return text.replace("[", "(").replace("]", ")").replace("\n", " ")
