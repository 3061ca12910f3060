"""Lines, marks and strips, one kind after another, and the axes they stand on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from tsc_interp.plots.colours import DASHES, HATCH, INK, MUTED
from tsc_interp.plots.labels import CHARACTER_WIDTH
from tsc_interp.plots.style import decision_line, new_figure

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")


def add_series(
    figure: go.Figure,
    x: ArrayLike,
    y: ArrayLike,
    name: str,
    hover: str = "%{x}: %{y}",
    *,
    place: int = 0,
    colour: str | None = None,
    dash: str | None = None,
    symbol: str | Sequence[str] | None = None,
    mode: str = "lines+markers",
    width: float = 2,
    size: ArrayLike = 8,
    **trace: Any,
) -> None:
    """Add a line, marks or both; `place` chooses its colour, dash and symbol where none is given.

    `hover` is shown with the name behind it, unless it says what stands there; `trace` goes to
    plotly as it is.
    """
    chosen = colour or MUTED[place % len(MUTED)]
    if "lines" in mode:
        trace["line"] = {"color": chosen, "dash": dash or DASHES[place % len(DASHES)],
                         "width": width}  # fmt: skip
    if "markers" in mode:
        marker = {"color": chosen, "symbol": symbol or SYMBOLS[place % len(SYMBOLS)], "size": size}
        trace["marker"] = {**marker, **trace.get("marker", {})}
    shown = hover if "<extra>" in hover else f"{hover}<extra>{name}</extra>"
    figure.add_scatter(x=x, y=y, mode=mode, name=name, hovertemplate=shown, **trace)


def add_nodes(
    figure: go.Figure, spots: Sequence[tuple[float, float]], names: Sequence[str],
    sides: Sequence[str], hover: Sequence[str] = (), size: float = 16,
) -> None:  # fmt: skip
    """Add the nodes of a graph, each with its name beside it, on axes that are not drawn."""
    x, y = zip(*spots, strict=True)
    add_series(figure, x, y, "", "%{customdata}<extra></extra>" if hover else "",
               mode="markers+text", symbol="circle", size=size, text=names, textposition=sides,
               customdata=list(hover), hoverinfo=None if hover else "skip", showlegend=False,
               cliponaxis=False)  # fmt: skip
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)


def add_guide(
    figure: go.Figure, x: ArrayLike, y: ArrayLike, *, width: float = 1, **trace: Any
) -> None:
    """Add a line that only guides the eye: neither hovered nor in the legend."""
    line = {"color": INK, "width": width, "dash": trace.pop("dash", "solid")}
    silent: dict[str, Any] = {"mode": "lines", "hoverinfo": "skip", "showlegend": False}
    figure.add_scatter(x=x, y=y, line=line, **silent, **trace)


def name_rows(figure: go.Figure, names: Sequence[str], **axis: Any) -> None:
    """Name the rows 0, 1, ... of a figure, the first on top; `axis` goes to plotly as it is."""
    top_down = {"autorange": "reversed", "zeroline": False}
    places = list(range(len(names)))
    figure.update_yaxes(tickvals=places, ticktext=list(names), **{**top_down, **axis})


def broken(names: Sequence[str]) -> list[str]:
    """Names in which a comma breaks the line."""
    return [name.replace(", ", ",<br>") for name in names]


def log_axis(figure: go.Figure, axis: str, ticks: Sequence[float] = ()) -> None:
    """Make an axis, `x` or `y`, logarithmic, with these ticks; else with powers of ten."""
    update = figure.update_xaxes if axis == "x" else figure.update_yaxes
    if len(ticks):
        update(type="log", tickvals=list(ticks), ticktext=[_short(tick) for tick in ticks])
    else:
        update(type="log", dtick=1, exponentformat="power")


def _tick(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _short(value: float) -> str:
    """A power of ten above 9,999 as such: its digits would overlap on a narrow screen."""
    power = round(math.log10(value)) if value > 0 else 0
    return f"10<sup>{power}</sup>" if power > 3 and value == 10**power else _tick(value)


def each(form: str, *columns: Iterable[Any], between: str = "; ") -> str:
    """Say every row of some columns: `each("{} {:.2f}", "ab", [1, 2])` is `a 1.00; b 2.00`."""
    return between.join(form.format(*row) for row in zip(*columns, strict=True))


def ends(name: str, x: Sequence[float], y: ArrayLike, form: str = ".3g") -> str:
    """Say where a line begins and ends: `window: 0.1 at 4, 0 at 64`."""
    values = np.asarray(y, dtype=float)
    return f"{name}: {values[0]:{form}} at {_tick(x[0])}, {values[-1]:{form}} at {_tick(x[-1])}"


# -- signed numbers as bars, each with its number where no bar and no name can be in its way -------

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
    name_rows(figure, names, range=[len(rows) - 0.5, -0.5], autorange=None, showgrid=False)
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
