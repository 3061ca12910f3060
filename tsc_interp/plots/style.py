"""How every figure looks: one palette, one layout, a token's colour and shape always the same.

A figure is made without a theme of its own: backgrounds are transparent and neutral parts (text,
axes, grid) come from a template, `template(dark)`, which a page swaps when the reader changes
between light and dark. So never write black or white into a figure: use a token's colour, `INK` for
a neutral line that must show on both, or nothing at all and let the template decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from tsc_interp.plots.figure import Figure
from tsc_interp.plots.labels import Label, place_labels, spread_labels

__all__ = [
    "Figure",
    "Label",
    "TokenStyle",
    "add_arrow",
    "add_label",
    "add_line",
    "annotation",
    "diverging",
    "equal_axes",
    "new_figure",
    "place_labels",
    "spread_labels",
    "template",
    "token_style",
]

# Okabe and Ito's colours, told apart with every common kind of colour blindness. Their black is
# left out (it vanishes on a dark page); INK stands in for it.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, YELLOW = "#E69F00", "#56B4E9", "#F0E442"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, YELLOW)
INK = "#808080"
"""A grey with the same contrast on white and on near-black."""

POSITIVE, NEGATIVE = VERMILLION, BLUE
"""A logit above and below zero; the ends of the diverging scale."""
WRONG = PURPLE
"""What the model gets wrong: regions, strings, flips."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""With PALETTE, for lines that are not tokens (heads, strings, seeds): never colour alone."""

_SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "cross",
    "x",
    "star",
    "hexagon",
)
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True)
class TokenStyle:
    colour: str
    symbol: str


def token_style(token: str) -> TokenStyle:
    """The colour and marker of `CLS`, `PAD` or a letter: 26 distinct pairs for the letters."""
    if token == "CLS":
        return TokenStyle(INK, "star-diamond")
    if token == "PAD":
        return TokenStyle(INK, "circle-open")
    place = ord(token[0]) - ord("a")
    lap, step = divmod(place, len(PALETTE))
    return TokenStyle(PALETTE[step], _SYMBOLS[(step + 2 * lap) % len(_SYMBOLS)])


def new_figure(
    x: str = "", y: str = "", *, height: int = 420, legend: bool = False, dark: bool = False
) -> go.Figure:
    """An empty figure in the house style, its axes named."""
    figure = go.Figure()
    figure.update_layout(
        template=template(dark),
        height=height,
        showlegend=legend,
        margin={"l": 56, "r": 16, "t": 16, "b": 48},
        xaxis_title=x or None,
        yaxis_title=y or None,
    )
    return figure


@cache
def template(dark: bool = False) -> go.layout.Template:
    """Everything neutral about a figure: the only part that differs between light and dark."""
    ink, soft, grid = (
        ("#e6e6e6", "#a8a8a8", "#3a3d42") if dark else ("#1f2328", "#57606a", "#dfe3e8")
    )
    axis = {
        "gridcolor": grid,
        "zerolinecolor": soft,
        "zerolinewidth": 1,
        "linecolor": soft,
        "tickcolor": soft,
        "tickfont": {"color": ink},
        "automargin": True,
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
            "colorway": list(PALETTE),
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
        }
    )


def diverging(values: ArrayLike) -> dict[str, Any]:
    """Colour options for signed values: blue below zero, vermillion above, centred on zero.

    Use as `go.Heatmap(z=z, **diverging(z))` or inside `marker` for a scatter.
    """
    finite = np.asarray(values, dtype=float)
    finite = np.abs(finite[np.isfinite(finite)])
    limit = float(finite.max(initial=0.0)) or 1.0
    attribute = {"zmid": 0.0, "zmin": -limit, "zmax": limit}
    return {"colorscale": [(0.0, NEGATIVE), (0.5, "#f4f4f4"), (1.0, POSITIVE)], **attribute}


def equal_axes(
    figure: go.Figure, points: ArrayLike, *, with_origin: bool = True, pad: float = 0.18
) -> None:
    """The same scale on both axes, a square around the points (and the origin): angles are true."""
    xy = np.asarray(points, dtype=float).reshape(-1, 2)
    xy = xy[np.isfinite(xy).all(axis=1)]
    if with_origin or not len(xy):
        xy = np.vstack([xy, [0.0, 0.0]])
    low, high = xy.min(axis=0), xy.max(axis=0)
    half = max(float((high - low).max()) / 2, 1e-9) * (1 + 2 * pad)
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
    name: str | None = None,
    width: float = 2.0,
    dash: str = "solid",
    hover: str | None = None,
    standoff: float = 0.0,
    **trace: Any,
) -> None:
    """A vector as a trace (so it can be hovered, hidden and animated), its head at `end`.

    `standoff` keeps the head that many pixels short of `end`, where a marker stands.
    """
    figure.add_scatter(
        x=[start[0], end[0]],
        y=[start[1], end[1]],
        mode="lines+markers",
        line={"color": colour, "width": width, "dash": dash},
        marker={
            "symbol": ["circle", "arrow"],
            "size": [0, 11],
            "angleref": "previous",
            "color": colour,
            "line": {"width": 0},
            "standoff": [0, standoff],
        },
        name=name,
        showlegend=False,
        hovertemplate=f"{hover}<extra></extra>" if hover else None,
        **trace,
    )


def add_line(
    figure: go.Figure,
    normal: Sequence[float] | NDArray[np.float64],
    *,
    offset: float = 0.0,
    name: str | None = None,
    colour: str = INK,
    dash: str = "dash",
    reach: float = 1e3,
    **trace: Any,
) -> None:
    """The line {x : normal·x = offset} across a plane, such as a decision line."""
    direction = np.asarray(normal, dtype=float)
    length = float(np.hypot(*direction))
    if not length:
        return
    foot = direction / length**2 * offset
    along = np.array([-direction[1], direction[0]]) / length * reach
    ends = np.stack([foot - along, foot + along])
    figure.add_scatter(
        x=ends[:, 0],
        y=ends[:, 1],
        mode="lines",
        name=name,
        hoverinfo="name" if name else "skip",
        line={"color": colour, "width": 1.5, "dash": dash},
        showlegend=False,
        **trace,
    )


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


def add_label(figure: go.Figure, label: Label) -> None:
    figure.add_annotation(annotation(label))
