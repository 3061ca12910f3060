"""Figures of the failure atlas: the map of all mixtures, far ratios, two letters, every set."""

from __future__ import annotations

import numpy as np

from tsc_interp.plots.colours import INK, NEGATIVE, POSITIVE, WRONG
from tsc_interp.plots.series import add_series
from tsc_interp.plots.style import Figure, decision_line, new_figure
from tsc_interp.probes.atlas.figures_map import triangle
from tsc_interp.probes.atlas.figures_parts import (
    first_errors,
    hover,
    logit_map,
    mark,
    pair_string,
    power_ticks,
)
from tsc_interp.probes.atlas.result import RAREST, AtlasResult, pair_counts, plane_counts
from tsc_interp.results.base import LabeledArray


def figures(result: AtlasResult) -> list[Figure]:
    drawn = []
    if result.plane is not None and result.plane_wrong is not None:
        drawn.append(_plane(result, result.plane, result.plane_wrong))
    if result.pairs is not None and result.pairs_wrong is not None:
        drawn.append(_pairs(result, result.pairs, result.pairs_wrong))
    drawn.append(_sets(result))
    # Last: pages open with the same map, drawn sharper.
    if result.triangle is not None and result.triangle_wrong is not None:
        drawn.append(triangle(result, result.triangle, result.triangle_wrong))
    return drawn


def _plane(result: AtlasResult, logits: LabeledArray, wrong: LabeledArray) -> Figure:
    first, second, third = tuple(result.letters)
    reach = result.plane_reach
    figure = new_figure(f"{second} per {first}", f"{third} per {first}", height=560)
    steps = np.linspace(-reach, reach, logits.shape[0])
    counts = plane_counts(reach)
    figure.add_traces(
        logit_map(steps, steps, logits.array, wrong.array, counts, scale=logits.array)
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
        f"its cells are wrong. {first_errors(result)}",
    )


def _pairs(result: AtlasResult, logits: LabeledArray, wrong: LabeledArray) -> Figure:
    """The edges: strings of two letters. The wrong stretch of a curve is drawn thick and purple."""
    reach = result.pair_reach
    figure = new_figure("second letter per first", "logit", height=440, legend=True)
    steps = np.linspace(-reach, reach, logits.shape[1])
    counts = pair_counts(reach)
    spoken = []
    labels = {one.letters: one.label for one in result.sets}
    colours = {0: NEGATIVE, 1: POSITIVE, None: INK}
    for line, pair in enumerate(logits.labels["pair"]):
        values, bad = logits.at(pair=pair), wrong.at(pair=pair) > 0
        words = [hover(pair_string(pair, c), v, b) for c, v, b in
                 zip(counts.tolist(), values, bad, strict=True)]  # fmt: skip
        if bad.any():
            first = not any(trace.name == "wrong" for trace in figure.data)
            add_series(figure, steps, np.where(bad, values, np.nan), "wrong", mode="lines",
                       colour=WRONG, width=9, opacity=0.6, hoverinfo="skip", legendgroup="wrong",
                       showlegend=first)  # fmt: skip
        answer = {0: ", should be no", 1: ", should be yes", None: ""}[labels[pair]]
        add_series(figure, steps, values, f"{pair[0]} and {pair[1]}{answer}",
                   "%{customdata}<extra></extra>", mode="lines", place=line,
                   colour=colours[labels[pair]], customdata=words)  # fmt: skip
        spoken.append(f"{pair[0]} and {pair[1]}: {bad.mean():.0%} wrong")
    decision_line(figure, y=0)
    power_ticks(figure.update_xaxes, reach)
    figure.update_yaxes(zeroline=False)
    figure.update_layout(margin_t=70)
    return Figure(
        "edges",
        "Strings of two letters",
        figure,
        "From almost only the first letter (left) to almost only the "
        "second (right), on a logarithmic scale. Above the dashed line the answer is yes; curves "
        "in vermillion should be there, blue ones below. "
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
        text=[f" {one.first_error} " for _, one in failing],
        textposition=[
            "middle right" if (one.length or 0) ** 2 < far else "middle left" for _, one in failing
        ],
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
        f"First errors by set of letters, {len(sets)} sets. {first_errors(result)}",
    )
