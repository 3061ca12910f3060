"""Figures of a trace's heads: keys and the query, values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsc_interp.plots.colours import INK, Look, token_style
from tsc_interp.plots.number_line import number_line
from tsc_interp.plots.style import Figure
from tsc_interp.plots.vectors import choice, plane, view
from tsc_interp.probes.trace.result import TraceResult
from tsc_interp.results.base import LabeledArray

MAX_MENU = 16
"""A menu longer than this helps nobody; the table has every head."""


def keys(result: TraceResult, query: LabeledArray, key: LabeledArray) -> Figure:
    tokens = attended(result, key)
    heads = key.labels["head"]
    asked = "CLS's query"
    spoken = "; ".join(
        f"head {head}: query {digits(query.at(layer=0, token='CLS', head=head)[0])}, keys "
        + ", ".join(f"{t} {digits(key.at(layer=0, token=t, head=head)[0])}" for t in tokens)
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
            styles={"query": Look(INK, "triangle-right")},
        )
        return Figure("keys", "Keys, and the query CLS asks with", figure, caption, spoken)
    panels = []
    for head in heads[:MAX_MENU]:
        vectors = [key.at(layer=0, token=t, head=head)[0] for t in tokens]
        seen = view(np.stack([*vectors, query.at(layer=0, token="CLS", head=head)[0]]))
        styles = [*(token_style(t) for t in tokens), Look(INK, "triangle-right")]
        panels.append((f"head {head}", plane(seen, [*tokens, asked], styles)))
    figure = choice(panels)
    return Figure("keys", "Keys, and the query CLS asks with", figure, caption, spoken)


def values(result: TraceResult, value: LabeledArray) -> Figure:
    tokens = attended(result, value)
    heads = value.labels["head"]
    spoken = "; ".join(
        f"head {head}: "
        + ", ".join(f"{t} {digits(value.at(layer=0, token=t, head=head)[0])}" for t in tokens)
        for head in heads[:4]
    )
    caption = (
        "What a head contributes when it looks at one letter only. A string's head value is a "
        "weighted average of these, so it lies between them; letters close together are hard "
        "to tell apart."
    )
    if len(value.labels["component"]) == 1:
        rows = [
            (
                f"head {head}",
                [(t, float(value.at(layer=0, token=t, head=head)[0, 0])) for t in tokens],
            )
            for head in heads
        ]
        figure = number_line(rows, x="value")
    else:
        panels = []
        for head in heads[:MAX_MENU]:
            seen = view(np.stack([value.at(layer=0, token=t, head=head)[0] for t in tokens]))
            panels.append((f"head {head}", plane(seen, tokens, [token_style(t) for t in tokens])))
        figure = choice(panels)
    return Figure("values", "Values of the letters", figure, caption, f"Values: {spoken}.")


def attended(result: TraceResult, array: LabeledArray) -> list[str]:
    """The tokens some head can look at: CLS only where the model attends to it."""
    with_cls = result.weights is None or bool(result.weights.at(token="CLS").any())
    return [token for token in array.labels["token"] if token != "CLS" or with_cls]


def digits(values: NDArray[np.float64]) -> str:
    return " ".join(f"{value:.4f}" for value in values)
