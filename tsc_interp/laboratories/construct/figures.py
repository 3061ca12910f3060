"""Figures of construct: horizons against what margins allow, how logits fade, parity by heads."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from tsc_interp.laboratories.construct.result import ConstructResult
from tsc_interp.plots.colours import DASHES, INK, MUTED
from tsc_interp.plots.style import Figure, new_figure


def figures(result: ConstructResult) -> list[Figure]:
    return [_bound(result), _fading(result), _parity(result)]


def _bound(result: ConstructResult) -> Figure:
    figure = new_figure("horizon the margins allow", "horizon", height=460, legend=True)
    built, trained = result.margins, result.trained
    most = float(max(built.at(quantity="allowed").max(), trained.at(quantity="allowed").max()))
    figure.add_scatter(
        x=[2, most],
        y=[2, most],
        mode="lines",
        name="the bound",
        line={"color": INK, "dash": "dash"},
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=built.at(quantity="allowed"),
        y=built.at(quantity="horizon"),
        mode="markers",
        name="built",
        marker={"symbol": "diamond", "size": 11, "color": MUTED[0]},
        customdata=built.labels["length"],
        hovertemplate="built for %{customdata}: allowed %{x:,}, horizon %{y:,}<extra></extra>",
    )
    horizons = trained.at(quantity="horizon")
    figure.add_scatter(
        x=trained.at(quantity="allowed"),
        y=np.maximum(horizons, 0.7),
        mode="markers",
        name="trained",
        marker={"symbol": "circle", "size": 9, "color": MUTED[2], "opacity": 0.8},
        customdata=np.stack([np.arange(len(horizons)), horizons], axis=1),
        hovertemplate=(
            "seed %{customdata[0]}: allowed %{x:,}, horizon %{customdata[1]:,}<extra></extra>"
        ),
    )
    _powers(figure, "x")
    _powers(figure, "y")
    spoken = ", ".join(f"{int(a):,}" for a in built.at(quantity="horizon"))
    return Figure(
        "bound",
        "Built models last as long as their margins allow; trained ones do not",
        figure,
        "Each point is a model of two heads without an MLP. To the right: the longest horizon that "
        "its score margins and leverage allow, by the bound. No model can be above the line. "
        "Horizons of 0 are drawn at the bottom.",
        f"Built models have horizons {spoken}, each equal to what is allowed. Trained models: "
        f"median {int(np.median(horizons)):,}, best {int(horizons.max()):,}, all below the bound.",
    )


def _fading(result: ConstructResult) -> Figure:
    figure = new_figure("n", "logit of abc{n}", height=460, legend=True)
    n = [int(label) for label in result.fading.labels["n"]]
    words = []
    for line, model in enumerate(result.fading.labels["model"]):
        logits = result.fading.at(model=model)
        figure.add_scatter(
            x=n,
            y=np.where(logits > 0, logits, np.nan),
            mode="lines+markers",
            name=model.removeprefix("contains a and b, "),
            line={"color": MUTED[line], "dash": DASHES[line]},
            hovertemplate="n = %{x:,}: %{y:.3g}<extra></extra>",
        )
        words.append(f"{model}: {logits[0]:.2g} at n = {n[0]}, {logits[-1]:.2g} at n = {n[-1]:,}")
    _powers(figure, "x")
    figure.update_yaxes(type="log", exponentformat="power", dtick=2)
    return Figure(
        "fading",
        "Three ways to be right on one a and one b among many c",
        figure,
        "All three models contain no trained weight. With log n the logit stays; written for a "
        "length it is positive up to that length and then negative (the line ends); the vanishing "
        "one is positive at every length, and soon too small for float32.",
        f"{'; '.join(words)}.",
    )


def _parity(result: ConstructResult) -> Figure:
    figure = new_figure("heads", "horizon", height=380, legend=True)
    heads = [int(label) for label in result.parity.labels["heads"]]
    looks = {"ceiling": "dash", "built": "solid", "best trained": "dot"}
    for place, (name, dash) in enumerate(looks.items()):
        figure.add_scatter(
            x=heads,
            y=result.parity.at(quantity=name),
            mode="lines" if name == "ceiling" else "lines+markers",
            name=name,
            line={"color": (INK, MUTED[0], MUTED[2])[place], "dash": dash},
            hovertemplate=f"{name}, %{{x}} heads: %{{y}}<extra></extra>",
        )
    figure.update_layout(margin_t=36)
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(dtick=1, rangemode="tozero")
    return Figure(
        "parity",
        "Parity: every further letter costs a head",
        figure,
        "The horizon on strings of two letters, without an MLP, CLS attended to. The ceiling is "
        "proved, and building reaches it; training does not.",
        "; ".join(
            f"{head} heads: ceiling {int(row[0])}, built {int(row[1])}, trained {int(row[2])}"
            for head, row in zip(heads, result.parity.array, strict=True)
        )
        + ".",
    )


def _powers(figure: go.Figure, axis: str) -> None:
    update = figure.update_xaxes if axis == "x" else figure.update_yaxes
    update(type="log", dtick=1, exponentformat="power")
    figure.update_layout(margin_t=36)
