"""A report as one HTML page that opens from disk without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from tsc_interp._version import __version__
from tsc_interp.errors import TscError
from tsc_interp.output import display
from tsc_interp.output.numbers import format_cell, is_number
from tsc_interp.output.visible import visible
from tsc_interp.plots.colours import css_variables
from tsc_interp.plots.figure import CONFIG
from tsc_interp.plots.style import Figure, template
from tsc_interp.report.commands import command, python
from tsc_interp.report.content import (
    ReportContent,
    anchor,
    difference_picture,
    disagreements,
    side_by_side,
)
from tsc_interp.report.dissection import colours_of
from tsc_interp.report.front import front
from tsc_interp.report.plotlyjs import plotly_script
from tsc_interp.results.base import worst_first
from tsc_interp.strings import LETTERS


def render_html(report: ReportContent, *, plotlyjs: str = "inline") -> str:
    """The page. A run's opens with its training. A probe that ran on no model has no card."""
    names = [n for n in report.probe_names() if any(n in model.sections for model in report.models)]
    return render_page(
        "page.html",
        plotlyjs,
        report=report,
        compared=len(report.models) > 1,
        disagreements=disagreements(report),
        difference_map=difference_picture(report),
        fronts=[front(model) for model in report.models],
        sections=[_section(report, name) for name in sorted(names, key=lambda n: n != "dynamics")],
        tryout=_playground(report),
        whole_command=command(report),
    )


def render_page(template_name: str, plotlyjs: str, **known: Any) -> str:
    """A page with figures: the template, what it knows, and what draws the figures."""
    themes = _embed({"light": _theme(dark=False), "dark": _theme(dark=True), "config": CONFIG})
    page = environment().get_template(template_name)
    return page.render(plotly=plotly_script(plotlyjs), themes=themes, **known)


@cache
def environment() -> jinja2.Environment:
    """Templates that escape everything but our own markup."""
    jinja = jinja2.Environment(
        loader=jinja2.PackageLoader("tsc_interp.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_writable,
    )
    jinja.filters |= {"cell": format_cell, "prose": prose}
    jinja.tests["number"] = is_number
    jinja.globals["version"] = __version__
    jinja.globals |= {"letters": LETTERS, "colours_of": colours_of}
    jinja.globals["colours"] = {"light": css_variables(), "dark": css_variables(dark=True)}
    return jinja


def _writable(value: Any) -> Any:
    """Markup is ours; any other text may hold what no encoding can write."""
    return visible(value, keep="\n") if type(value) is str else value


def prose(text: str) -> Markup:
    """A sentence with its `code` set as code, everything else escaped."""
    return Markup(display.prose(text))


def _section(report: ReportContent, name: str) -> dict[str, Any]:
    sides = []
    for model in report.models:
        section = model.sections.get(name)
        sides.append(
            {
                "model": model.card.name,
                "missing": model.not_run.get(name),
                "findings": sorted(section.result.findings, key=worst_first) if section else [],
                "remarks": section.result.not_applicable if section else [],
                "tables": section.result.tables() if section else [],
            }
        )
    rows = side_by_side(report, name)
    return {
        "probe": report.models[0].probe(name),
        "sides": sides,
        "figures": [[part_of(figure, i, name) for i, figure in enumerate(row)] for row in rows],
        "more": _more(sides, len(rows)),
        "command": command(report, name),
        "python": python(report, name),
    }


def _more(sides: Sequence[Mapping[str, Any]], rows: int) -> str:
    """What a card keeps folded, counted."""
    numbers = {
        "finding": sum(max(0, len(side["findings"]) - 1) for side in sides),
        "figure": rows - 1,
        "table": sum(len(side["tables"]) for side in sides),
    }
    counted = [f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in numbers.items() if n > 0]
    return f"More: {', '.join(counted)}" if counted else "More"


def part_of(figure: Figure | None, side: int, probe: str) -> dict[str, Any] | None:
    """What a template needs to draw a figure."""
    if figure is None:
        return None
    drawing = figure.figure.to_plotly_json()
    # The page sets the theme; repeating it in every figure would double the size of the page.
    drawing["layout"] = {k: v for k, v in drawing["layout"].items() if k != "template"}
    return {
        "anchor": anchor(side, probe, figure.name),
        "title": figure.title,
        "caption": figure.caption,
        "alt": figure.alt,
        "height": figure.figure.layout.height or 420,
        "json": _embed(drawing),
    }


def _theme(dark: bool) -> Any:
    return template(dark).to_plotly_json()


def _embed(value: Any) -> Markup:
    """JSON that can stand inside a script element."""
    from plotly.utils import PlotlyJSONEncoder

    text = json.dumps(value, cls=PlotlyJSONEncoder, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def _playground(report: ReportContent) -> dict[str, str] | None:
    """The page to try the model out, or why there is none; a report read from JSON has neither."""
    from tsc_interp.playground import playground_fragment

    known = [model.checkpoint for model in report.models if model.checkpoint is not None]
    if len(known) < len(report.models):
        return None
    try:
        page = playground_fragment(known[0], known[1] if len(known) > 1 else None)
    except TscError as error:
        return {"page": "", "reason": str(error)}
    return {"page": page, "reason": ""}
