"""Figures of a trace's attention: where CLS looks, and what it takes from each head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tsc_interp.plots.colours import INK, MUTED, SHARE, token_style
from tsc_interp.plots.heat import heat
from tsc_interp.plots.series import add_guide, add_series, each, name_rows
from tsc_interp.plots.style import Figure, new_figure
from tsc_interp.plots.vectors import View, choice, plane, string_styles, vector_words, view
from tsc_interp.probes.trace.figures_heads import MAX_MENU, attended, digits
from tsc_interp.probes.trace.figures_states import field_of
from tsc_interp.probes.trace.result import TraceResult
from tsc_interp.results.base import LabeledArray

MARKS = ("circle", "diamond", "square", "triangle-up", "star", "hexagon", "cross")


def weights(result: TraceResult, array: LabeledArray, layer: int) -> Figure:
    """All heads beside each other if they fit, else a menu of strings, a row per head."""
    tokens, heads = attended(result, array), array.labels["head"]
    cells = np.stack([array.at(layer=layer, token=token) for token in tokens], axis=-1)
    shares: dict[str, Any] = {"colours": SHARE, "most_written": 12}
    if len(heads) * len(tokens) <= shares["most_written"]:
        flat = cells.reshape(len(result.strings), -1)
        figure = heat(flat, result.strings, tokens * len(heads), **shares)
        figure.update_layout(margin_t=60, height=figure.layout.height + 48)
        for index, head in enumerate(heads):
            middle = len(tokens) * index + (len(tokens) - 1) / 2
            place = {"x": middle, "y": 1, "yref": "paper", "yshift": 24, "yanchor": "bottom"}
            figure.add_annotation(text=f"head {head}", showarrow=False, **place)
        for boundary in range(1, len(heads)):
            figure.add_vline(x=boundary * len(tokens) - 0.5, line={"color": INK, "width": 2})
    else:
        rows = [f"head {head}" for head in heads]
        panels = [
            (string, heat(cells[index], rows, tokens, **shares))
            for index, string in enumerate(result.strings[:MAX_MENU])
        ]
        figure = choice(panels).update_xaxes(side="bottom")  # the menu is at the top
    spoken = "; ".join(
        f"{string}, head {head}: " + each("{} {:.4f}", tokens, cells[row, column], between=", ")
        for row, string in enumerate(result.strings)
        for column, head in enumerate(heads[:2])
    )
    many_layers = len(array.labels["layer"]) > 1
    return Figure(
        f"weights-{layer}" if layer else "weights",
        f"Where CLS looks, layer {layer}" if many_layers else "Where CLS looks",
        figure,
        "The share of a head's attention that goes to each letter, all copies together. Within a "
        "head, the shares of a string sum to one.",
        f"Attention weights: {spoken}.",
    )


def head_values(result: TraceResult, array: LabeledArray) -> Figure:
    heads, layer = array.labels["head"], len(array.labels["layer"]) - 1
    caption = (
        "What CLS actually takes from each head: the average of the letters' values, weighted by "
        "attention. Two strings with the same label should end up on the same side."
    )
    spoken = "; ".join(
        f"{s} {digits(array.at(layer=layer, string=s)[:4].ravel())}" for s in result.strings
    )
    if len(array.labels["component"]) == 1:
        values = array.array[layer, :, :, 0]
        if len(heads) <= len(MUTED):
            figure = _dots(values, result.strings, heads)
        else:
            figure = heat(values, result.strings, [f"head {head}" for head in heads])
            below = {"orientation": "h", "y": 0, "yanchor": "top", "thickness": 12}
            figure.update_traces(showscale=True, colorbar=below, colorbar_title_text="value")
            figure.update_layout(height=figure.layout.height + 60, margin_b=72)
    else:
        styles = string_styles(result.labels, result.right)
        panels = [
            (f"head {head}", plane(view(array.array[layer, :, h]), result.strings, styles))
            for h, head in enumerate(heads[:MAX_MENU])
        ]
        figure = choice(panels)
    return Figure(
        "head-values", "What CLS takes from each head", figure, caption, f"Head values: {spoken}."
    )


def _dots(values: NDArray[np.float64], strings: Sequence[str], heads: Sequence[str]) -> go.Figure:
    """A number line per string, a mark per head: strings name the lines, so nothing overlaps."""
    figure = new_figure("value taken by CLS", height=110 + 30 * len(strings), legend=True)
    rows = list(range(len(strings)))
    for index, head in enumerate(heads):
        add_series(figure, values[:, index], rows, f"head {head}", "%{customdata}: %{x:.4f}",
                   mode="markers", place=index, symbol=MARKS[index], size=11,
                   customdata=list(strings))  # fmt: skip
    name_rows(figure, strings)
    return figure


def two_heads(result: TraceResult, value: LabeledArray) -> Figure:
    """The two heads (of many, those whose values differ most over letters) as one plane."""
    assert result.head_values is not None
    letters = [t for t in value.labels["token"] if t != "CLS"]
    table = np.stack([value.at(layer=0, token=t)[0, :, 0] for t in letters])
    first, second = sorted(np.argsort(-np.ptp(table, axis=0), kind="stable")[:2].tolist())
    corners = table[:, [first, second]]
    strings = result.head_values.array[0, :, :, 0][:, [first, second]]
    axes = (f"head {first} value", f"head {second} value")
    seen = View(np.vstack([corners, strings]), axes, True, "")
    styles = [*(token_style(t) for t in letters), *string_styles(result.labels, result.right)]
    figure = plane(
        seen,
        [*letters, *result.strings],
        styles,
        arrows=False,
        field=field_of(result.value_field),
    )
    if len(letters) == 3:
        loop = np.vstack([corners, corners[:1]])
        add_guide(figure, loop[:, 0], loop[:, 1], dash="dot")
    behind = (
        " Behind them the logit at each pair of values: blue for no, vermillion for yes, "
        "dashed the line between."
        if result.value_field is not None
        else f" Of the model's heads, {first} and {second} tell the letters apart most."
    )
    return Figure(
        "two-heads",
        "Both heads at once" if len(value.labels["head"]) == 2 else "Two heads at once",
        figure,
        "Each letter is the pair of values it would give alone; each string is the pair CLS takes, "
        "coordinate by coordinate between the letters it contains." + behind,
        "Letters: "
        + vector_words(letters, corners)
        + ". Strings: "
        + vector_words(result.strings, strings)
        + ".",
    )
