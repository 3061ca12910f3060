"""Figures of superposition: each head's letter against what the others can be mixed into."""

from __future__ import annotations

import numpy as np

from tsc_interp.plots.colours import SHARE
from tsc_interp.plots.heat import heat
from tsc_interp.plots.number_line import number_line
from tsc_interp.plots.series import add_guide, add_series
from tsc_interp.plots.style import INK, Figure
from tsc_interp.probes.superposition.result import ALL_HEADS, SuperpositionResult
from tsc_interp.probes.wording import of_layer
from tsc_interp.results.base import LabeledArray


def figures(result: SuperpositionResult) -> list[Figure]:
    if result.many_heads:
        return [_chosen(result)]
    drawn = []
    for i, layer in enumerate(result.hull_distance.labels["layer"]):
        if result.values is not None and result.values.shape[-1] == 1:
            drawn.append(_number_lines(result, result.values, i, layer))
        drawn.append(_distances(result, i, layer))
    return drawn


def _chosen(result: SuperpositionResult) -> Figure:
    labels = result.hull_distance.labels
    shown = result.shown_by_name()
    rows = [name for _, _, name in shown]
    cells = np.array([result.relative[i, h] for i, h, _ in shown])
    figure = heat(cells, rows, labels["letter"], show=".0%", hover=".2%", colours=SHARE)
    nearest = np.unravel_index(int(cells.argmin()), cells.shape)
    return Figure(
        "distances",
        f"How far each token is from being mistaken for others{result.of_all_heads()}",
        figure,
        "The distance from a token's value to the nearest mixture of the other tokens compared, as "
        "a share of the values' range: 0% means that others can give exactly its value.",
        f"The nearest is {labels['letter'][int(nearest[1])]} in {rows[int(nearest[0])]}: "
        f"{cells.min():.0%} of the range.",
    )


def _number_lines(result: SuperpositionResult, source: LabeledArray, i: int, layer: str) -> Figure:
    """Letters on a line per head; the one it reads is ringed, and a bar spans what others give."""
    labels = source.labels
    letters, values = labels["letter"], source.array[i, :, :, 0]
    names = [f"head {head}" for head in labels["head"]]
    rows = [
        (name, list(zip(letters, line.tolist(), strict=True)))
        for name, line in zip(names, values, strict=True)
    ]
    figure = number_line(rows, x="value")
    targets = [letters.index(letter) for letter in result.reads[i]]
    for h, t in enumerate(targets):
        others = np.delete(values[h], t)
        ends = [others.min(), others.max()] if len(others) else []
        add_guide(figure, ends, [h] * len(ends), width=9, opacity=0.35)
    add_series(figure, values[np.arange(len(targets)), targets], list(range(len(targets))), "",
               mode="markers", colour=INK, symbol="circle-open", size=20, hoverinfo="skip",
               marker={"line": {"width": 2}}, showlegend=False)  # fmt: skip
    assert result.string_values is not None
    strings = result.string_values.labels["string"]
    for h, name in enumerate(names):
        add_series(figure, result.string_values.array[i, :, h, 0], [h + 0.2] * len(strings), name,
                   "%{customdata}: %{x:.4f}", mode="markers", colour=INK, symbol="line-ns-open",
                   size=9, marker={"line": {"width": 2}}, customdata=list(strings),
                   showlegend=False)  # fmt: skip
    spoken = "; ".join(
        f"{name}, which reads {letters[t]}: "
        + ", ".join(f"{letter} {value:.4f}" for letter, value in points)
        for (name, points), t in zip(rows, targets, strict=True)
    )
    return Figure(
        f"values-{layer}" if i else "values",
        of_layer(f"Who can pass for the {result.unit} a head reads?", layer, labels["layer"]),
        figure,
        "Each head's value for each letter. The one it reads is ringed; the grey bar is all that "
        "the other letters can be mixed into. A ring on or near the bar can be mistaken for them. "
        "The ticks below are the head's output for the given strings.",
        f"Values by head. {spoken}.",
    )


def _distances(result: SuperpositionResult, i: int, layer: str) -> Figure:
    labels = result.hull_distance.labels
    cells, letters = result.relative[i], labels["letter"]
    rows = ["all heads" if head == ALL_HEADS else f"head {head}" for head in labels["head"]]
    finite = np.where(np.isfinite(cells), cells, 1.0)
    figure = heat(finite, rows, letters, show=".0%", hover=".2%", colours=SHARE)
    nearest = [f"{letters[t]} {finite[-1, t]:.0%}" for t in range(len(letters))]
    title = f"How far each {result.unit} is from being mistaken for others"
    return Figure(
        f"distances-{layer}" if i else "distances",
        of_layer(title, layer, labels["layer"]),
        figure,
        f"The distance from a {result.unit}'s value to the nearest mixture of the other "
        f"{result.unit}s, as a share of the values' range: 0% means that others can give exactly "
        "its value. The last row asks for one mixture that fools all heads at once.",
        f"Distance from a mixture of the others over all heads together: {', '.join(nearest)}.",
    )
