"""Figures of a trace's heads: keys and queries, values, where CLS looks and what it takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsc_interp.plots.style import (
    INK,
    PALETTE,
    Figure,
    TokenStyle,
    new_figure,
    number_line,
    token_style,
)
from tsc_interp.plots.vectors import View, choice, plane, string_styles, vector_words, view
from tsc_interp.probes.base import LabeledArray
from tsc_interp.probes.trace import TraceResult

MAX_MENU = 16
"""A menu longer than this helps nobody; the table has every head."""


def keys(result: TraceResult, query: LabeledArray, key: LabeledArray) -> Figure:
    tokens = list(key.labels["token"])
    heads = key.labels["head"]
    asked = "CLS's query"
    spoken = "; ".join(
        f"head {head}: query {_digits(query.at(layer=0, token='CLS', head=head)[0])}, keys "
        + ", ".join(f"{t} {_digits(key.at(layer=0, token=t, head=head)[0])}" for t in tokens)
        for head in heads[:4]
    )
    caption = (
        "A letter's score is its key times CLS's query (divided by √d_head): keys on the query's "
        "side of zero are looked at, keys on the other side ignored."
    )
    if len(key.labels["component"]) == 1:
        rows = []
        for head in heads:
            points = [(t, float(key.at(layer=0, token=t, head=head)[0, 0])) for t in tokens]
            question = float(query.at(layer=0, token="CLS", head=head)[0, 0])
            rows.append((f"head {head}", [*points, ("query", question)]))
        figure = number_line(
            rows,
            x="key and CLS query",
            styles={"query": TokenStyle(PALETTE[3], "line-ns-open")},
            row_height=_row_height(len(rows)),
        )
        return Figure("keys", "Keys, and the query CLS asks with", figure, caption, spoken)
    panels = []
    for head in heads[:MAX_MENU]:
        vectors = [key.at(layer=0, token=t, head=head)[0] for t in tokens]
        seen = view(np.stack([*vectors, query.at(layer=0, token="CLS", head=head)[0]]))
        styles = [*(token_style(t) for t in tokens), TokenStyle(PALETTE[3], "line-ns-open")]
        panels.append((f"head {head}", plane(seen, [*tokens, asked], styles)))
    figure = choice(panels, prompt="Head")
    return Figure("keys", "Keys, and the query CLS asks with", figure, caption, spoken)


def values(result: TraceResult, value: LabeledArray) -> Figure:
    tokens = list(value.labels["token"])
    heads = value.labels["head"]
    if result.weights is not None and not result.weights.at(token="CLS").any():
        tokens.remove("CLS")
    spoken = "; ".join(
        f"head {head}: "
        + ", ".join(f"{t} {_digits(value.at(layer=0, token=t, head=head)[0])}" for t in tokens)
        for head in heads[:4]
    )
    caption = (
        "What a head contributes when it looks at one letter only. A string's head value is a "
        "weighted average of these, so it lies between them; letters close together are hard to tell "
        "apart."
    )
    if len(value.labels["component"]) == 1:
        rows = [
            (
                f"head {head}",
                [(t, float(value.at(layer=0, token=t, head=head)[0, 0])) for t in tokens],
            )
            for head in heads
        ]
        figure = number_line(rows, x="value", row_height=_row_height(len(rows)))
    else:
        panels = []
        for head in heads[:MAX_MENU]:
            seen = view(np.stack([value.at(layer=0, token=t, head=head)[0] for t in tokens]))
            panels.append((f"head {head}", plane(seen, tokens, [token_style(t) for t in tokens])))
        figure = choice(panels, prompt="Head")
    return Figure("values", "Values of the letters", figure, caption, f"Values: {spoken}.")


def weights(result: TraceResult, layer: int) -> Figure:
    assert result.weights is not None
    array = result.weights
    tokens = [t for t in array.labels["token"] if t != "CLS" or array.at(token=t).any()]
    heads = array.labels["head"]
    columns = [f"{token}<br>head {head}" for head in heads for token in tokens]
    cells = np.concatenate(
        [
            np.stack([array.at(layer=layer, head=head, token=t) for t in tokens], axis=1)
            for head in heads
        ],
        axis=1,
    )
    small = cells.shape[1] <= 12
    figure = new_figure(height=130 + 30 * len(result.strings))
    figure.add_heatmap(
        z=cells,
        x=list(range(cells.shape[1])),
        y=list(range(len(result.strings))),
        zmin=0,
        zmax=1,
        colorscale=[(0, "#f4f4f4"), (1, PALETTE[0])],
        xgap=2,
        ygap=2,
        texttemplate="%{z:.2f}" if small else None,
        customdata=[[(s, c) for c in columns] for s in result.strings],
        hovertemplate="%{customdata[0]}, %{customdata[1]}: %{z:.4g}<extra></extra>",
        colorbar={"title": {"text": "weight"}, "thickness": 12},
        showscale=not small,
    )
    figure.update_xaxes(
        tickvals=list(range(cells.shape[1]))
        if small
        else [len(tokens) * h + (len(tokens) - 1) / 2 for h in range(len(heads))],
        ticktext=columns if small else [f"{head}" for head in heads],
        title=None if small else "head, its letters side by side in alphabetical order",
        side="top",
        showgrid=False,
        zeroline=False,
        tickangle=0,
    )
    figure.update_yaxes(
        tickvals=list(range(len(result.strings))),
        ticktext=list(result.strings),
        autorange="reversed",
        showgrid=False,
        zeroline=False,
    )
    for boundary in range(1, len(heads)):
        figure.add_vline(x=boundary * len(tokens) - 0.5, line={"color": INK, "width": 2})
    spoken = "; ".join(
        f"{string}, head {head}: "
        + ", ".join(
            f"{t} {float(array.at(layer=layer, string=string, head=head, token=t)):.4f}"
            for t in tokens
        )
        for string in result.strings
        for head in heads[:2]
    )
    name = "weights" if layer == 0 else f"weights-{layer}"
    title = (
        "Where CLS looks" if len(array.labels["layer"]) == 1 else f"Where CLS looks, layer {layer}"
    )
    return Figure(
        name,
        title,
        figure,
        "The share of a head's attention that goes to each letter, all copies together. Each row of "
        "a head sums to one.",
        f"Attention weights: {spoken}.",
    )


def head_values(result: TraceResult, array: LabeledArray) -> Figure:
    styles = dict(zip(result.strings, string_styles(result), strict=True))
    heads, layer = array.labels["head"], len(array.labels["layer"]) - 1
    caption = (
        "What CLS actually takes from each head: the average of the letters' values, weighted by "
        "attention. Vermillion strings should be answered yes, blue ones no; a purple cross is wrong."
    )
    spoken = "; ".join(
        f"{s} {_digits(array.at(layer=layer, string=s)[:4].ravel())}" for s in result.strings
    )
    if len(array.labels["component"]) == 1:
        rows = [
            (
                f"head {h}",
                [(s, float(array.at(layer=layer, string=s, head=h)[0])) for s in result.strings],
            )
            for h in heads
        ]
        figure = number_line(
            rows, x="value taken by CLS", styles=styles, row_height=_row_height(len(rows)) + 24
        )
    else:
        panels = []
        for head in heads[:MAX_MENU]:
            seen = view(
                np.stack([array.at(layer=layer, string=s, head=head) for s in result.strings])
            )
            panels.append((f"head {head}", plane(seen, result.strings, list(styles.values()))))
        figure = choice(panels, prompt="Head")
    return Figure(
        "head-values", "What CLS takes from each head", figure, caption, f"Head values: {spoken}."
    )


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
    styles = [*(token_style(t) for t in letters), *string_styles(result)]
    figure = plane(
        seen, [*letters, *result.strings], styles, arrows=False, field=result.value_field
    )
    if len(letters) == 3:
        loop = np.vstack([corners, corners[:1]])
        figure.add_scatter(
            x=loop[:, 0],
            y=loop[:, 1],
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
            line={"color": INK, "width": 1, "dash": "dot"},
        )
    behind = (
        " The colour behind is the logit at each pair of values, the dashed line the decision."
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


def _digits(values: NDArray[np.float64]) -> str:
    return " ".join(f"{value:.4f}" for value in values)


def _row_height(rows: int) -> int:
    return 96 if rows <= 4 else 62
