"""What a report says and shows of two models together: made from what it holds of each."""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from tsc_interp.errors import TscError
from tsc_interp.output.numbers import number
from tsc_interp.plots.figure import Figure
from tsc_interp.plots.shared import share_scales
from tsc_interp.report.content import ReportContent
from tsc_interp.results.base import Table

_MOST_ROWS = 20


def side_by_side(report: ReportContent, probe: str) -> list[list[Figure | None]]:
    """A probe's figures, each with every model's beside it: one range per axis, one per colour."""
    sections = [model.sections.get(probe) for model in report.models]
    sides = [{f.name: f for f in section.figures} if section else {} for section in sections]
    names = dict.fromkeys(name for side in sides for name in side)
    return [_shared([side.get(name) for side in sides]) for name in names]


def _shared(row: list[Figure | None]) -> list[Figure | None]:
    present = [figure for figure in row if figure is not None]
    if len(present) < 2:
        return row
    drawings = iter(share_scales([figure.figure for figure in present]))
    return [figure and replace(figure, figure=next(drawings)) for figure in row]


def disagreements(report: ReportContent) -> Table | None:
    """The strings on which two models differ: by set of letters, the shortest of each."""
    if report.difference is None or not report.difference.differing:
        return None
    first, second = report.short_names
    names = {"first": first, "second": second, None: ""}
    rows = [
        (row.letters, row.shortest, *row.logits, names[row.right], number(row.strings))
        for row in report.difference.disagreements
    ]
    return Table(
        title="Strings they answer differently, by the letters that occur",
        columns=("letters", "shortest", first, second, "right is", "strings"),
        rows=tuple(rows)[:_MOST_ROWS],
    )


def difference_picture(report: ReportContent) -> Markup | None:
    """The map of where they differ; None without the weights, or where there is no map."""
    known = [model.checkpoint for model in report.models if model.checkpoint is not None]
    if report.difference is None or len(known) < 2:
        return None
    from tsc_interp.playground.mapdifference import difference_map

    first, second = report.short_names
    try:
        return Markup(difference_map(known[0], known[1], names=(first, second))) or None
    except TscError:
        return None
