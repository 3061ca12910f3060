"""Number lines: what a one-dimensional head deserves, instead of an empty plane."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from tsc_interp.plots.colours import INK, Look, token_style
from tsc_interp.plots.labels import spread_labels
from tsc_interp.plots.series import name_rows
from tsc_interp.plots.style import add_points, new_figure

# The narrowest plot a page promises, on a phone; wider plots only loosen the labels.
NARROWEST = 250
_TIER = 20

Points = Sequence[tuple[str, float]]


def number_line(
    rows: Sequence[tuple[str, Points]], *, x: str, styles: Mapping[str, Look] | None = None
) -> go.Figure:
    """One horizontal line per row, from top to bottom, its points named above it.

    `rows` are (row label, [(point label, value), ...]). A point's colour is that of the token it is
    named after, unless `styles` says otherwise. Short labels are meant: tokens, not strings. They
    are spread, and stacked if they must be, so that none overlap.
    """
    values = [value for _, points in rows for _, value in points if math.isfinite(value)]
    low, high = min([0.0, *values]), max([0.0, *values])
    margin = 0.08 * (high - low or 1.0)
    low, high = low - margin, high + margin
    figure = new_figure(x)
    figure.update_xaxes(range=[low, high])
    names = [name for name, _ in rows]
    name_rows(figure, names, range=[len(rows) - 0.65, -0.75], autorange=None, showgrid=False)
    for index, (name, points) in enumerate(rows):
        _draw_row(figure, index, name, points, styles or {})
    _name_rows(figure, dict(enumerate(points for _, points in rows)))
    return figure


def name_points(figure: go.Figure) -> None:
    """Place the labels of a number line again, for the range its axis has now."""
    rows: dict[int, list[tuple[str, float]]] = {}
    for note in figure.layout.annotations:
        rows.setdefault(int(note.y), []).append((note.text, float(note.x)))
    _name_rows(figure, rows)


def _name_rows(figure: go.Figure, rows: Mapping[int, Points]) -> None:
    """Names above their points; a figure whose labels must be stacked becomes higher."""
    low, high = figure.layout.xaxis.range
    named = {index: _named(points, low, high) for index, points in rows.items()}
    tiers = max((tier for labels in named.values() for *_, tier in labels), default=0) + 1
    lines = len(figure.layout.yaxis.tickvals)
    figure.layout.height = 96 + ((62 if lines > 4 else 84) + _TIER * (tiers - 1)) * lines
    figure.layout.annotations = [
        {
            "x": value,
            "y": index,
            "axref": "x",
            "ax": place,
            "ay": -(24 + _TIER * tier),
            "text": text,
            "showarrow": True,
            "arrowhead": 0,
            "arrowwidth": 0.8,
            "standoff": 6,
            "borderpad": 1,
        }
        for index, labels in named.items()
        for value, place, text, tier in sorted(labels, key=lambda label: -label[-1])
    ]


def _draw_row(
    figure: go.Figure, index: int, name: str, points: Points, styles: Mapping[str, Look]
) -> None:
    figure.add_shape(
        {"x0": 0, "x1": 1, "xref": "x domain", "y0": index, "y1": index, "layer": "below"},
        line={"color": INK, "width": 1},
    )
    looks = [styles.get(label) or _style_of(label) for label, _ in points]
    labels, values = [label for label, _ in points], [value for _, value in points]
    hover = f"%{{customdata}}: %{{x:.4f}}<extra>{name}</extra>"
    ring = {"width": 1, "color": INK}
    add_points(figure, values, [index] * len(points), labels, looks, hover, size=11, line=ring)


def _named(points: Points, low: float, high: float) -> list[tuple[float, float, str, int]]:
    """(value, where its label stands, label, tier); points too close share a label."""
    merged: dict[float, list[str]] = {}
    for label, value in sorted(points, key=lambda point: point[1]):
        if math.isfinite(value):
            close = (known for known in merged if value - known <= 0.004 * (high - low))
            merged.setdefault(next(close, value), []).append(label)
    texts = [", ".join(labels) for labels in merged.values()]
    widths = [(7.5 * len(text) + 8) * (high - low) / NARROWEST for text in texts]
    # A tier is filled to nine tenths at most: every n-th label is not exactly an n-th of them all.
    tiers = max(1, math.ceil(sum(widths) / (0.9 * (high - low))))
    known = list(merged)
    placed = []
    for tier in range(tiers):
        places = spread_labels(known[tier::tiers], widths[tier::tiers], low=low, high=high)
        for value, place, text in zip(known[tier::tiers], places, texts[tier::tiers], strict=True):
            placed.append((value, place, text, tier))
    return placed


def _style_of(label: str) -> Look:
    known = label in ("CLS", "PAD") or (len(label) == 1 and "a" <= label <= "z")
    return token_style(label) if known else Look(INK, "circle")
