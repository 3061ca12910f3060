"""What the figures of several studies share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from studies.tables import Row, took
from tsc_interp.plots.colours import INK, MUTED, muted
from tsc_interp.plots.style import new_figure
from tsc_interp.results.intervals import share_interval, told_percent

LOG = {"type": "log", "dtick": 1, "exponentformat": "power"}
LIMIT = 10**6
"""Where searches end; a model without an error up to there is drawn here."""


def horizon_of(row: Row) -> int:
    """The largest length without an error; `LIMIT` where none was found."""
    return LIMIT if row["first_error"] is None else int(row["first_error"]) - 1


def grouped(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def share(rows: Sequence[Row], holds: Callable[[Row], bool]) -> float:
    return sum(map(holds, rows)) / len(rows)


def told(rows: Sequence[Row], holds: Callable[[Row], bool], digits: int = 0) -> str:
    """Return the share of rows for which something holds, with its interval over seeds."""
    return told_percent(sum(map(holds, rows)), len(rows), digits)


def ends(rows: Sequence[Row], holds: Callable[[Row], bool]) -> str:
    """Return the interval of a share for a table: `77-84%`."""
    low, high = share_interval(sum(map(holds, rows)), len(rows))
    return f"{low:.0%}-{high:.0%}".replace("%-", "-")


def costs(*names: str) -> str:
    """How the results are made again, and how long that took."""
    seconds = sum(took(name)["processor_seconds"] for name in names)
    written = f"{seconds} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    command = f"python -m studies {' '.join(names)}"
    return f"`{command}` computes these results again ({written} of processor time)."


def dots_by_group(groups: dict[str, Sequence[float]], x: str, height: int = 0) -> go.Figure:
    """A row of dots per group on a log axis, its median marked; zero is drawn at 0.5."""
    plot = new_figure(x=x, height=height or 90 + 42 * len(groups))
    rng = np.random.default_rng(0)
    for place, (name, values) in enumerate(groups.items()):
        shown = np.maximum(np.asarray(values, dtype=float), 0.5)
        plot.add_scatter(
            x=shown, y=place + rng.uniform(-0.3, 0.3, len(shown)), mode="markers",
            marker={"color": MUTED[place % len(MUTED)], "size": 5, "opacity": 0.5},
            hovertemplate=f"{name}: %{{x:,.0f}}<extra></extra>",
        )  # fmt: skip
        plot.add_scatter(
            x=[float(np.median(shown))], y=[place], mode="markers", hoverinfo="skip",
            marker={"symbol": "line-ns", "size": 22, "line": {"width": 3, "color": INK}},
        )  # fmt: skip
    plot.update_xaxes(**LOG)
    plot.update_yaxes(
        tickvals=list(range(len(groups))), ticktext=list(groups), autorange="reversed",
        zeroline=False,
    )  # fmt: skip
    return plot


def lines(
    curves: dict[str, tuple[Sequence[float], Sequence[float]]],
    x: str,
    y: str,
    *,
    height: int = 380,
    log_x: bool = False,
    log_y: bool = False,
) -> go.Figure:
    plot = new_figure(x=x, y=y, height=height, legend=len(curves) > 1)
    for index, (name, (xs, ys)) in enumerate(curves.items()):
        style = muted(index)
        plot.add_scatter(
            x=list(xs), y=list(ys), name=name, mode="lines+markers", line={**style, "width": 2},
            marker={"size": 7, "color": style["color"]},
        )  # fmt: skip
    if log_x:
        plot.update_xaxes(**LOG)
    if log_y:
        plot.update_yaxes(**LOG)
    return plot


def median_of(rows: Sequence[Row], value: Callable[[Row], float]) -> float:
    values: NDArray[np.float64] = np.array([value(row) for row in rows], dtype=np.float64)
    return float(np.median(values))
