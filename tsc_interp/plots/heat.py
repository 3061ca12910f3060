"""A table of numbers as coloured cells, the numbers written in as long as they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray
from plotly.subplots import make_subplots

from tsc_interp.output.numbers import percent
from tsc_interp.plots.colours import diverging
from tsc_interp.plots.labels import CHARACTER_WIDTH, LINE_HEIGHT
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
    most = max(1, int(room / LINE_HEIGHT)) if crowded else None
    figure.update_xaxes(_names(columns, most=most), tickangle=-90 if crowded else 0, side="top")
    figure.update_yaxes(_names(rows, down=True), tickangle=0)
    return figure


def _write(number: float, form: str) -> str:
    """Formatted: what rounds to nothing has no sign, and what is not all of it does not say so."""
    if form[0] == "." and form[-1] == "%":
        return percent(number, int(form[1:-1])).replace("over ", ">")
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


def side_by_side(
    titles: Sequence[str], across: int, height: int, x_gap: float = 0.04, y_gap: float = 0.1
) -> go.Figure:
    """An empty figure of plots with these titles, row by row, so many across."""
    down = -(-len(titles) // across)
    specs: list[dict[str, Any] | None] = [
        {} if place < len(titles) else None for place in range(down * across)
    ]
    figure = make_subplots(
        down,
        across,
        specs=[specs[row * across : (row + 1) * across] for row in range(down)],
        subplot_titles=titles,
        horizontal_spacing=x_gap,
        vertical_spacing=y_gap / down,
        figure=new_figure(height=height),
    )
    # Titles stand above the plots, in the margin: room for two lines, in the size of all text.
    return figure.update_annotations(font_size=None).update_layout(margin_t=44)


def panels(
    shown: Sequence[Panel], rows: Sequence[str], columns: Sequence[str], *, x: str, y: str,
    colours: dict[str, Any], hover: str = ".1%",
) -> go.Figure:  # fmt: skip
    """All panels have these rows and columns; the names stand at the left and lower edge."""
    across = min(ACROSS, len(shown))
    titles = [panel.title.replace(" head", "<br>head") for panel in shown]
    figure = side_by_side(titles, across, 80 + -(-len(shown) // across) * 300, y_gap=0.2)
    for place, panel in enumerate(shown):
        line, column = divmod(place, across)
        lowest, first = place + across >= len(shown), column == 0
        at = {"row": line + 1, "col": column + 1}
        figure.add_heatmap(
            z=panel.cells, x=list(range(len(columns))), y=list(range(len(rows))),
            showscale=False, **colours, **at,
            customdata=[[(row, to) for to in columns] for row in rows],
            hovertemplate=f"{panel.title}: %{{customdata[0]}} → %{{customdata[1]}} "
            f"%{{z:{hover}}}<extra></extra>",
        )  # fmt: skip
        figure.update_xaxes(_names(columns, most=MOST_NAMES), showticklabels=lowest, **at)
        figure.update_yaxes(_names(rows, most=MOST_NAMES, down=True), showticklabels=first, **at)
        figure.update_xaxes(title_text=x if lowest else None, **at)
        figure.update_yaxes(title_text=y if first else None, **at)
    return figure


def _names(names: Sequence[str], *, most: int | None = None, down: bool = False) -> dict[str, Any]:
    """An axis of cells: at most so many of them named, nothing drawn behind them."""
    least = -(-len(names) // most) if most else 1
    # In steps that people count in: 0, 20, 40 rather than 0, 11, 22.
    step = next(n * 10**power for power in range(9) for n in (1, 2, 5) if n * 10**power >= least)
    places = list(range(0, len(names), step))
    ends = [-0.5, len(names) - 0.5]
    return {
        "tickvals": places,
        "ticktext": [names[place] for place in places],
        "range": ends[::-1] if down else ends,
        "showgrid": False,
        "zeroline": False,
    }
