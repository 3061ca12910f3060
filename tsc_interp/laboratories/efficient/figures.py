"""Figures of the efficient laboratory: flips by budget first, then horizons, rank and time."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.efficient.result import WAYS, EfficientResult
from tsc_interp.plots.colours import INK, MUTED
from tsc_interp.plots.series import add_series, each, ends, log_axis
from tsc_interp.plots.style import Figure, new_figure


def figures(result: EfficientResult) -> list[Figure]:
    longest = result.options.lengths[-1]
    drawn = [_by_budget(result, 1, longest), _horizons(result), _by_budget(result, 0, longest)]
    drawn += [_by_length(result), _ranks(result)]
    return [*drawn, *([] if result.clock is None else [_clock(result)])]


def _by_budget(result: EfficientResult, statistic: int, length: int) -> Figure:
    """Of answers that flip, or of the logit's error."""
    quantity = ("logit error", "flips")[statistic]
    title = ("mean error of the logit", "answers that flip")[statistic]
    figure = new_figure("budget", title, height=460, legend=True)
    spoken = []
    for place, way in enumerate(WAYS):
        every = result.errors.at(way=way, length=length, statistic=quantity)
        tried = np.isfinite(every)
        if not tried.any():
            continue
        budgets, values = np.array(result.options.budgets)[tried].tolist(), every[tried]
        # A logarithmic axis has no place for rounding errors.
        shown = values if statistic else np.maximum(values, 1e-3)
        add_series(figure, budgets, shown, way, "budget %{x}: %{customdata:.3g}", place=place,
                   customdata=values)  # fmt: skip
        spoken.append(ends(way, budgets, values))
    log_axis(figure, "x", result.options.budgets)
    if statistic:
        figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    else:
        named = {1e-3: "0 to 0.001", 1e-2: "0.01", 0.1: "0.1", 1: "1", 10: "10", 100: "100"}
        figure.update_yaxes(type="log", tickvals=list(named), ticktext=list(named.values()))
    return Figure(
        ("logit-error", "flips")[statistic],
        f"{title.capitalize()}, by budget ({length} letters)",
        figure,
        "A budget is the keys that CLS reads, the rows of a projection, a rank, or the number of "
        f"random features. {result.options.strings} random strings; a CLS that reads everything "
        "and a rank as large as the alphabet are exact.",
        f"{title.capitalize()} at {length} letters. {'; '.join(spoken)}.",
    )


def _by_length(result: EfficientResult) -> Figure:
    budgets = result.options.budgets
    budget = budgets[len(budgets) // 2]
    lengths = list(result.options.lengths)
    figure = new_figure("letters", "answers that flip", height=440, legend=True)
    spoken = []
    for place, way in enumerate(WAYS):
        values = result.errors.at(way=way, budget=budget, statistic="flips")
        if not np.isfinite(values).any():
            continue
        add_series(figure, lengths, values, way, "%{x} letters: %{y:.1%}", place=place)
        shares = [f"{v:.1%} at {n}" for n, v in zip(lengths, values, strict=True) if np.isfinite(v)]
        spoken.append(f"{way}: {', '.join(shares)}")
    log_axis(figure, "x", lengths)
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return Figure(
        "flips-by-length",
        f"Answers that flip, by length (budget {budget})",
        figure,
        "The same budget has to serve more letters. What is exact stays exact at every length.",
        f"Answers that flip at budget {budget}. {'; '.join(spoken)}.",
    )


def _horizons(result: EfficientResult) -> Figure:
    features = [int(m) for m in result.horizons.labels["features"]]
    figure = new_figure("budget", "exact horizon (letters)", height=440, legend=True)
    budgets, windows = list(result.options.budgets), result.windows.array
    for draw, row in enumerate(result.horizons.array):
        add_series(figure, features, np.maximum(row, 0.5), "random features",
                   "%{x} features: %{customdata}", place=5, mode="markers", customdata=row,
                   showlegend=draw == 0)  # fmt: skip
    add_series(figure, budgets, windows, "window and random", "%{x} keys: %{y}", place=3)
    every = sorted({*budgets, *features})
    if np.isfinite(result.own_horizon):
        add_series(figure, [every[0], every[-1]], [max(result.own_horizon, 0.5)] * 2,
                   "full attention, or CLS reading all", "%{y} letters", mode="lines", colour=INK,
                   dash="dash")  # fmt: skip
    log_axis(figure, "x", every[::2])
    log_axis(figure, "y", (1, 10, 100, 1000, 10_000))
    medians = np.median(result.horizons.array, axis=0)
    spoken = each("{:g} with {}", medians, features, between=", ")
    return Figure(
        "horizons",
        "Exact horizon, by budget",
        figure,
        "Every string up to the horizon is right and one of the next length is wrong. With random "
        "features the model has other keys and is decided over all lengths, once for each draw; a "
        "window with random keys is right as far as it reads, and no further.",
        f"Median horizon with random features: {spoken}; full attention {result.own_horizon:g}; "
        f"window and random {windows[0]:g} with {budgets[0]} to {windows[-1]:g} with "
        f"{budgets[-1]}.",
    )


def _ranks(result: EfficientResult) -> Figure:
    ranks = [int(rank) for rank in result.ranks.labels["rank"]]
    flips = result.ranks.at(statistic="flips")
    figure = new_figure("rank", "count vectors whose answer flips", height=380)
    figure.add_bar(
        x=ranks, y=flips, marker={"color": MUTED[0]}, width=0.5,
        text=[f"{flip:.2%}" for flip in flips], textposition="outside",
        hovertemplate="rank %{x}: %{y:.3%}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(tickvals=ranks)
    figure.update_yaxes(tickformat=".0%", range=[0, max(float(flips.max()) * 1.25, 0.01)])
    spoken = each("{:.3%} at rank {}", flips, ranks, between=", ")
    return Figure(
        "rank",
        f"Low rank, on every string up to {result.options.max_length} letters",
        figure,
        "The pattern of n positions is cut to so many singular values. At the number of letters "
        "nothing is cut, however long the string.",
        f"Count vectors whose answer flips: {spoken}.",
    )


def _clock(result: EfficientResult) -> Figure:
    assert result.clock is not None
    lengths = [int(n) for n in result.clock.labels["length"]]
    figure = new_figure("letters", "milliseconds", height=440, legend=True)
    spoken = []
    for place, (way, seconds) in enumerate(
        zip(result.clock.labels["way"], 1e3 * result.clock.array, strict=True)
    ):
        add_series(figure, lengths, seconds, way, "%{x} letters: %{y:.3f} ms", place=place)
        spoken.append(ends(way, lengths, seconds, ".3f"))
    log_axis(figure, "x", lengths)
    log_axis(figure, "y", (0.01, 0.1, 1, 10, 100, 1000))
    return Figure(
        "time",
        "Time of attention over all positions, by length",
        figure,
        "The least of five runs on the machine that made this page, one thread; the only numbers "
        "here that differ from run to run. Both axes are logarithmic.",
        f"Milliseconds. {'; '.join(spoken)}.",
    )
