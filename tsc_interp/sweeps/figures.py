"""Figures of an analysis: distributions by option, and medians by two options."""

from __future__ import annotations

from typing import cast

import numpy as np

from tsc_interp.plots.figure import Figure
from tsc_interp.plots.heat import heat
from tsc_interp.plots.series import add_series
from tsc_interp.plots.style import INK, MUTED, new_figure
from tsc_interp.sweeps.analysis import Analysis, Factor, Group, Interaction

_MOST_INTERACTIONS = 6
_EXTREMES = 5
_BOX = ("lowerfence", "q1", "median", "q3", "upperfence")
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def figures(found: Analysis) -> list[Figure]:
    """Options first, those that explain most before the others; then pairs of them."""
    drawn = [distribution(factor, found.measure) for factor in found.factors]
    pairs = found.interactions[:_MOST_INTERACTIONS]
    together = [medians(pair, found.measure) for pair in pairs]
    return drawn + together


def distribution(factor: Factor, measure: str) -> Figure:
    """A box for each value, half of its models in it, and the models farthest out as points."""
    drawn = [(at, group) for at, group in enumerate(factor.groups) if len(group.measures)]
    figure = new_figure(factor.name, measure, height=380)
    top = 3.0 * max((float(group.measures.max()) for _, group in drawn), default=1.0)
    quantiles = [_quantiles(group, *_QUANTILES) for _, group in drawn]
    figure.add_box(
        x=[at for at, _ in drawn],
        # What lies at infinity is drawn at the top.
        **{part: [min(values[i], top) for values in quantiles] for i, part in enumerate(_BOX)},
        fillcolor=MUTED[0],
        line={"color": INK, "width": 2},
        opacity=0.7,
        showlegend=False,
    )
    for at, group in drawn:
        every = range(len(group.rows))
        places = sorted({*every[:_EXTREMES], *every[-_EXTREMES:]})
        add_series(figure, [at] * len(places), group.measures[places].tolist(), "",
                   "row %{customdata}: %{y:,}", mode="markers", place=2, size=6,
                   customdata=group.rows[places].tolist(), showlegend=False)  # fmt: skip
    names = [group.value for group in factor.groups]
    figure.update_yaxes(type="log", dtick=1, tickformat=",", minor={"showgrid": False})
    figure.update_xaxes(
        type="linear", tickvals=list(range(len(names))), ticktext=names,
        range=[-0.6, len(names) - 0.4], showgrid=False, zeroline=False,
    )  # fmt: skip
    infinite = [(at, group) for at, group in enumerate(factor.groups) if group.infinite]
    for at, group in infinite:
        share = f"{group.infinite / group.models:.0%} ∞"
        figure.add_annotation(x=at, y=1.0, yref="paper", yanchor="bottom", text=share)
    figure.update_layout(margin={"t": 34 if infinite else 16})
    caption = (
        f"A box holds half of the models, its whiskers nine of ten, and its line is the median. "
        f"Points are the {_EXTREMES} most extreme models on either side. The option explains "
        f"{factor.explained:.0%} of the variance of the log length."
    )
    if infinite:
        caption += (
            " Models proved right at every length count as longer than all others; their share "
            "stands above."
        )
    listed = "; ".join(_told(group) for group in factor.groups)
    alt = f"{measure} by {factor.name}: {listed}."
    return Figure(f"by-{factor.name}", f"By {factor.name}", figure, caption, alt)


def _quantiles(group: Group, *at: float) -> list[float]:
    """Of all models of a group, those that are right at every length included."""
    lengths = np.concatenate([group.measures, np.full(group.infinite, np.inf)])
    return cast("list[float]", np.quantile(lengths, at, method="lower").tolist())


def _told(group: Group) -> str:
    count = len(group.measures)
    middle = f"median {_median(*_quantiles(group, 0.5))}"
    middle += f" of {count + group.infinite:,}" if count else ""
    always = f", {group.infinite:,} proved right at every length" if group.infinite else ""
    return f"{group.value}: {middle}{always}"


def _median(value: float) -> str:
    return "" if np.isnan(value) else "∞" if np.isposinf(value) else f"{value:,.0f}"


def medians(pair: Interaction, measure: str) -> Figure:
    """A cell for each combination, its median written in."""
    finite = pair.medians[np.isfinite(pair.medians)]
    logs = np.log10(np.where(np.isposinf(pair.medians), 10 * finite.max(initial=1), pair.medians))
    words = [[_median(cell) for cell in row] for row in pair.medians]
    figure = heat(
        logs, pair.rows, pair.columns, words=words, colours={"coloraxis": "coloraxis"},
        most_written=12,
    )  # fmt: skip
    figure.update_layout(coloraxis={"showscale": False}, margin={"t": 64})
    figure.update_xaxes(title=pair.second, type="linear")
    title = f"{pair.first} and {pair.second} together"
    listed = "; ".join(
        f"{row}, {column}: {words[i][j] or 'no models'}"
        for i, row in enumerate(pair.rows)
        for j, column in enumerate(pair.columns)
    )
    always = " (∞: proved right at every length)" if np.isposinf(pair.medians).any() else ""
    caption = (
        f"Medians of the {measure}{always}; rows are `{pair.first}`, darker is longer. Among "
        f"models with a first error, the pair explains {pair.beyond:.0%} of the variance of the "
        "log length beyond what each option explains alone."
    )
    return Figure(f"{pair.first}-by-{pair.second}", title, figure, caption, f"Medians: {listed}.")
