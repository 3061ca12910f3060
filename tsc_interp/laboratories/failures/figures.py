"""Figures of failures: what predicts them, what separates them, horizons by training data."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.failures.result import RULES, TESTS, FailuresResult
from tsc_interp.plots.colours import MUTED, WRONG
from tsc_interp.plots.series import add_series, add_strip, broken, each, log_axis, name_rows
from tsc_interp.plots.style import Figure, new_figure


def figures(result: FailuresResult) -> list[Figure]:
    return [_foreseen(result), _training(result), _separated(result), _logits(result)]


def _foreseen(result: FailuresResult) -> Figure:
    figure = new_figure("recall", "precision", height=460, legend=True)
    words = []
    for place, rule in enumerate(RULES):
        scores = result.scores.at(rule=rule, weight="vectors")
        add_series(figure, scores[1:, 1], scores[1:, 0], rule,
                   "%{customdata}: precision %{y:.1%}, recall %{x:.1%}", place=place, dash="dot",
                   width=1, size=[13, 8], customdata=TESTS[1:])  # fmt: skip
        words.append(
            f"{rule}: {scores[1, 0]:.0%} and {scores[1, 1]:.0%} on the same seed, "
            f"{scores[2, 0]:.0%} and {scores[2, 1]:.0%} on others"
        )
    figure.update_xaxes(range=[-0.03, 1.04], tickformat=".0%")
    figure.update_yaxes(range=[-0.03, 1.04], tickformat=".0%")
    return Figure(
        "foreseen",
        "What predicts a failure",
        figure,
        "Precision and recall over every vector of counts. Large marks: longer strings of the seed "
        "that was learned from; small: other seeds, on average. The two rules read each model's "
        "own weights; the others know the string only.",
        f"Precision and recall. {'; '.join(words)}.",
    )


def _training(result: FailuresResult) -> Figure:
    figure = new_figure("horizon", "", height=420)
    cells = result.horizons.labels["cell"]
    words = []
    for row, cell in enumerate(cells):
        horizons = result.horizons.at(cell=cell)
        middle = float(np.median(horizons))
        marks = {"color": np.where(horizons > 0, MUTED[0], WRONG).tolist(),
                 "symbol": np.where(horizons > 0, "circle", "x").tolist()}  # fmt: skip
        add_strip(figure, row, np.maximum(horizons, 0.7), max(middle, 0.7), cell, "%{customdata:,}",
                  marker=marks, customdata=horizons)  # fmt: skip
        words.append(f"{cell}: median {middle:,.0f}, best {horizons.max():,.0f}")
    log_axis(figure, "x")
    name_rows(figure, broken(cells))
    return Figure(
        "training",
        "How far models go, by what they were trained on",
        figure,
        "One mark per seed, its exact horizon; the bar is the median. Crosses at the left: a "
        "string of one letter is wrong. length=L: balanced strings of up to L letters (the "
        "report's is 10); alpha: how even their counts are (the report's is 1); all strings: of "
        "nine letters.",
        f"{'; '.join(words)}.",
    )


def _separated(result: FailuresResult) -> Figure:
    table = result.percentiles
    seeds = list(table.labels["seed"])
    figure = new_figure("weight of the worst-read letter", "seed", legend=True)
    looks = (("right, 2nd percentile", "share, right 2 %", MUTED[0], "circle"),
             ("wrong, 98th percentile", "share, wrong 98 %", WRONG, "x"))  # fmt: skip
    for name, quantity, colour, symbol in looks:
        add_series(figure, table.at(quantity=quantity), seeds, name, "seed %{y}: %{x:.3f}",
                   mode="markers", colour=colour, symbol=symbol, size=10)  # fmt: skip
    figure.update_yaxes(type="category")
    low, high = (table.at(quantity=quantity) for quantity in (looks[1][1], looks[0][1]))
    return Figure(
        "separated",
        "One number that separates right from wrong",
        figure,
        "Of positive strings, the weight that the letter keeps in its best head. Where the circle "
        "is to the right of the cross, one threshold tells nearly all right strings from nearly "
        "all wrong ones.",
        f"Separated in {int((high > low).sum())} of {len(low)} seeds with wrong positive strings.",
    )


def _logits(result: FailuresResult) -> Figure:
    table, seeds = result.logits, list(result.logits.labels["seed"])
    figure = new_figure("size of the logit", "seed", legend=True)
    looks = (("wrong, median", "wrong, median size", WRONG, "x"),
             ("wrong, largest", "wrong, largest", WRONG, "line-ns-open"),
             ("right, median", "right, median size", MUTED[0], "circle"))  # fmt: skip
    for name, quantity, colour, symbol in looks:
        add_series(figure, table.at(quantity=quantity), seeds, name, "seed %{y}: %{x:.3f}",
                   mode="markers", colour=colour, symbol=symbol, size=10,
                   marker={"line": {"width": 2}})  # fmt: skip
    figure.update_yaxes(type="category")
    figure.update_xaxes(rangemode="tozero")
    wrong, _, right, _ = table.array.T
    spoken = each("seed {} {:.2f} and {:.2f}", seeds, wrong, right, between=", ")
    return Figure(
        "logits",
        "Wrong answers are said with less conviction",
        figure,
        "The size of logits over every vector of counts, wrong and right, for each seed with "
        "errors.",
        f"Median size of wrong and right logits: {spoken}.",
    )
