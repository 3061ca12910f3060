"""A table of numbers as coloured cells, the numbers written in as long as they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

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


# -- small heat maps side by side, with one scale and one set of names -----------------------------


ACROSS = 2
MOST_NAMES = 8
"""More names than this along a panel are thinned out."""


@dataclass(frozen=True)
class Panel:
    title: str
    cells: NDArray[np.float64]
    """`[row column]`."""


def panels(
    shown: Sequence[Panel], rows: Sequence[str], columns: Sequence[str], *, x: str, y: str,
    colours: dict[str, Any], hover: str = ".1%",
) -> go.Figure:  # fmt: skip
    """All panels have these rows and columns; the names stand at the left and lower edge."""
    across = min(ACROSS, len(shown))
    down = -(-len(shown) // across)
    figure = new_figure(height=80 + down * 300)
    gap_x, gap_y = 0.04, 0.2 / max(down, 1)
    wide, high = (1 - gap_x * (across - 1)) / across, (1 - gap_y * down) / down
    for place, panel in enumerate(shown):
        line, column = divmod(place, across)
        left, top = column * (wide + gap_x), 1 - line * (high + gap_y) - gap_y
        name = "" if place == 0 else str(place + 1)
        figure.add_heatmap(
            z=panel.cells, x=list(range(len(columns))), y=list(range(len(rows))),
            xaxis=f"x{name}", yaxis=f"y{name}", showscale=False, **colours,
            customdata=[[(row, to) for to in columns] for row in rows],
            hovertemplate=f"{panel.title}: %{{customdata[0]}} → %{{customdata[1]}} "
            f"%{{z:{hover}}}<extra></extra>",
        )  # fmt: skip
        lowest = place + across >= len(shown)
        figure.update_layout({
            f"xaxis{name}": {**_names(columns, lowest), "domain": [left, left + wide],
                             "anchor": f"y{name}", "title": x if lowest else None,
                             "range": [-0.5, len(columns) - 0.5]},
            f"yaxis{name}": {**_names(rows, column == 0), "domain": [max(0.0, top - high), top],
                             "anchor": f"x{name}", "title": y if column == 0 else None,
                             "range": [len(rows) - 0.5, -0.5]},
        })  # fmt: skip
        figure.add_annotation(
            text=panel.title.replace(" head", "<br>head"), x=left + wide / 2, y=top, xref="paper",
            yref="paper", xanchor="center", yanchor="bottom", showarrow=False,
        )  # fmt: skip
    return figure


def _names(names: Sequence[str], shown: bool) -> dict[str, Any]:
    step = -(-len(names) // MOST_NAMES)
    at = list(range(0, len(names), step))
    return {
        "tickvals": at, "ticktext": [names[i] for i in at], "showticklabels": shown,
        "showgrid": False, "zeroline": False,
    }  # fmt: skip
