"""Vectors of any size as a picture to read: a plane, an exact space, or a choice of planes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from tsc_interp.plots.colours import INK, Look, diverging, string_style
from tsc_interp.plots.style import (
    add_arrow,
    add_points,
    annotation,
    equal_axes,
    new_figure,
    place_labels,
)

ABOVE = {"x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
"""Where a menu or buttons stand."""
Field = tuple[Sequence[float], Sequence[float], NDArray[np.float64]]
"""x, y, and the logit `[y x]` there."""


@dataclass(frozen=True)
class View:
    """Points in two dimensions, what the axes are, and how much of the truth they show."""

    points: NDArray[np.float64]
    axes: tuple[str, str]
    exact: bool
    remark: str


def view(points: ArrayLike, *, first_axis: ArrayLike | None = None, first_name: str = "") -> View:
    """Two dimensions as they are; more, by principal components (after `first_axis`, if given)."""
    rows = np.asarray(points, dtype=float)
    if rows.shape[1] == 1:
        rows = np.hstack([rows, np.zeros_like(rows)])
    if rows.shape[1] == 2:
        return View(rows, ("dimension 0", "dimension 1"), True, "")
    centred = rows - rows.mean(axis=0)
    total = float((centred**2).sum()) or 1.0
    directions: list[NDArray[np.float64]] = []
    if first_axis is not None:
        given = np.asarray(first_axis, dtype=float)
        directions.append(given / (np.linalg.norm(given) or 1.0))
        centred = centred - np.outer(centred @ directions[0], directions[0])
    components = np.linalg.svd(centred, full_matrices=False)[2]
    directions += [_signed(component) for component in components[: 2 - len(directions)]]
    basis = np.stack(directions)
    placed = rows @ basis.T
    shares = (((rows - rows.mean(axis=0)) @ basis.T) ** 2).sum(axis=0) / total
    names = [f"component {index + 1}" for index in range(2)]
    if first_axis is not None:
        names = [first_name, "main other direction"]
    axes = (f"{names[0]} ({shares[0]:.0%})", f"{names[1]} ({shares[1]:.0%})")
    remark = (
        f"The {rows.shape[1]} dimensions are shown as two that carry {shares.sum():.0%} of the "
        "variance (each axis names its share); distances on the page are at most the true ones."
    )
    return View(placed, axes, False, remark)


def _signed(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of a direction and its opposite, the one whose largest entry is positive."""
    return direction * (1.0 if direction[np.abs(direction).argmax()] >= 0 else -1.0)


def plane(
    seen: View,
    labels: Sequence[str],
    styles: Sequence[Look],
    *,
    arrows: bool = True,
    field: Field | None = None,
    show: ArrayLike = (),
) -> go.Figure:
    """Points (with arrows from the origin, where that is the true origin) and their names.

    `show` are places without a mark that the picture must not leave out.
    """
    figure = new_figure(*seen.axes, height=460)
    shown = np.vstack([seen.points, np.asarray(show, dtype=float).reshape(-1, 2)])
    equal_axes(figure, shown, with_origin=seen.exact)
    if field is not None:
        add_field(figure, *field)
    add_vectors(figure, seen.points, labels, styles, arrows=arrows and seen.exact)
    ranges = [figure.layout.xaxis.range, figure.layout.yaxis.range]
    placed = place_labels(seen.points, labels, ranges, origin=seen.exact and arrows)
    figure.layout.annotations = [annotation(label) for label in placed]
    return figure


def add_vectors(
    figure: go.Figure,
    points: NDArray[np.float64],
    labels: Sequence[str],
    styles: Sequence[Look],
    *,
    arrows: bool,
    **marker: Any,
) -> None:
    """Add an arrow to each point, if they are wanted, and then all points as one trace."""
    for point, label, style in zip(points, labels, styles, strict=True) if arrows else ():
        add_arrow(figure, point, colour=style.colour, hover=label, standoff=5)
    x, y = points.T
    add_points(figure, x, y, labels, styles, **marker)


