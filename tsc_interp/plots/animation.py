"""Points that move: one frame per epoch, a slider and a play button."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tsc_interp.plots.colours import INK, Look
from tsc_interp.plots.style import (
    annotation,
    decision_shape,
    equal_axes,
    new_figure,
    place_labels,
)
from tsc_interp.plots.vectors import ABOVE, View, add_vectors, view


def common_view(history: NDArray[np.float64]) -> View:
    """[frame, point, dim] seen from one side throughout: components are those of all frames."""
    frames, points, dims = history.shape
    seen = view(history.reshape(-1, dims))
    return View(seen.points.reshape(frames, points, 2), seen.axes, seen.exact, seen.remark)


def animate(
    seen: View,
    epochs: Sequence[int],
    labels: Sequence[str],
    styles: Sequence[Look],
    *,
    normals: NDArray[np.float64] | None = None,
) -> go.Figure:
    """Named points (arrows, where the origin is the true one) from epoch to epoch.

    `normals` gives a decision line per frame. The last frame is what a still picture shows.
    """
    frames = []
    for points in seen.points:
        frame, edge = go.Figure(), {"width": 1, "color": INK}
        add_vectors(frame, points, labels, styles, arrows=seen.exact, line=edge)
        frames.append(list(frame.data))
    lines = [[] if normals is None else [decision_shape(normals[i])] for i in range(len(epochs))]
    figure = new_figure(*seen.axes, height=560)
    equal_axes(figure, seen.points.reshape(-1, 2), with_origin=seen.exact)
    figure.add_traces(frames[-1])
    ranges = [figure.layout.xaxis.range, figure.layout.yaxis.range]
    names = [
        [annotation(label) for label in place_labels(points, labels, ranges, origin=seen.exact)]
        for points in seen.points
    ]
    figure.layout.annotations, figure.layout.shapes = names[-1], lines[-1]
    figure.frames = [
        go.Frame(data=traces, name=str(epoch), layout={"annotations": placed, "shapes": line})
        for epoch, traces, placed, line in zip(epochs, frames, names, lines, strict=True)
    ]
    instant = {"mode": "immediate", "frame": {"duration": 0}, "transition": {"duration": 0}}
    steps = [
        {"label": str(epoch), "method": "animate", "args": [[str(epoch)], instant]}
        for epoch in epochs
    ]
    play: dict[str, Any] = {"fromcurrent": False, "frame": {"duration": 450}}
    buttons = [
        {"label": "play", "method": "animate", "args": [None, play]},
        {"label": "pause", "method": "animate", "args": [[None], instant]},
    ]
    figure.update_layout(
        sliders=[{"steps": steps, "active": len(steps) - 1, "pad": {"t": 48},
                  "currentvalue": {"prefix": "epoch "}}],
        updatemenus=[{"type": "buttons", "showactive": False, "direction": "right",
                      "buttons": buttons, **ABOVE}],
        margin_t=56,
    )  # fmt: skip
    return figure
