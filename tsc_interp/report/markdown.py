"""A report as Markdown: the same findings and tables, figures as links to the page."""

from __future__ import annotations

import re

from tsc_interp.output.numbers import columns_of_numbers, format_cell
from tsc_interp.output.visible import visible
from tsc_interp.report.commands import command, python
from tsc_interp.report.content import ReportContent, anchor, disagreements
from tsc_interp.report.model_report import Section
from tsc_interp.results.base import Table

GENERATOR = "<!-- made by tsc-interp -->"

# Each as a character reference: it stands for itself wherever it is and starts nothing. A brace
# may follow a letter, as in `b{2}`; elsewhere some renderers read attributes in braces.
_SPECIAL = re.compile(r"[\\`*\[\]<>&|~$!#@]|(?<!\w)_|_(?!\w)|(?<![^\W\d_])\{|(?<=www)\.|:(?=//)")


def render_markdown(report: ReportContent) -> str:
    """The whole report; figures link to `index.html`."""
    lines = [GENERATOR, f"# {plain(report.title)}", ""]
    for sentence in report.comparison:
        lines += [prose(sentence), ""]
    if (table := disagreements(report)) is not None:
        lines += [f"**{plain(table.title)}**", "", *_table(table), ""]
    for model in report.models:
        if len(report.models) > 1:
            lines += [f"## {plain(model.card.name)}", ""]
        for _, finding in model.findings():
            lines.append(f"- **{finding.severity}**: {prose(finding.text)}")
        if model.confirmation is not None:
            lines.append(f"- {prose(model.confirmation.tested())}")
        lines += [
            f"- *{plain(name)}* was not run: {prose(reason)}"
            for name, reason in model.not_run.items()
        ]
        if (order := model.card.order) is not None:
            lines += ["", *_table(order.table())]
        lines += ["", f"Weight hash `{model.card.weight_hash}`.", ""]
        if model.card.asked is not None:
            facts = (*model.card.first_facts(), *model.card.facts())
            title = "The model, and what was asked"
            lines += [*_table(Table.from_rows(title, (title, ""), facts)), ""]
    for name in report.probe_names():
        lines += _section(report, name)
    return "\n".join(lines).rstrip() + "\n"


def plain(text: str) -> str:
    """Somebody's text, as text: no tag, no link, no emphasis, no table, on one line."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", visible(text))


def prose(text: str) -> str:
    """A sentence with its `code` as code; the rest is text. An odd backtick is just a backtick.

    What could open a tag is text even between backticks: not every reader knows what is code.
    """
    parts = visible(text).split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    return "".join(
        f"`{part}`" if index % 2 and part and "<" not in part else plain(part)
        for index, part in enumerate(parts)
    )


def _section(report: ReportContent, name: str) -> list[str]:
    shown = [(i, model) for i, model in enumerate(report.models) if name in model.sections]
    if not shown:
        return []
    probe = shown[0][1].sections[name].probe
    lines = [f"## {probe.title}", "", f"*{probe.question}*", ""]
    for index, model in shown:
        if len(report.models) > 1:
            lines += [f"### {plain(model.card.name)}", ""]
        lines += section_lines(model.sections[name], index)
    return lines + again(command(report, name), python(report, name))


def again(shell: str, python: str) -> list[str]:
    """How to get a section again; a model in a Python process has no shell command."""
    in_shell = ["In a shell:", "", *_code(shell), ""] if shell else []
    return [*in_shell, "In Python:", "", *_code(python), ""]


def section_lines(section: Section, index: int = 0) -> list[str]:
    """What was found, the figures and the tables; `index` is the model's place in the report."""
    lines = [
        f"- **{finding.severity}**: {prose(finding.text)}" for finding in section.result.findings
    ]
    lines += [f"- {prose(remark)}" for remark in section.result.not_applicable] + [""]
    for figure in section.figures:
        key = anchor(index, section.probe.name, figure.name)
        link = f"[Figure: {plain(figure.title)}](index.html#{key})"
        lines += [f"{link}. {prose(figure.alt)}", "", prose(figure.caption), ""]
    for table in section.result.tables():
        lines += [f"**{plain(table.title)}**", "", *_table(table), ""]
    return lines


def _code(text: str) -> list[str]:
    """By indentation: a fence is not known to every renderer and can be closed from within."""
    return [f"    {line}" for line in text.splitlines()]


def _table(table: Table) -> list[str]:
    right = columns_of_numbers(table.rows)
    sides = ["---:" if c in right else "---" for c in range(len(table.columns))]
    cells = (table.columns, *table.rows)
    columns, *rows = ([plain(format_cell(cell)) for cell in row] for row in cells)
    return [f"| {' | '.join(row)} |" for row in (columns, sides, *rows)]