def add_field(
    figure: go.Figure, x: Sequence[float], y: Sequence[float], logits: NDArray[np.float64]
) -> None:
    """The logit `[y x]` behind the points: its sign as colour, a line where it is zero."""
    figure.add_heatmap(
        x=x,
        y=y,
        z=logits,
        **diverging(logits),
        opacity=0.5,
        zsmooth="best",
        hovertemplate="logit %{z:.3f}<extra></extra>",
        showscale=False,
    )
    if (logits > 0).any() and (logits < 0).any():
        figure.add_contour(
            x=x,
            y=y,
            z=logits,
            showscale=False,
            hoverinfo="skip",
            name="logit 0",
            contours={"start": 0, "end": 0, "coloring": "none", "showlabels": False},
            line={"dash": "dash"},
            showlegend=False,
        )


def space(points: ArrayLike, labels: Sequence[str], styles: Sequence[Look]) -> go.Figure:
    """Four points of any dimension in the space of three they span: all distances exact."""
    rows = np.asarray(points, dtype=float)
    centred = rows - rows.mean(axis=0)
    # Four points less their mean have rank three, so three principal axes hold all of them.
    placed = centred @ np.linalg.svd(centred, full_matrices=False)[2][:3].T
    figure = new_figure(height=460)
    sides = ("top center", "bottom center", "middle left", "middle right")
    for point, label, style, side in zip(placed, labels, styles, sides, strict=True):
        figure.add_scatter3d(
            x=[point[0]],
            y=[point[1]],
            z=[point[2]],
            mode="markers+text",
            text=[label],
            textposition=side,
            name=label,
            showlegend=False,
            marker={"color": style.colour, "size": 6},
            hovertemplate=f"{label}<extra></extra>",
        )
    pairs = [(i, j) for i in range(len(placed)) for j in range(i)]
    ends = np.array([[placed[i], placed[j], [np.nan] * 3] for i, j in pairs]).reshape(-1, 3)
    figure.add_scatter3d(
        x=ends[:, 0],
        y=ends[:, 1],
        z=ends[:, 2],
        mode="lines",
        hoverinfo="skip",
        line={"color": INK, "width": 2},
        showlegend=False,
    )
    axis = {"title": {"text": ""}, "showticklabels": False}
    figure.update_layout(
        scene={
            "aspectmode": "data",
            "xaxis": axis,
            "yaxis": axis,
            "zaxis": axis,
            "camera": {"eye": {"x": 0.6, "y": -1.1, "z": 2.6}},
        },
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
    )
    return figure


def string_styles(labels: Sequence[int], right: Sequence[bool]) -> list[Look]:
    return [string_style(label, ok) for label, ok in zip(labels, right, strict=True)]


def vector_words(labels: Sequence[str], points: NDArray[np.float64]) -> str:
    if points.shape[1] > 4:
        lengths = np.linalg.norm(points, axis=1)
        return ", ".join(f"{t} length {n:.4f}" for t, n in zip(labels, lengths, strict=True))
    return ", ".join(
        f"{label} ({', '.join(f'{x:.4f}' for x in point)})"
        for label, point in zip(labels, points, strict=True)
    )


def choice(figures: Sequence[tuple[str, go.Figure]]) -> go.Figure:
    """Several figures in one, a menu choosing which is shown; the first one at the start."""
    owners = [index for index, (_, figure) in enumerate(figures) for _ in figure.data]
    traces = [trace.to_plotly_json() for _, figure in figures for trace in figure.data]
    for owner, trace in zip(owners, traces, strict=True):
        trace["visible"] = owner == 0
    combined = go.Figure({"data": traces, "layout": figures[0][1].layout})
    buttons = [
        {
            "label": name,
            "method": "update",
            "args": [
                {"visible": [owner == index for owner in owners]},
                {
                    "annotations": [a.to_plotly_json() for a in figure.layout.annotations],
                    "xaxis.range": figure.layout.xaxis.range,
                    "yaxis.range": figure.layout.yaxis.range,
                },
            ],
        }
        for index, (name, figure) in enumerate(figures)
    ]
    combined.update_layout(
        updatemenus=[{"buttons": buttons, **ABOVE}],
        height=(combined.layout.height or 420) + 48,
        margin_t=56,
        # The menu stands where legends usually do.
        legend={"y": -0.2, "yanchor": "top"},
    )
    return combined
