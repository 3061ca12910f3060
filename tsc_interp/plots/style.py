"""How every figure looks: one layout, light and dark.

A figure is made without a theme of its own: backgrounds are transparent, and neutral parts (text,
axes, grid, decision lines, where a colour scale is neither one thing nor the other) come from a
template, `template(dark)`, which a page swaps when the reader changes between light and dark. So
never write black or white into a figure: use a colour that means something (`colours`), `INK` for
a neutral line that must show on both, or nothing at all and let the template decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from tsc_interp.plots.colours import (
    INK,
    MUTED,
    NEGATIVE,
    POSITIVE,
    WRONG,
    Look,
    diverging,
    mix,
    token_style,
)
from tsc_interp.plots.figure import Figure
from tsc_interp.plots.labels import Label, place_labels, spread_labels

__all__ = [
    "INK", "MUTED", "NEGATIVE", "POSITIVE", "WRONG", "Figure", "Label", "add_arrow", "add_points",
    "annotation", "decision_line", "decision_shape", "diverging", "equal_axes", "new_figure",
    "place_labels", "spread_labels", "template", "token_style",
]  # fmt: skip

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_PAD = 0.18
DECISION = {"type": "line", "line": {"width": 2, "dash": "dash"}}
"""A shape without a colour: the template's ink."""


def new_figure(
    x: str = "", y: str = "", *, height: int = 420, legend: bool = False, dark: bool = False
) -> go.Figure:
    """An empty figure in the house style, its axes named."""
    # All at once: a figure that is made without a template first gets plotly's own, a large one.
    layout = {
        "template": template(dark),
        "height": height,
        "showlegend": legend,
        "margin": {"l": 56, "r": 16, "t": 36 if legend else 16, "b": 48},
        "xaxis_title": x or None,
        "yaxis_title": y or None,
    }
    return go.Figure(layout=layout)


@cache
def template(dark: bool = False) -> go.layout.Template:
    """Everything neutral about a figure: the only part that differs between light and dark."""
    ink, soft, grid, even, full = (
        ("#e6e6e6", "#a8a8a8", "#3a3d42", "#23272e", "#9fc0e0")
        if dark
        else ("#1f2328", "#57606a", "#dfe3e8", "#f4f4f4", "#3c5d7d")
    )
    axis = {
        "gridcolor": grid,
        "zerolinecolor": soft,
        "zerolinewidth": 1,
        "linecolor": soft,
        "tickcolor": soft,
        "tickfont": {"color": ink},
        "automargin": True,
        "ticklabelstandoff": 3,
        "title": {"standoff": 8},
    }
    scene_axis = {
        "gridcolor": grid,
        "zerolinecolor": soft,
        "linecolor": soft,
        "showbackground": False,
    }
    return go.layout.Template(
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 13, "color": ink},
            "colorway": list(MUTED),
            "colorscale": {
                "sequential": [(0.0, even), (1.0, full)],
                "diverging": _diverging(even),
            },
            "shapedefaults": {"line": {"color": ink}},
            "xaxis": axis,
            "yaxis": axis,
            "scene": {"xaxis": scene_axis, "yaxis": scene_axis, "zaxis": scene_axis},
            "annotationdefaults": {
                "font": {"color": ink},
                "arrowcolor": soft,
                "showarrow": False,
                "bgcolor": "rgba(21,24,28,0.8)" if dark else "rgba(255,255,255,0.8)",
            },
            # plotly paints the pressed and the hovered button nearly white, whatever the theme.
            "updatemenudefaults": {
                "bgcolor": "#f6f8fa",
                "bordercolor": soft,
                "font": {"color": "#1f2328"},
            },
            "sliderdefaults": {"font": {"color": ink}, "bordercolor": soft, "bgcolor": grid},
            "hoverlabel": {"font": {"family": FONT, "size": 13}},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "hovermode": "closest",
        },
        # Contours are decision curves.
        data={"contour": [{"line": {"color": ink, "width": 2}}]},
    )


def _diverging(even: str) -> list[tuple[float, str]]:
    """From no to yes over what is neither; steep near zero, where the sign matters most."""
    rises = ((1.0, 1.0), (0.5, 0.8), (0.1, 0.45))
    below = [(0.5 - at / 2, mix(NEGATIVE, even, share)) for at, share in rises]
    above = [(0.5 + at / 2, mix(POSITIVE, even, share)) for at, share in reversed(rises)]
    return [*below, (0.5, even), *above]


