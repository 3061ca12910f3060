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
        [_bars(name, title, what, rates) for name, title, what, rates in groups if rates]
    )


def _bars(name: str, title: str, what: str, rates: Sequence[Rate]) -> Figure:
    seen = [rate for rate in rates if rate.tried]
    names = [one.of for one in seen]
    shares = [one.share for one in seen]
    ends = [one.interval for one in seen]
    figure = new_figure("share answered wrong", height=96 + 24 * len(seen))
    figure.add_trace(
        go.Bar(
            x=shares,
            y=names,
            orientation="h",
            marker={"color": WRONG},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [high - one for one, (_, high) in zip(shares, ends, strict=True)],
                "arrayminus": [one - low for one, (low, _) in zip(shares, ends, strict=True)],
            },
            customdata=[f"{one.wrong:,} of {one.tried:,}" for one in seen],
            hovertemplate="%{y}: %{customdata} wrong<extra></extra>",
            showlegend=False,
        )
    )
    figure.update_xaxes(range=[0, 1.02], tickformat=".0%")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    worst = max(seen, key=lambda one: one.share)
    return Figure(
        name=name,
        title=title,
        figure=figure,
        caption=f"Share of wrong answers by {what}; lines are exact 95 % intervals.",
        alt=f"Bars of error rates; the largest is {worst.of} with {worst.share:.0%}.",
    )
