"""A table of numbers as coloured cells, the numbers written in as long as they fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from tsc_interp.plots.colours import diverging
from tsc_interp.plots.labels import CHARACTER_WIDTH
from tsc_interp.plots.style import new_figure


def heat(
    cells: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    show: str = ".2f",
    hover: str = ".4g",
    colours: dict[str, Any] | None = None,
    most_written: int = 9,
    words: Sequence[Sequence[str]] | None = None,
) -> go.Figure:
    """`show` formats the number in a cell, if there are at most `most_written` columns.

    `words`, where not empty, stand in a cell instead of its number.
    """
    longest = max(map(len, columns), default=1)
    # On a phone, what the names of the rows leave; too little, and column names stand upright.
    room = 340 - CHARACTER_WIDTH * max(map(len, rows), default=1)
    crowded = CHARACTER_WIDTH * (longest + 1) * len(columns) > room
    figure = new_figure(height=60 + 30 * len(rows) + (8 * longest if crowded else 0))
    figure.update_layout(margin={"t": 30, "b": 12})
    written = len(columns) <= most_written
    figure.add_heatmap(
        z=cells,
        x=list(range(len(columns))),
        y=list(range(len(rows))),
        **(diverging(cells) if colours is None else colours),
        xgap=2,
        ygap=2,
        text=[
            [(words[i][j] if words else "") or _write(cell, show) for j, cell in enumerate(row)]
            for i, row in enumerate(np.asarray(cells).tolist())
        ],
        texttemplate="%{text}" if written else None,
        textfont={"size": 11},
        customdata=[[(row, column) for column in columns] for row in rows],
        hovertemplate=f"%{{customdata[0]}}, %{{customdata[1]}}: %{{z:{hover}}}<extra></extra>",
        showscale=False,
    )
    name_cells(figure, rows, columns, upright=crowded)
    return figure


def name_cells(
    figure: go.Figure, rows: Sequence[str], columns: Sequence[str], upright: bool = False
) -> None:
    """Axes of a heat map: first row on top, columns named above, nothing drawn behind the cells."""
    bare = {"showgrid": False, "zeroline": False}
    figure.update_xaxes(
        tickvals=list(range(len(columns))),
        ticktext=list(columns),
        tickangle=-90 if upright else 0,
        range=[-0.5, len(columns) - 0.5],
        side="top",
        **bare,
    )
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=list(rows),
        tickangle=0,
        range=[len(rows) - 0.5, -0.5],
        **bare,
    )


def _write(number: float, form: str) -> str:
    """Formatted, and a number that rounds to nothing without a sign."""
    text = format(number, form)
    return text if any(digit in "123456789" for digit in text) else text.lstrip("+-")
