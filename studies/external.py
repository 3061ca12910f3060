"""Figures of runs with other people's models, from the results they left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tsc_interp.plots.colours import INK, MUTED
from tsc_interp.plots.style import Figure, new_figure
from tsc_interp.results.intervals import mean_interval

Rows = Sequence[Mapping[str, Any]]
_SHAPES = ("circle", "square", "diamond", "cross", "triangle-up")


def own_models(rows: Rows) -> Figure:
    """Where each of the models fails first, beside the length it was tested at."""
    lengths = sorted(row["right_through"] + 1 for row in rows)
    figure = new_figure("length of the shortest failure (log)", height=380)
    figure.add_scatter(
        x=lengths,
        y=[f"{i + 1}." for i in range(len(lengths))],
        mode="markers",
        marker={"size": 10, "color": MUTED[0], "symbol": "diamond"},
        hovertemplate="wrong at length %{x}<extra></extra>",
    )
    for length, words, side in ((20, "tested here", "right"), (127, "context", "right")):
        figure.add_vline(x=length, line={"color": INK, "dash": "dash"})
        figure.add_annotation(
            x=math.log10(length), y=1.0, yref="paper", text=words, showarrow=False, xanchor=side,
            xshift=-6,
        )  # fmt: skip
    figure.update_xaxes(type="log", range=[1.0, 2.15], tickvals=[10, 20, 30, 50, 100])
    figure.update_yaxes(title="model, in order of failure", autorange="reversed")
    return Figure(
        "own-models",
        f"{len(rows)} models, all right on 10,000 test strings of 20 letters",
        figure,
        "Each mark is the length of a model's shortest failure, proved. Each model was trained on "
        "strings of up to 20 letters and right on all it was tested on. With the query its context "
        "holds 127 letters.",
        f"Marks between {lengths[0]} and {lengths[-1]} letters, right of a line at 20.",
    )


def mean_accuracy(rows: Rows) -> str:
    """Return the mean accuracy of max-of-4 models over seeds, with its interval."""
    accuracies = [1 - row["wrong"] / 64**4 for row in rows]
    low, high = mean_interval(accuracies)
    return (
        f"the mean accuracy is {sum(accuracies) / len(rows):.4f} (95% CI {low:.4f} to {high:.4f}), "
        f"the least {min(accuracies):.4f}"
    )


def wrong_by_maximum(rows: Rows) -> Figure:
    """The wrong sequences of max-of-4 by their maximum."""
    figure = new_figure("the sequence's maximum", "share of its sequences wrong", legend=True)
    for row, colour, shape in zip(rows, MUTED, _SHAPES, strict=False):
        shares = [
            wrong / ((m + 1) ** 4 - m**4) or None for m, wrong in enumerate(row["by_maximum"])
        ]
        figure.add_scatter(
            y=shares,
            mode="markers",
            marker={"size": 7, "color": colour, "symbol": shape},
            name=f"seed {row['seed']}",
        )
    figure.update_yaxes(type="log", exponentformat="power", dtick=1)
    figure.update_layout(legend={"orientation": "h", "y": 1.12, "x": 0})
    return Figure(
        "wrong-by-maximum",
        "Small maxima are rare in training, and there the models are wrong",
        figure,
        "For each maximum, the exact share of its sequences that a model gets wrong; no mark where "
        "all are right.",
        "Shares are near one for the smallest maxima and fall to zero for most above twenty.",
    )
