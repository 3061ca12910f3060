"""Figures of paths: the graph of edges, and what gradients make of them."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from tsc_interp.plots.series import add_guide, add_nodes, add_series
from tsc_interp.plots.style import NEGATIVE, POSITIVE, Figure, new_figure
from tsc_interp.probes.paths.result import Node, PathEdge, Paths, PathsResult

Spots = dict[Node, tuple[float, float]]
MOST_DRAWN = 40
LEAST_DRAWN = 0.01
MOST_WRITTEN = 12
"""Edges in a graph whose lines still have room for their numbers."""


def figures(result: PathsResult) -> list[Figure]:
    drawn: list[Figure] = []
    for number, paths in enumerate(result.pairs):
        mark = f"-{number + 1}" if number else ""
        drawn.append(_graph(result, paths, mark))
        if len(paths.edges) > 1:
            drawn.append(_scatter(paths, mark))
    return drawn


def _graph(result: PathsResult, paths: Paths, mark: str) -> Figure:
    shown = [edge for edge in paths.edges if abs(edge.effect) >= LEAST_DRAWN][:MOST_DRAWN]
    nodes = _layout(paths, shown)
    tallest = max(len({n.name for n in nodes if n.stage == s}) for s in {n.stage for n in nodes})
    figure = new_figure(height=150 + 34 * max(tallest, 4))
    widest = max((abs(edge.effect) for edge in shown), default=1.0)
    for edge in reversed(shown):  # the largest on top
        _draw(figure, edge, nodes, widest, written=len(shown) <= MOST_WRITTEN)
    sides = ["top center" if node.stage else "middle left" for node in nodes]
    add_nodes(figure, list(nodes.values()), [node.short for node in nodes], sides,
              [node.name for node in nodes], size=9)  # fmt: skip
    columns = sorted({at[0] for at in nodes.values()})
    figure.update_xaxes(range=[columns[0] - 0.35, columns[-1] + 0.3])
    figure.update_yaxes(range=[-1.25, 1.25])
    few = len(shown) < len(paths.edges)
    left = f" Of {len(paths.edges):,} edges, the {len(shown)} largest are drawn." if few else ""
    counts = "count" if result.by == "letter" else "key or value"
    spoken = (
        "; ".join(f"{edge.name} {edge.effect:.2f}" for edge in shown[:5]) or "no edge reaches 0.01"
    )
    return Figure(
        f"graph{mark}",
        f"Which edges carry the difference: {paths.pair.clean} into {paths.pair.corrupted}",
        figure,
        f"{paths.pair.scale()} A line's width is the effect of that edge alone; vermillion goes "
        f"towards the clean logit, dashed blue away from it. From a letter to a head: its {counts} "
        f"there. h is a head, n a neuron.{left}",
        f"{len(shown)} edges; the largest: {spoken}.",
    )


def _layout(paths: Paths, shown: list[PathEdge]) -> Spots:
    """Columns from letters to the logit; each column spread over the height, in its own order."""
    # Of a small model also what carries nothing: that is half of the story.
    every = paths.edges if len(paths.edges) <= MOST_DRAWN else (*shown, *paths.edges[:1])
    all_nodes = {node for edge in every for node in (edge.source, edge.target)}
    stages = sorted({node.stage for node in all_nodes})
    places: Spots = {}
    for column, stage in enumerate(stages):
        nodes = sorted((n for n in all_nodes if n.stage == stage), key=_order)
        # Neighbouring columns are shifted, so that a line past a column does not run through it.
        reach = 0.0 if len(nodes) == 1 else 0.55 if stage and stage % 2 == 0 else 1.0
        for row, node in enumerate(nodes):
            y = reach - 2 * reach * row / max(len(nodes) - 1, 1)
            places[node] = (float(column), y)
    return places


def _order(node: Node) -> tuple[int, str]:
    digits = "".join(c for c in node.short.split(".")[-1] if c.isdigit())
    return (int(digits or 0), node.short)


def _draw(figure: go.Figure, edge: PathEdge, nodes: Spots, widest: float, *, written: bool) -> None:
    (x0, y0), (x1, y1) = nodes[edge.source], nodes[edge.target]
    # Query, key and value arrive side by side.
    y1 += {"query": 0.06, "value": -0.06}.get(edge.through, 0.0)
    xs, ys = [x0, x1], [y0, y1]
    if x1 - x0 > 1:  # around the columns in between
        around = 0.95 if (y0 + y1 or 1) > 0 else -0.95
        xs, ys = [x0, (x0 + x1) / 2, x1], [y0, around, y1]
    towards = edge.effect > 0
    hover = f"{edge.name}: {edge.effect:.4f} (estimated {edge.estimate:.4f})<extra></extra>"
    add_series(figure, xs, ys, "", hover, mode="lines", colour=POSITIVE if towards else NEGATIVE,
               dash="solid" if towards else "dash", width=0.8 + 7 * abs(edge.effect) / widest,
               line_shape="spline", opacity=0.75, showlegend=False)  # fmt: skip
    if written:
        middle = (xs[1], ys[1]) if len(xs) > 2 else ((x0 + x1) / 2, (y0 + y1) / 2)
        figure.add_annotation(x=middle[0], y=middle[1], text=f"{edge.effect:.2f}", font_size=11)


def _scatter(paths: Paths, mark: str) -> Figure:
    exact, estimated = paths.effects, paths.estimates
    both = np.concatenate([exact, estimated, [0.0, 1.0]])
    low, high = float(both.min()), float(both.max())
    pad = 0.06 * (high - low)
    figure = new_figure("exact effect of the edge", "estimate by gradient", height=380)
    add_guide(figure, [low - pad, high + pad], [low - pad, high + pad], dash="dash")
    add_series(figure, exact, estimated, "", "%{text}: exact %{x:.4f}, estimated %{y:.4f}",
               mode="markers", marker={"opacity": 0.8}, text=[edge.name for edge in paths.edges],
               showlegend=False)  # fmt: skip
    errors = estimated - exact
    worst = int(np.abs(errors).argmax())
    figure.add_annotation(
        x=exact[worst],
        y=estimated[worst],
        text=f"{paths.edges[worst].source.short} → {paths.edges[worst].target.short}",
        showarrow=True,
        arrowhead=0,
        xanchor="right" if exact[worst] > (low + high) / 2 else "left",
        ax=0,
        ay=-28 if estimated[worst] < (low + high) / 2 else 28,
    )
    figure.update_xaxes(range=[low - pad, high + pad])
    figure.update_yaxes(range=[low - pad, high + pad])
    ranks = paths.rank_correlation
    ranked = "" if ranks is None else f", rank correlation {ranks:.2f}"
    return Figure(
        f"estimates{mark}",
        f"What gradients would have said: {paths.pair.clean} into {paths.pair.corrupted}",
        figure,
        f"{paths.pair.scale()} A point per edge: its exact effect, and attribution patching's "
        "estimate of it. On the dashed line it is exact; the edge it misses most is named.",
        f"Mean signed error {errors.mean():+.3f}, largest {errors[worst]:+.3f} at "
        f"{paths.edges[worst].name}{ranked}.",
    )
