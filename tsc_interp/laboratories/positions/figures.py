"""Figures of the positions laboratory: errors beyond the trained length, and how order is read."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from tsc_interp.laboratories.positions.result import (
    BEFORE,
    CONTAINS,
    KINDS,
    TASKS,
    PositionsResult,
)
from tsc_interp.plots.colours import INK, MUTED, SHARE, faint, token_style
from tsc_interp.plots.heat import heat
from tsc_interp.plots.series import add_series, each, name_rows
from tsc_interp.plots.style import Figure, new_figure

_SYMBOLS = dict(zip(KINDS, ("circle", "square", "diamond"), strict=True))
_COLOURS = dict(zip(KINDS, (MUTED[0], MUTED[2], MUTED[5]), strict=True))
"""One look for each kind of positions, in every figure."""


def figures(result: PositionsResult) -> list[Figure]:
    return [
        _errors(result, CONTAINS),
        _errors(result, BEFORE),
        _places(result),
        _through(result),
        _trace(result),
        _moved(result),
    ]


def _end_of_training(figure: go.Figure, at: float) -> None:
    """Beyond this line nothing was trained on."""
    figure.add_vline(x=at, line={"color": INK, "dash": "dash", "width": 1.5})


def _errors(result: PositionsResult, task: str) -> Figure:
    lengths = [int(n) for n in result.wrong.labels["length"]]
    last = result.options.train_length
    figure = new_figure("letters", "share of strings wrong", height=430, legend=True)
    spoken = []
    for place, kind in enumerate(KINDS):
        if not result.has(task, kind):
            continue
        shares = result.wrong.at(task=task, kind=kind)
        for row in shares:
            add_series(figure, lengths, row, kind, mode="lines", colour=faint(_COLOURS[kind], 0.45),
                       width=1, showlegend=False, hoverinfo="skip")  # fmt: skip
        mean = shares.mean(axis=0)
        add_series(figure, lengths, mean, f"{kind} positions", "%{x} letters: %{y:.2%}",
                   place=place, colour=_COLOURS[kind], width=2.5)  # fmt: skip
        spoken.append(
            f"{kind} positions: {mean[last - 1]:.2%} at {last} letters, {mean[last]:.2%} at "
            f"{last + 1}, {mean[-1]:.2%} at {lengths[-1]}"
        )
    if task == BEFORE:
        blind = result.blind.array
        add_series(figure, lengths, blind, "blind to order, at best", "%{x} letters: %{y:.2%}",
                   mode="lines", colour=INK, dash="dot")  # fmt: skip
        spoken.append(f"blind to order at best: {blind[last - 1]:.1%} at {last} letters")
    _end_of_training(figure, last + 0.5)
    figure.update_xaxes(tickvals=lengths)
    top = max(float(np.nanmax(result.wrong.at(task=task))), 0.01)
    top = max(top, float(result.blind.array.max())) if task == BEFORE else top
    figure.update_yaxes(tickformat=".2~%", range=[-0.02 * top, 1.05 * top])
    return Figure(
        "cost" if task == CONTAINS else "order",
        f"“{task.capitalize()}”: strings wrong at each length",
        figure,
        f"Every string of each length, in its order. Trained left of the dashed line ({last} "
        "letters). Thin: each model of a kind; thick: their mean.",
        f"Share of strings wrong. {'; '.join(spoken)}.",
    )


def _places(result: PositionsResult) -> Figure:
    """Of the head that gives most to the earlier letter."""
    h, last = result.order_head(), result.options.train_length
    positions = [int(p) for p in result.places.labels["position"]]
    figure = new_figure("place of the letter", "CLS's score for it", height=420, legend=True)
    spoken = []
    for letter, scores in zip(result.places.labels["letter"], result.places.array[h], strict=True):
        look = token_style(letter)
        add_series(figure, positions, scores, letter, "place %{x}: %{y:.3f}", colour=look.colour,
                   symbol=look.symbol, size=9)  # fmt: skip
        spoken.append(
            f"{letter}: {scores[0]:.2f} at place 1, {scores[last - 1]:.2f} at {last}, "
            f"{scores[-1]:.2f} at {positions[-1]}"
        )
    _end_of_training(figure, last + 0.5)
    figure.update_xaxes(tickvals=positions)
    return Figure(
        "places",
        f"How head {h} scores a letter by where it stands",
        figure,
        f"{result.traced.capitalize()}, trained on “{BEFORE}”. A difference of 2.3 is ten times "
        "the weight. Right of the dashed line no place was ever trained.",
        f"Scores of head {h}. {'; '.join(spoken)}.",
    )


def _through(result: PositionsResult) -> Figure:
    names, spoken = [], []
    figure = new_figure("right through (letters)", height=300)
    rows = [(task, kind) for task in TASKS for kind in KINDS if result.has(task, kind)]
    for row, (task, kind) in enumerate(rows):
        through = result.through.at(task=task, kind=kind)
        values, counts = np.unique(through, return_counts=True)
        add_series(figure, values, [row] * len(values), f"{task}, {kind}", "%{x} letters, %{text}",
                   mode="markers+text", colour=_COLOURS[kind], symbol=_SYMBOLS[kind],
                   size=8 + 3 * counts, text=[f"{n}×" for n in counts],
                   textposition="top center", showlegend=False)  # fmt: skip
        names.append(f"{'contains' if task == CONTAINS else 'before'}, {kind}")
        spoken.append(f"{names[-1]}: {', '.join(f'{int(v)}' for v in sorted(through))}")
    _end_of_training(figure, result.options.train_length + 0.5)
    name_rows(figure, names, range=[len(rows) - 0.5, -0.9], autorange=None, showgrid=False)
    figure.update_xaxes(range=[-0.5, result.options.max_length + 0.7])
    return Figure(
        "right-through",
        "How far every string is right",
        figure,
        f"One mark for each length, with the number of models. Decided to "
        f"{result.options.max_length} letters, so the right-most marks may go on.",
        f"Right through, by model. {'; '.join(spoken)}.",
    )


def _trace(result: PositionsResult) -> Figure:
    h = result.order_head()
    strings, letters = result.weights.labels["string"], result.weights.labels["letter"]
    values = result.weights.array[:, h]
    named = [f"{s} ({x:+.1f})" for s, x in zip(strings, result.logits.array, strict=True)]
    figure = heat(values, named, letters, show=".1%", hover=".2%", colours=SHARE)
    spoken = "; ".join(
        f"{name}: " + each("{} {:.1%}", letters, row, between=", ")
        for name, row in zip(named, values, strict=True)
    )
    return Figure(
        "trace",
        f"What head {h} reads in strings that differ in order",
        figure,
        f"From the trace of {result.traced}: CLS's attention by letter; logits in brackets, above "
        "0 for “an a before any b”.",
        f"Attention of head {h}. {spoken}.",
    )


def _moved(result: PositionsResult) -> Figure:
    positions = [int(p) for p in result.moved.labels["position"]]
    last = result.options.train_length
    figure = new_figure("position (0 is CLS)", "distance moved by training", height=380)
    figure.add_bar(
        x=positions, y=result.moved.array,
        marker={"color": [MUTED[2] if p <= last else INK for p in positions]},
        hovertemplate="position %{x}: %{y:.4f}<extra></extra>",
    )  # fmt: skip
    _end_of_training(figure, last + 0.5)
    figure.update_xaxes(tickvals=positions)
    spoken = each("{}: {:.3f}", positions, result.moved.array, between=", ")
    return Figure(
        "moved",
        "Learned positions move as far as strings reach",
        figure,
        "The mean over models of both tasks. Beyond the dashed line only weight decay acts, so a "
        "position there stays the random vector it began as.",
        f"Distance from the start, by position. {spoken}.",
    )
