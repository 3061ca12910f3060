"""Figures of an analysis: distributions by option, and medians by two options."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from tsc_interp.plots.figure import Figure
from tsc_interp.plots.heat import heat
from tsc_interp.plots.style import INK, MUTED, new_figure
from tsc_interp.results.intervals import told_median
from tsc_interp.sweeps.analysis import Analysis, Factor, Group, Interaction

_MOST_INTERACTIONS = 6
_EXTREMES = 5
_BOX = ("lowerfence", "q1", "median", "q3", "upperfence")
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def figures(found: Analysis) -> list[Figure]:
    """Options first, those that explain most before the others; then pairs of them."""
    drawn = [distribution(factor, found.measure) for factor in found.factors]
    pairs = found.interactions[:_MOST_INTERACTIONS]
    return drawn + [medians(pair, found.measure) for pair in pairs]


def distribution(factor: Factor, measure: str) -> Figure:
    """A box for each value, half of its models in it, and the models farthest out as points."""
    drawn = [(at, group) for at, group in enumerate(factor.groups) if len(group.measures)]
    figure = new_figure(factor.name, measure, height=380)
    quantiles = [np.quantile(group.measures, _QUANTILES).tolist() for _, group in drawn]
    figure.add_box(
        x=[at for at, _ in drawn],
        **{part: [found[i] for found in quantiles] for i, part in enumerate(_BOX)},
        fillcolor=MUTED[0],
        line={"color": INK, "width": 2},
        opacity=0.7,
        showlegend=False,
    )
    for at, group in drawn:
        _add_extremes(figure, at, group)
    names = [group.value for group in factor.groups]
    figure.update_yaxes(type="log", dtick=1, minor={"showgrid": False})
    figure.update_xaxes(
        type="linear", tickvals=list(range(len(names))), ticktext=names,
        range=[-0.6, len(names) - 0.4], showgrid=False, zeroline=False,
    )  # fmt: skip
    always = _add_infinite(figure, factor)
    caption = (
        f"Of the models that have one, half lie in a box and nine of ten between its whiskers; "
        f"points are the {_EXTREMES} farthest out on either side. The option explains "
        f"{factor.explained:.0%} of the variance of the logarithm."
    )
    if always:
        caption += " Above: models proved right at every length, which have no first error."
    told = "; ".join(_told(group) for group in factor.groups)
    title = f"By {factor.name}"
    alt = f"{measure} by {factor.name}: {told}."
    return Figure(f"by-{factor.name}", title, figure, caption, alt)


def _told(group: Group) -> str:
    known = len(group.measures)
    middle = f"median {told_median(group.measures)} of {known:,}" if known else "none"
    always = f", {group.infinite:,} proved right at every length" if group.infinite else ""
    return f"{group.value}: {middle}{always}"


def _add_extremes(figure: go.Figure, at: int, group: Group) -> None:
    every = range(len(group.rows))
    places = sorted({*every[:_EXTREMES], *every[-_EXTREMES:]})
    figure.add_scatter(
        x=[at] * len(places),
        y=group.measures[places].tolist(),
        mode="markers",
        marker={"color": MUTED[2], "size": 6, "symbol": "diamond"},
        customdata=group.rows[places].tolist(),
        hovertemplate="row %{customdata}: %{y:,}<extra></extra>",
        showlegend=False,
    )


def _add_infinite(figure: go.Figure, factor: Factor) -> bool:
    """The share of each group that has no first error, above it; whether there is any."""
    found = [(at, group) for at, group in enumerate(factor.groups) if group.infinite]
    for at, group in found:
        share = f"{group.infinite / group.models:.0%} ∞"
        figure.add_annotation(x=at, y=1.0, yref="paper", yanchor="bottom", text=share)
    figure.update_layout(margin={"t": 34 if found else 16})
    return bool(found)


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
    told = "; ".join(
        f"{row}, {column}: {words[i][j] or 'no models'}"
        for i, row in enumerate(pair.rows)
        for j, column in enumerate(pair.columns)
    )
    always = " (∞: proved right at every length)" if np.isposinf(pair.medians).any() else ""
    caption = (
        f"Medians of the {measure}{always}; rows are `{pair.first}`, darker is longer. Of the "
        f"models that have a first error they explain together {pair.beyond:.0%} of the "
        "variance of the logarithm beyond what each does alone."
    )
    return Figure(f"{pair.first}-by-{pair.second}", title, figure, caption, f"Medians: {told}.")
