"""A model as a graph: its parts in columns from left to right, and what runs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from tsc_interp.plots.colours import NEGATIVE, POSITIVE
from tsc_interp.plots.series import add_nodes, add_series
from tsc_interp.plots.style import new_figure

Spot = tuple[int, str]
"""A column, and what stands beside the part there."""
MOST_WRITTEN = 12
"""Lines in a graph that still have room for their numbers."""


@dataclass(frozen=True)
class Wire:
    """A line from one part to another: as wide as its number, dashed blue if that is negative."""

    source: Spot
    target: Spot
    size: float
    through: str
    """`query`, `key` or `value`, which arrive side by side; or anything else."""
    hover: str
    full: bool = True
    """Whether it is part of what is shown; a thin dotted line otherwise."""


def graph(names: Mapping[Spot, str], wires: Sequence[Wire]) -> go.Figure:
    """Draw the parts, named in full where one points, and the wires, the largest on top."""
    spots = _layout(list(names))
    heights = [sum(spot[0] == column for spot in names) for column in {spot[0] for spot in names}]
    figure = new_figure(height=150 + 34 * max(*heights, 4))
    drawn = [wire for wire in wires if wire.full]
    widest = max((abs(wire.size) for wire in drawn), default=0.0) or 1.0
    for wire in sorted(wires, key=lambda wire: (wire.full, abs(wire.size))):
        (x0, y0), (x1, y1) = spots[wire.source], spots[wire.target]
        y1 += {"query": 0.06, "value": -0.06}.get(wire.through, 0.0)
        xs, ys = [x0, (x0 + x1) / 2, x1], [y0, (y0 + y1) / 2, y1]
        if x1 - x0 > 1:  # around the columns in between
            ys[1] = 0.95 if (y0 + y1 or 1) > 0 else -0.95
        towards = wire.size >= 0
        look: dict[str, Any] = {
            "colour": POSITIVE if towards else NEGATIVE,
            "dash": "solid" if towards else "dash",
            "width": 0.8 + 7 * abs(wire.size) / widest,
            "opacity": 0.75,
        }
        if not wire.full:
            look |= {"dash": "dot", "width": 0.8, "opacity": 0.45}
        add_series(figure, xs, ys, "", f"{wire.hover}<extra></extra>", mode="lines",
                   line_shape="spline", showlegend=False, **look)  # fmt: skip
        if wire.full and len(drawn) <= MOST_WRITTEN:
            figure.add_annotation(x=xs[1], y=ys[1], text=f"{wire.size:.2f}", font_size=11)
    sides = ["top center" if spot[0] else "middle left" for spot in spots]
    add_nodes(figure, list(spots.values()), [spot[1] for spot in spots], sides,
              [names[spot] for spot in spots], size=9)  # fmt: skip
    last = max(x for x, _ in spots.values())
    figure.update_xaxes(range=[-0.35, last + 0.3])
    figure.update_yaxes(range=[-1.25, 1.25])
    return figure


def _layout(names: Sequence[Spot]) -> dict[Spot, tuple[float, float]]:
    """Each column spread over the height, in its own order."""
    places: dict[Spot, tuple[float, float]] = {}
    for column, stage in enumerate(sorted({spot[0] for spot in names})):
        here = sorted((spot for spot in names if spot[0] == stage), key=_order)
        # Neighbouring columns are shifted, so that a line past a column does not run through it.
        reach = 0.0 if len(here) == 1 else 0.55 if stage and stage % 2 == 0 else 1.0
        for row, spot in enumerate(here):
            places[spot] = (float(column), reach - 2 * reach * row / max(len(here) - 1, 1))
    return places


def _order(spot: Spot) -> tuple[int, str]:
    digits = "".join(c for c in spot[1].split(".")[-1] if c.isdigit())
    return int(digits or 0), spot[1]
