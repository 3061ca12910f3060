"""Figures of construct: horizons against what margins allow, how logits fade, parity by heads."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.construct.result import ConstructResult
from tsc_interp.plots.colours import INK, MUTED
from tsc_interp.plots.series import add_series, each, log_axis
from tsc_interp.plots.style import Figure, new_figure


def figures(result: ConstructResult) -> list[Figure]:
    return [_bound(result), _fading(result), _parity(result)]


def _bound(result: ConstructResult) -> Figure:
    figure = new_figure("horizon the margins allow", "horizon", height=460, legend=True)
    built, trained = result.margins, result.trained
    most = float(max(built.at(quantity="allowed").max(), trained.at(quantity="allowed").max()))
    add_series(figure, [2, most], [2, most], "the bound", mode="lines", colour=INK, dash="dash",
               hoverinfo="skip")  # fmt: skip
    add_series(figure, built.at(quantity="allowed"), built.at(quantity="horizon"), "built",
               "built for %{customdata}: allowed %{x:,}, horizon %{y:,}", mode="markers",
               symbol="diamond", size=11, customdata=built.labels["length"])  # fmt: skip
    horizons = trained.at(quantity="horizon")
    add_series(figure, trained.at(quantity="allowed"), np.maximum(horizons, 0.7), "trained",
               "seed %{customdata[0]}: allowed %{x:,}, horizon %{customdata[1]:,}", mode="markers",
               colour=MUTED[2], size=9, marker={"opacity": 0.8},
               customdata=np.stack([np.arange(len(horizons)), horizons], axis=1))  # fmt: skip
    log_axis(figure, "x")
    log_axis(figure, "y")
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
        add_series(figure, n, np.where(logits > 0, logits, np.nan),
                   model.removeprefix("contains a and b, "), "n = %{x:,}: %{y:.3g}",
                   place=line)  # fmt: skip
        words.append(f"{model}: {logits[0]:.2g} at n = {n[0]}, {logits[-1]:.2g} at n = {n[-1]:,}")
    log_axis(figure, "x")
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
    looks = {"ceiling": (INK, "dash"), "built": (MUTED[0], "solid"),
             "best trained": (MUTED[2], "dot")}  # fmt: skip
    for name, (colour, dash) in looks.items():
        add_series(figure, heads, result.parity.at(quantity=name), name, "%{x} heads: %{y}",
                   mode="lines" if name == "ceiling" else "lines+markers", colour=colour,
                   dash=dash)  # fmt: skip
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(dtick=1, rangemode="tozero")
    form = "{} heads: ceiling {:.0f}, built {:.0f}, trained {:.0f}"
    spoken = each(form, heads, *result.parity.array.T)
    return Figure(
        "parity",
        "Parity: every further letter costs a head",
        figure,
        "The horizon on strings of two letters, without an MLP, CLS attended to. The ceiling is "
        "proved, and building reaches it; training does not.",
        f"{spoken}.",
    )
