"""Signed numbers as bars, each with its number where no bar and no name can be in its way."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from tsc_interp.plots.colours import HATCH
from tsc_interp.plots.labels import CHARACTER_WIDTH
from tsc_interp.plots.style import decision_line, new_figure

_PHONE = 330
"""Pixels across for the names, the bars and the numbers, on the narrowest screen."""


def signed_bars(
    values: Sequence[float],
    names: Sequence[str],
    *,
    x: str,
    colours: Sequence[str],
    hatched: Sequence[bool],
    notes: Sequence[str],
    hover: Sequence[str],
) -> go.Figure:
    """One bar per value from zero, the first on top; `notes` follow the numbers.

    Numbers stand to the right of zero and of the bar, so a bar to the left leaves them its row.
    """
    # A first error is often a hair's breadth from zero: -0.00 would hide its sign and size.
    digits = [2 if abs(value) >= 0.05 or not value else 4 for value in values]
    texts = [f" {v:.{n}f}{note}" for v, n, note in zip(values, digits, notes, strict=True)]
    rows = list(range(len(values)))
    figure = new_figure(x, height=96 + 30 * len(rows))
    looks = list(zip(colours, hatched, strict=True))
    for colour, wrong in dict.fromkeys(looks):
        own = [row for row in rows if looks[row] == (colour, wrong)]
        figure.add_bar(
            x=[values[row] for row in own],
            y=own,
            orientation="h",
            width=0.55,
            marker={"color": colour, "pattern": {"shape": "/" if wrong else "", **HATCH}},
            customdata=[hover[row] for row in own],
            hovertemplate="%{customdata}<extra></extra>",
            showlegend=False,
        )
    figure.add_scatter(
        x=[max(0.0, value) for value in values],
        y=rows,
        mode="text",
        text=texts,
        textposition="middle right",
        hoverinfo="skip",
        showlegend=False,
        cliponaxis=False,
    )
    low, high = min([0.0, *values]), max([0.0, *values])
    figure.update_xaxes(range=[low - 0.03 * (high - low), _right_end(values, names, texts, low)])
    figure.update_xaxes(zeroline=False)
    figure.update_yaxes(
        tickvals=rows,
        ticktext=list(names),
        range=[len(rows) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
    )
    figure.update_layout(barmode="overlay")  # each in its row, whatever its trace
    decision_line(figure, x=0)
    return figure


def _right_end(
    values: Sequence[float], names: Sequence[str], texts: Sequence[str], low: float
) -> float:
    """Far enough for every number to be written, also on a phone."""
    room = _PHONE - CHARACTER_WIDTH * max(map(len, names), default=0)
    ends = [0.0]
    for value, text in zip(values, texts, strict=True):
        # The text must fit what is right of the bar's end: a fixed width of a plot not yet known.
        share = min(0.8, CHARACTER_WIDTH * len(text) / max(room, 100))
        ends.append((max(0.0, value) - share * low) / (1 - share))
    return max(ends) or 1.0
