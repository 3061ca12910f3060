"""Figures of a trace's heads: keys and the query, values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
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
    vectors = {
        head: [
            *(key.at(layer=0, token=t, head=head)[0] for t in tokens),
            query.at(layer=0, token="CLS", head=head)[0],
        ]
        for head in key.labels["head"]
    }
    spoken = "; ".join(
        f"head {head}: query {digits(own[-1])}, keys "
        + ", ".join(f"{t} {digits(v)}" for t, v in zip(tokens, own[:-1], strict=True))
        for head, own in list(vectors.items())[:4]
    )
    # A line has room for a word, a plane for a name.
    name = "query" if len(key.labels["component"]) == 1 else "CLS's query"
    styles = {**{t: token_style(t) for t in tokens}, name: Look(INK, "triangle-right")}
    return Figure(
        "keys",
        "Keys, and the query CLS asks with",
        by_head(vectors, styles, "key and CLS query"),
        "A letter's score is its key times CLS's query (divided by √d_head): keys on the query's "
        "side of zero are looked at, keys on the other side ignored.",
        spoken,
    )


def values(result: TraceResult, value: LabeledArray) -> Figure:
    tokens = attended(result, value)
    vectors = {
        head: [value.at(layer=0, token=t, head=head)[0] for t in tokens]
        for head in value.labels["head"]
    }
    spoken = "; ".join(
        f"head {head}: " + ", ".join(f"{t} {digits(v)}" for t, v in zip(tokens, own, strict=True))
        for head, own in list(vectors.items())[:4]
    )
    return Figure(
        "values",
        "Values of the letters",
        by_head(vectors, {t: token_style(t) for t in tokens}, "value"),
        "What a head contributes when it looks at one letter only. A string's head value is a "
        "weighted average of these, so it lies between them; letters close together are hard "
        "to tell apart.",
        f"Values: {spoken}.",
    )


def by_head(
    vectors: Mapping[str, Sequence[NDArray[np.float64]]], styles: Mapping[str, Look], x: str
) -> go.Figure:
    """Each head's named vectors: on a line if they are numbers, else in a plane to choose."""
    if all(len(own[0]) == 1 for own in vectors.values()):
        rows = [
            (f"head {head}", [(n, float(v[0])) for n, v in zip(styles, own, strict=True)])
            for head, own in vectors.items()
        ]
        return number_line(rows, x=x, styles=styles)
    shown = list(vectors.items())[:MAX_MENU]
    looks = list(styles.values())
    return choice(
        [(f"head {h}", plane(view(np.stack(own)), list(styles), looks)) for h, own in shown]
    )


def attended(result: TraceResult, array: LabeledArray) -> list[str]:
    """The tokens some head can look at: CLS only where the model attends to it."""
    with_cls = result.weights is None or bool(result.weights.at(token="CLS").any())
    return [token for token in array.labels["token"] if token != "CLS" or with_cls]


def digits(values: NDArray[np.float64]) -> str:
    return " ".join(f"{value:.4f}" for value in values)
