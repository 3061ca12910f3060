"""Figures of the failure atlas: the triangle of ratios, far ratios, the edges, every set."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from tsc_interp.plots.style import (
    DASHES,
    INK,
    PALETTE,
    WRONG,
    Figure,
    Label,
    diverging,
    new_figure,
)
from tsc_interp.probes.atlas.figures_parts import (
    HEIGHT,
    hover,
    in_triangle,
    length_slider,
    logit_map,
    mark,
    pair_string,
    power_ticks,
)
from tsc_interp.probes.atlas.result import (
    RAREST,
    AtlasResult,
    pair_counts,
    plane_counts,
    triangle_counts,
)
from tsc_interp.probes.base import LabeledArray


def figures(result: AtlasResult) -> list[Figure]:
    drawn = []
    if result.triangle is not None and result.triangle_wrong is not None:
        drawn.append(_triangle(result, result.triangle, result.triangle_wrong))
    if result.plane is not None and result.plane_wrong is not None:
        drawn.append(_plane(result, result.plane, result.plane_wrong))
    if result.pairs is not None and result.pairs_wrong is not None:
        drawn.append(_pairs(result, result.pairs, result.pairs_wrong))
    return [*drawn, _sets(result)]


def _triangle(result: AtlasResult, logits: LabeledArray, wrong: LabeledArray) -> Figure:
    """A slice per length, one of them shown; corners are the letters."""
    figure = new_figure(height=560)
    rows, columns = logits.shape[1:]
    x, y = np.linspace(0, 1, columns), np.linspace(0, HEIGHT, rows)
    across, up = [-0.12, 1.12], [-0.12, HEIGHT + 0.14]
    lengths = [int(length) for length in logits.labels["length"]]
    scale = diverging(logits.array)
    per_slice = 0
    for index, length in enumerate(lengths):
        counts, _ = triangle_counts(length)
        traces = logit_map(x, y, logits.array[index], wrong.array[index], counts, scale)
        per_slice = len(traces)
        figure.add_traces([trace.update(visible=index == len(lengths) - 1) for trace in traces])
    figure.add_scatter(
        x=[0, 1, 0.5, 0],
        y=[0, 0, HEIGHT, 0],
        mode="lines",
        line={"color": INK, "width": 1.5},
        hoverinfo="skip",
        showlegend=False,
    )
    _wrong_edges(figure, result)
    points = [(in_triangle(one.counts), one) for one in result.marked]
    places = ((-0.03, -0.05), (1.03, -0.05), (0.5, HEIGHT + 0.1))
    corners = [
        Label(*place, f"only {letter}", 0.0, 0.0)
        for letter, place in zip(result.letters, places, strict=True)
    ]
    mark(figure, points, (across, up), corners)
    for corner in corners:
        figure.add_annotation(x=corner.x, y=corner.y, text=f"<b>{corner.text}</b>")
    if len(lengths) > 1:
        length_slider(figure, lengths, per_slice)
    hidden = {"visible": False}
    figure.update_xaxes(range=across, constrain="domain", **hidden)
    figure.update_yaxes(range=up, scaleanchor="x", constrain="domain", **hidden)
    share = float(np.nanmean(wrong.array[-1]))
    which = f"of {lengths[-1]:,} letters" if result.length_matters else "of every length"
    first, second, third = tuple(result.letters)
    return Figure(
        "triangle",
        "Every string there is, by its shares of letters",
        figure,
        "Each cell is a string with all three letters; hover for it. A corner is one letter alone, "
        "an edge two. Vermillion: the answer is yes; blue: no; the line between is the decision. "
        "Purple: the answer is wrong. Crosses are the first errors. "
        + (
            "Length matters to this model: the slider changes it."
            if result.length_matters
            else "Length does not matter to this model, only the shares do."
        ),
        f"Triangle with corners {first}, {second} and {third}; among its cells, strings {which}, "
        f"{share:.1%} are wrong. {_spoken(result)}",
    )


def _plane(result: AtlasResult, logits: LabeledArray, wrong: LabeledArray) -> Figure:
    first, second, third = tuple(result.letters)
    reach = result.plane_reach
    figure = new_figure(f"{second} per {first}", f"{third} per {first}", height=560)
    steps = np.linspace(-reach, reach, logits.shape[0])
    counts = plane_counts(reach)
    figure.add_traces(
        logit_map(steps, steps, logits.array, wrong.array, counts, diverging(logits.array))
    )
    points = [
        (np.log10(np.array(one.counts[1:]) / one.counts[0]), one)
        for one in result.marked
        if all(one.counts)
    ]
    mark(figure, points, ([-reach, reach], [-reach, reach]))
    power_ticks(figure.update_xaxes, reach)
    power_ticks(figure.update_yaxes, reach)
    figure.update_xaxes(range=[-reach, reach], constrain="domain")
    figure.update_yaxes(range=[-reach, reach], scaleanchor="x", constrain="domain")
    return Figure(
        "far-ratios",
        "How lopsided a string must be to fail",
        figure,
        f"The same, stretched: one step is ten times as many {second} (right) or {third} (up) per "
        f"{first}. Each cell is a string with these ratios, its rarest letter occurring {RAREST} "
        f"times. Purple: wrong. The crosses are the first errors.",
        f"Map of strings with all three letters up to 10^{reach} : 1; {wrong.array.mean():.1%} of "
        f"its cells are wrong. {_spoken(result)}",
    )


def _pairs(result: AtlasResult, logits: LabeledArray, wrong: LabeledArray) -> Figure:
    """The edges: strings of two letters. The wrong stretch of a curve is drawn thick and purple."""
    reach = result.pair_reach
    figure = new_figure("second letter per first", "logit", height=440, legend=True)
    steps = np.linspace(-reach, reach, logits.shape[1])
    counts = pair_counts(reach)
    spoken = []
    labels = {one.letters: one.label for one in result.sets}
    for line, pair in enumerate(logits.labels["pair"]):
        values, bad = logits.at(pair=pair), wrong.at(pair=pair) > 0
        words = [hover(pair_string(pair, c), v, b) for c, v, b in
                 zip(counts.tolist(), values, bad, strict=True)]  # fmt: skip
        if bad.any():
            figure.add_scatter(
                x=steps,
                y=np.where(bad, values, np.nan),
                mode="lines",
                line={"color": WRONG, "width": 9},
                opacity=0.6,
                hoverinfo="skip",
                name="wrong",
                legendgroup="wrong",
                showlegend=not any(trace.name == "wrong" for trace in figure.data),
            )
        answer = {0: ", should be no", 1: ", should be yes", None: ""}[labels[pair]]
        figure.add_scatter(
            x=steps,
            y=values,
            mode="lines",
            name=f"{pair[0]} and {pair[1]}{answer}",
            line={"color": PALETTE[line % len(PALETTE)], "dash": DASHES[line % len(DASHES)]},
            customdata=words,
            hovertemplate="%{customdata}<extra></extra>",
        )
        spoken.append(f"{pair[0]} and {pair[1]}: {bad.mean():.0%} wrong")
    figure.add_hline(y=0, line={"color": INK, "width": 1.5, "dash": "dash"})
    power_ticks(figure.update_xaxes, reach)
    figure.update_yaxes(zeroline=False)
    figure.update_layout(margin_t=70)
    return Figure(
        "edges",
        "Strings of two letters",
        figure,
        "The edges of the triangle: from almost only the first letter (left) to almost only the "
        "second (right), on a logarithmic scale. Above the dashed line the answer is yes. "
        "Where a curve is thick and purple the answer is wrong.",
        f"Logits of two-letter strings up to 10^{reach} : 1. {'; '.join(spoken)}.",
    )


def _sets(result: AtlasResult) -> Figure:
    """How long the first error of every set of letters is."""
    sets = sorted(result.sets, key=lambda one: (one.length or np.inf, one.letters))
    figure = new_figure("letters in the first error", height=110 + 26 * len(sets))
    far = max([one.length or 0 for one in sets] + [1000]) * 3
    place = list(range(len(sets)))
    failing = [(i, one) for i, one in enumerate(sets) if one.length is not None]
    figure.add_scatter(
        x=[one.length for _, one in failing],
        y=[i for i, _ in failing],
        mode="markers+text",
        marker={"symbol": "x", "size": 11, "color": WRONG},
        text=[f" {one.first_error}" for _, one in failing],
        textposition="middle right",
        cliponaxis=False,
        hovertext=[f"{one.first_error}: a {one.kind}, logit {one.logit:.4g}" for _, one in failing],
        hoverinfo="text",
        showlegend=False,
    )
    quiet = [(i, one) for i, one in enumerate(sets) if one.length is None]
    figure.add_scatter(
        x=[1] * len(quiet),
        y=[i for i, _ in quiet],
        mode="text",
        text=[
            "right at every length, proved" if one.always_right
            else f"no error up to {one.right_through:,}, proved"
            for _, one in quiet
        ],
        textposition="middle right",
        hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip
    figure.update_xaxes(type="log", dtick=1, range=[-0.1, float(np.log10(far)) + 1.2])
    figure.update_yaxes(
        tickvals=place,
        ticktext=[f"only {', '.join(one.letters)}" for one in sets],
        autorange="reversed",
        zeroline=False,
    )
    return Figure(
        "first-errors",
        "The first error of every set of letters",
        figure,
        "One row per set of letters: strings over exactly these. The cross stands at the length of "
        "the shortest string the model gets wrong.",
        f"First errors by set of letters, {len(sets)} sets. {_spoken(result)}",
    )


def _wrong_edges(figure: go.Figure, result: AtlasResult) -> None:
    """Strings of two letters lie on the edges: where they are wrong, the edge is purple."""
    if result.pairs_wrong is None:
        return
    counts = pair_counts(result.pair_reach)
    for pair in result.pairs_wrong.labels["pair"]:
        full = np.zeros((len(counts), len(result.letters)), dtype=np.int64)
        full[:, [result.letters.index(letter) for letter in pair]] = counts
        at = np.array([in_triangle(row) for row in full.tolist()])
        at[result.pairs_wrong.at(pair=pair) == 0] = np.nan
        if np.isfinite(at).any():
            figure.add_scatter(
                x=at[:, 0],
                y=at[:, 1],
                mode="lines",
                line={"color": WRONG, "width": 6},
                hoverinfo="skip",
                showlegend=False,
            )


def _spoken(result: AtlasResult) -> str:
    first = [f"{one.letters}: {one.first_error}" for one in result.sets if one.first_error]
    if not first:
        return f"No error up to {result.right_through:,} letters."
    return f"First errors: {'; '.join(first[:8])}."