def equal_axes(figure: go.Figure, points: ArrayLike, *, with_origin: bool = True) -> None:
    """The same scale on both axes, a square around the points (and the origin): angles are true."""
    xy = np.asarray(points, dtype=float).reshape(-1, 2)
    xy = xy[np.isfinite(xy).all(axis=1)]
    if with_origin or not len(xy):
        xy = np.vstack([xy, [0.0, 0.0]])
    low, high = xy.min(axis=0), xy.max(axis=0)
    half = max(float((high - low).max()) / 2, 1e-9) * (1 + 2 * _PAD)
    middle = (low + high) / 2
    figure.update_xaxes(range=[middle[0] - half, middle[0] + half], constrain="domain")
    figure.update_yaxes(
        range=[middle[1] - half, middle[1] + half],
        scaleanchor="x",
        scaleratio=1,
        constrain="domain",
    )


def add_arrow(
    figure: go.Figure,
    end: Sequence[float] | NDArray[np.float64],
    start: Sequence[float] | NDArray[np.float64] = (0.0, 0.0),
    *,
    colour: str = INK,
    dash: str = "solid",
    hover: str | None = None,
    standoff: float = 0.0,
) -> None:
    """A vector as a trace (so it can be hovered, hidden and animated), its head at `end`.

    `standoff` keeps the head that many pixels short of `end`, where a marker stands.
    """
    figure.add_scatter(
        x=[start[0], end[0]],
        y=[start[1], end[1]],
        mode="lines+markers",
        line={"color": colour, "width": 2.0, "dash": dash},
        marker={
            "symbol": ["circle", "arrow"],
            "size": [0, 11],
            "angleref": "previous",
            "color": colour,
            "line": {"width": 0},
            "standoff": [0, standoff],
        },
        showlegend=False,
        hovertemplate=f"{hover}<extra></extra>" if hover else None,
    )


def add_points(
    figure: go.Figure,
    x: ArrayLike,
    y: ArrayLike,
    labels: Sequence[str],
    styles: Sequence[Look],
    hover: str = "%{customdata}<br>(%{x:.4f}, %{y:.4f})<extra></extra>",
    **marker: Any,
) -> None:
    """Add marks that look like what they stand for, and say its name where one points."""
    looks = {"color": [s.colour for s in styles], "symbol": [s.symbol for s in styles], "size": 9}
    figure.add_scatter(x=x, y=y, mode="markers", marker={**looks, **marker}, showlegend=False,
                       customdata=list(labels), hovertemplate=hover)  # fmt: skip


def decision_shape(
    normal: Sequence[float] | NDArray[np.float64], offset: float = 0.0, reach: float = 1e3
) -> dict[str, Any]:
    """The line {x : normal·x = offset} across a plane. No line if the normal is zero."""
    direction = np.asarray(normal, dtype=float)
    length = float(np.hypot(*direction))
    if not length:
        return {**DECISION, "x0": 0, "y0": 0, "x1": 0, "y1": 0, "visible": False}
    foot = direction / length**2 * offset
    along = np.array([-direction[1], direction[0]]) / length * reach
    (x0, y0), (x1, y1) = (foot - along).tolist(), (foot + along).tolist()
    return {**DECISION, "x0": x0, "y0": y0, "x1": x1, "y1": y1}


def decision_line(figure: go.Figure, *, x: float | None = None, y: float | None = None) -> None:
    """Straight across the whole plot, where the logit is zero."""
    if x is not None:
        figure.add_shape({**DECISION, "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "y domain"})
    if y is not None:
        figure.add_shape({**DECISION, "y0": y, "y1": y, "x0": 0, "x1": 1, "xref": "x domain"})


def annotation(label: Label) -> dict[str, Any]:
    """A placed label as plotly draws it: beside its point, with a thin line when it moved away."""
    return {
        "x": label.x,
        "y": label.y,
        "text": label.text,
        "ax": label.dx,
        "ay": -label.dy,
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 0.8,
        "standoff": 5,
        "borderpad": 1,
    }
