"""Pictures of a falsification, made from its rates alone."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from tsc_interp.falsification.rate import Rate
from tsc_interp.plots.colours import WRONG
from tsc_interp.plots.figure import Figure, Figures
from tsc_interp.plots.style import new_figure


def figures(
    by_place: Sequence[Rate], by_class: Sequence[Rate], by_length: Sequence[Rate]
) -> Figures:
    """Error rates by place, by class and by length, as far as there are any."""
    groups = (
        ("by-place", "Where one letter changes the label and the model does not see it",
         "one letter changed", by_place),
        ("by-class", "Error rate by class", "class", by_class),
        ("by-length", "Error rate by length", "letters", by_length),
    )  # fmt: skip
    return Figures(
        [_bars(name, title, grouping, rates) for name, title, grouping, rates in groups if rates]
    )


def _bars(name: str, title: str, grouping: str, rates: Sequence[Rate]) -> Figure:
    measured = [rate for rate in rates if rate.tried]
    names = [rate.of for rate in measured]
    shares = [rate.share for rate in measured]
    ends = [rate.interval for rate in measured]
    figure = new_figure("share answered wrong", height=96 + 24 * len(measured))
    figure.add_trace(
        go.Bar(
            x=shares,
            y=names,
            orientation="h",
            marker={"color": WRONG},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [high - share for share, (_, high) in zip(shares, ends, strict=True)],
                "arrayminus": [share - low for share, (low, _) in zip(shares, ends, strict=True)],
            },
            customdata=[f"{rate.wrong:,} of {rate.tried:,}" for rate in measured],
            hovertemplate="%{y}: %{customdata} wrong<extra></extra>",
            showlegend=False,
        )
    )
    figure.update_xaxes(range=[0, 1.02], tickformat=".0%")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    worst = max(measured, key=lambda rate: rate.share)
    return Figure(
        name=name,
        title=title,
        figure=figure,
        caption=f"Share of wrong answers by {grouping}; lines are exact 95 % intervals.",
        alt=f"Bars of error rates; the largest is {worst.of} with {worst.share:.0%}.",
    )
