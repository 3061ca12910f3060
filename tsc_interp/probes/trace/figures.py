"""Figures of a trace, in the order a string travels: what goes in, the heads, what comes out."""

from __future__ import annotations

import numpy as np

from tsc_interp.plots.colours import MUTED
from tsc_interp.plots.series import add_guide, add_series, each, name_rows, signed_bars
from tsc_interp.plots.style import Figure, new_figure
from tsc_interp.plots.vectors import string_styles
from tsc_interp.probes.trace.figures_attention import head_values, two_heads, weights
from tsc_interp.probes.trace.figures_heads import keys, values
from tsc_interp.probes.trace.figures_states import embeddings, journeys, normalised, readout, stage
from tsc_interp.probes.trace.result import TraceResult


def figures(result: TraceResult) -> list[Figure]:
    drawn = [_logits(result), embeddings(result)]
    if result.query is not None and result.key is not None and result.value is not None:
        drawn += [keys(result, result.query, result.key), values(result, result.value)]
    if result.weights is not None:
        drawn += [
            weights(result, result.weights, layer)
            for layer in range(len(result.weights.labels["layer"]))
        ]
    if result.head_values is not None:
        drawn += [head_values(result, result.head_values)]
    if result.value is not None and result.value.shape[-1] == 1 and result.value.shape[-2] > 1:
        # A page shows the first figure unfolded: with two heads, the one that explains the answer.
        place = 0 if len(result.value.labels["head"]) == 2 else len(drawn)
        drawn.insert(place, two_heads(result, result.value))
    stages = result.states.labels["stage"]
    names = ("attn_out", "resid_mid", "mlp_out")
    drawn += [stage(result, name) for name in names if name in stages]
    drawn += [readout(result), journeys(result)]
    drawn += [normalised(result, name) for name in ("resid_mid", "resid_post") if name in stages]
    drawn.append(_magnitudes(result))
    return drawn


def _logits(result: TraceResult) -> Figure:
    """One bar per string, from zero to its logit, the largest on top."""
    order = np.argsort(-result.logits.array, kind="stable").tolist()
    styles = string_styles(result.labels, result.right)
    logits = result.logits.array.tolist()
    figure = signed_bars(
        [logits[i] for i in order],
        [result.strings[i] for i in order],
        x="logit (above 0: answers yes)",
        colours=[styles[i].colour for i in order],
        hatched=[not result.right[i] for i in order],
        notes=["" if result.right[i] else " wrong" for i in order],
        hover=[f"{result.strings[i]}: {logits[i]:.4f}" for i in order],
    )
    marks = ["" if right else " (wrong)" for right in result.right]
    spoken = each("{} {:.4f}{}", result.strings, logits, marks, between=", ")
    return Figure(
        "logits",
        "What the model answers",
        figure,
        "A bar to the right of zero means yes. Vermillion strings should be yes, blue ones no; "
        "hatched purple bars point the wrong way.",
        f"Logits: {spoken}.",
    )


def _magnitudes(result: TraceResult) -> Figure:
    names = list(result.magnitudes.labels["weight"])
    mean, largest = result.magnitudes.array.T
    rows = list(range(len(names)))
    figure = new_figure("size of an entry", height=96 + 30 * len(names), legend=True)
    for row in rows:
        add_guide(figure, [mean[row], largest[row]], [row, row], width=2)
    for label, sizes, colour, symbol in (
        ("root mean square", mean, MUTED[0], "circle"),
        ("largest", largest, MUTED[2], "line-ns-open"),
    ):
        add_series(figure, sizes, rows, label, "%{customdata}: %{x:.4f}", mode="markers",
                   colour=colour, symbol=symbol, size=11, customdata=names)  # fmt: skip
    name_rows(figure, names, showgrid=False)
    figure.update_xaxes(rangemode="tozero")
    spoken = each("{} {:.4f} (largest {:.4f})", names, mean, largest, between=", ")
    return Figure(
        "magnitudes",
        "How large the weights are",
        figure,
        "For each weight matrix, the typical (root mean square) and the largest of its entries.",
        f"Root mean squares: {spoken}.",
    )
