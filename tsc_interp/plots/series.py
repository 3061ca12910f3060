"""Lines, marks and strips, one kind after another, and the axes they stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from tsc_interp.plots.colours import DASHES, INK, MUTED

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


def add_guide(
    figure: go.Figure, x: ArrayLike, y: ArrayLike, *, width: float = 1, **trace: Any
) -> None:
    """Add a line that only guides the eye: neither hovered nor in the legend."""
    line = {"color": INK, "width": width, "dash": trace.pop("dash", "solid")}
    silent: dict[str, Any] = {"mode": "lines", "hoverinfo": "skip", "showlegend": False}
    figure.add_scatter(x=x, y=y, line=line, **silent, **trace)


def add_strip(
    figure: go.Figure,
    row: float,
    values: ArrayLike,
    middle: float,
    name: str,
    hover: str,
    **series: Any,
) -> None:
    """Add one mark per value around a row, and a bar at their middle."""
    found = np.asarray(values, dtype=float)
    spread = (np.arange(len(found)) / max(len(found) - 1, 1) - 0.5) * 0.5
    add_series(figure, found, row + spread, name, hover, mode="markers", **series)
    add_bar(figure, middle, row, 0.36)


def add_bar(figure: go.Figure, x: float, row: float, half: float) -> None:
    """Add a short upright bar at `x`, around a row."""
    line = {"color": INK, "width": 3}
    figure.add_shape(type="line", x0=x, x1=x, y0=row - half, y1=row + half, line=line)


def name_rows(figure: go.Figure, names: Sequence[str]) -> None:
    """Name the rows 0, 1, ... of a figure, the first on top; a comma may break a line."""
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[name.replace(", ", ",<br>") for name in names],
        autorange="reversed",
        zeroline=False,
    )


def log_axis(figure: go.Figure, axis: str, ticks: Sequence[float] = ()) -> None:
    """Make an axis, `x` or `y`, logarithmic, with these ticks; else with powers of ten."""
    update = figure.update_xaxes if axis == "x" else figure.update_yaxes
    if len(ticks):
        update(type="log", tickvals=list(ticks), ticktext=[_tick(tick) for tick in ticks])
    else:
        update(type="log", dtick=1, exponentformat="power")


def _tick(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def ends(name: str, x: Sequence[float], y: ArrayLike, form: str = ".3g") -> str:
    """Say where a line begins and ends: `window: 0.1 at 4, 0 at 64`."""
    values = np.asarray(y, dtype=float)
    return f"{name}: {values[0]:{form}} at {_tick(x[0])}, {values[-1]:{form}} at {_tick(x[-1])}"
