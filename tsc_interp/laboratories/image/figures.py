"""Figures of the image laboratory: the map over the picture first, then how often it is right."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from tsc_interp.laboratories.base import LabeledArray
from tsc_interp.laboratories.image.result import ARMS, QUESTIONS, TRAINED, ImageResult
from tsc_interp.plots.colours import DASHES, INK, MUTED, SHARE, diverging, faint
from tsc_interp.plots.heat import heat, side_by_side
from tsc_interp.plots.series import add_series
from tsc_interp.plots.style import Figure, new_figure
from tsc_interp.results.intervals import share_interval

_OVER = MUTED[2]
"""Attention, over a picture."""


def figures(result: ImageResult) -> list[Figure]:
    return [_maps(result), _arms(result), _places(result), _filters(result)]


def _pictures(titles: Sequence[str], across: int, height: int, **gaps: float) -> go.Figure:
    """Square pictures side by side, without ticks, the first row of pixels on top."""
    figure = side_by_side(titles, across, height, **gaps)
    bare = {"visible": False, "constrain": "domain"}
    figure.update_xaxes(bare).update_yaxes(bare, autorange="reversed", scaleratio=1)
    return figure.for_each_yaxis(lambda axis: axis.update(scaleanchor=axis.anchor))


def _maps(result: ImageResult) -> Figure:
    verdicts = [
        "" if case.answer == case.word else f" (it is {case.word})" for case in result.shown
    ]
    titles = [
        f"{case.sentence.removesuffix(f'{case.place} is')}<br>{case.place} is "
        f"<b>{case.answer}</b>{verdict}"
        for case, verdict in zip(result.shown, verdicts, strict=True)
    ]
    figure = _pictures(titles, 2, 680, y_gap=0.2)
    picture = result.picture.array
    side = len(picture)
    step = side / result.maps.shape[-1]
    middles = [step * (i + 0.5) - 0.5 for i in range(result.maps.shape[-1])]
    clear = [(0.0, faint(_OVER, 0.0)), (1.0, faint(_OVER, 0.85))]
    spoken = []
    for place, (case, weights) in enumerate(zip(result.shown, result.maps.array, strict=True)):
        at = {"row": place // 2 + 1, "col": place % 2 + 1}
        figure.add_heatmap(z=picture, showscale=False, **SHARE, hoverinfo="skip", **at)
        for cut in range(1, result.options.grid):
            edge = cut * side / result.options.grid - 0.5
            figure.add_hline(edge, line={"color": INK, "width": 1}, **at)
            figure.add_vline(edge, line={"color": INK, "width": 1}, **at)
        figure.add_heatmap(
            z=weights, x=middles, y=middles, showscale=False, colorscale=clear, zmin=0.0,
            zmax=float(weights.max()), hovertemplate="weight %{z:.3f}<extra></extra>", **at,
        )  # fmt: skip
        spoken.append(
            f"`{case.sentence}`: {case.answer}{verdicts[place]}, largest weight {weights.max():.0%}"
        )
    return Figure(
        "maps",
        "Where the network looks for the next word",
        figure,
        "One picture of held-out digits, four sentences. Rust is the attention weight of each "
        "location, darkest where it is largest; bold is the network's next word.",
        "; ".join(spoken).replace("`", '"') + ".",
    )


def _arms(result: ImageResult) -> Figure:
    figure = new_figure("", "share of pictures", height=420, legend=True)
    parts: tuple[tuple[str, LabeledArray, str], ...] = (
        ("next word right", result.right, "circle"),
        ("largest weight in the named place", result.pointed, "diamond-open"),
    )
    test, seeds = result.options.test, result.options.seeds
    spoken = []
    for place, (name, counts, symbol) in enumerate(parts):
        x, y, up, down = [], [], [], []
        for i, arm in enumerate(ARMS):
            if arm not in counts.labels["arm"]:
                continue
            for k, count in enumerate(counts.at(arm=arm, question=QUESTIONS[0])):
                low, high = share_interval(int(count), test)
                x.append(i + (place - 0.5) * 0.4 + (k - (seeds - 1) / 2) * 0.3 / max(seeds, 3))
                y.append(count / test)
                up.append(high - count / test)
                down.append(count / test - low)
            spoken.append(f"{arm}, {name}: {result.mean(counts, arm):.1%}")
        reach = {"type": "data", "array": up, "arrayminus": down, "width": 3}
        add_series(figure, x, y, name, "%{y:.1%}", place=2 * place, mode="markers", symbol=symbol,
                   size=9, error_y=reach)  # fmt: skip
    lines = (
        ("knows all digits, not the place", result.blind),
        ("a place by chance", 1 / result.places),
    )
    for place, (name, value) in enumerate(lines):
        add_series(figure, [-0.5, len(ARMS) - 0.5], [value, value], name, "%{y:.1%}",
                   place=4 + place, dash=DASHES[1 + place], mode="lines")  # fmt: skip
    figure.update_xaxes(
        tickvals=list(range(len(ARMS))), ticktext=list(ARMS), range=[-0.5, len(ARMS) - 0.5],
        zeroline=False,
    )  # fmt: skip
    figure.update_yaxes(range=[-0.03, 1.05], tickformat=".0%")
    figure.update_layout(margin_t=56)
    return Figure(
        "arms",
        "Looking pays: right words with and without attention",
        figure,
        f"The first question about each of {test:,} pictures; one mark per seed with its 95 % "
        "interval (Clopper and Pearson). Above the upper line a network must know the place.",
        f"{'; '.join(spoken)}; {lines[0][0]}: {result.blind:.1%}.",
    )


def _places(result: ImageResult) -> Figure:
    weight, names = result.weight.array, list(result.weight.labels["named"])
    figure = heat(weight, names, names, show=".0%", hover=".1%", colours=SHARE)
    figure.update_layout(xaxis_title="place the weight is in", yaxis_title="place named last")
    own = ", ".join(f"{name} {weight[i, i]:.0%}" for i, name in enumerate(names))
    return Figure(
        "places",
        "The weight follows the place that was named last",
        figure,
        f"Mean attention weight in each place after the second `is`, over {result.options.test:,} "
        f"pictures and {result.options.seeds} {TRAINED} "
        f"network{'s' if result.options.seeds > 1 else ''}. The diagonal is the named place.",
        f"Weight in the named place: {own}.",
    )


def _filters(result: ImageResult) -> Figure:
    filters = result.filters.array
    across = min(len(filters), 8)
    down = -(-len(filters) // across)
    figure = _pictures([""] * len(filters), across, 120 * down + 40, x_gap=0.02)
    figure.update_layout(margin={"t": 16, "b": 16})
    scale = diverging(filters)
    for place, kernel in enumerate(filters):
        hover = "%{z:.2f}<extra>filter " + str(place) + "</extra>"
        figure.add_heatmap(z=kernel, showscale=False, **scale, hovertemplate=hover,
                           row=place // across + 1, col=place % across + 1)  # fmt: skip
    return Figure(
        "filters",
        "The learned filters of the first convolution",
        figure,
        "Each is 3 × 3 pixels of weights: vermillion answers to ink, blue to its absence.",
        f"{len(filters)} filters, weights from {filters.min():.2f} to {filters.max():.2f}.",
    )
