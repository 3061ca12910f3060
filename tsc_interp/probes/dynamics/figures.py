"""Figures of a training run: curves over epochs, and the vector figures as animations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tsc_interp.plots.animation import animate, common_view
from tsc_interp.plots.colours import (
    DASHES,
    INK,
    MUTED,
    NEGATIVE,
    POSITIVE,
    string_style,
    token_style,
)
from tsc_interp.plots.series import add_series, each
from tsc_interp.plots.style import Figure, decision_line, new_figure
from tsc_interp.plots.vectors import choice
from tsc_interp.probes.dynamics.result import DynamicsResult
from tsc_interp.results.base import LabeledArray

Curves = Sequence[tuple[str, NDArray[np.float64], str]]
"""Name, values and colour of each."""


def figures(result: DynamicsResult) -> list[Figure]:
    drawn = []
    if result.losses is not None:
        drawn.append(_losses(result, result.losses))
    if result.errors is not None:
        drawn.append(_errors(result, result.errors))
    if result.horizons is not None:
        drawn.append(_horizons(result, result.horizons))
    if result.scores is not None:
        drawn.append(_by_head(result, result.scores, "scores", "Scores of the letters"))
    if result.values is not None and len(result.values.labels["component"]) == 1:
        labels = {dim: result.values.labels[dim] for dim in ("epoch", "head", "letter")}
        flat = LabeledArray.of(result.values.array[..., 0], **labels)
        drawn.append(_by_head(result, flat, "values", "Values of the letters"))
    return [*drawn, _logits(result), _magnitudes(result), _embeddings(result), _transformed(result)]


def _curves(result: DynamicsResult, y: str, curves: Curves, *, log: bool = False) -> go.Figure:
    """Curves over epochs, the chosen epoch marked; names in the legend."""
    figure = new_figure("epoch", y, height=400, legend=True)
    for index, (name, values, colour) in enumerate(curves):
        dash = DASHES[(index + index // len(MUTED)) % len(DASHES)]
        add_series(figure, result.epochs, values, name, "epoch %{x}: %{y:.4g}", colour=colour,
                   dash=dash, symbol="circle", size=5)  # fmt: skip
    if result.chosen_epoch is not None:
        figure.add_vline(x=result.chosen_epoch, line={"color": INK, "dash": "dot", "width": 1.5})
    if log:
        figure.update_yaxes(type="log", exponentformat="power", dtick=1)
    return figure


def _marked(result: DynamicsResult) -> str:
    return "" if result.chosen_epoch is None else " The dotted line marks the chosen epoch."


def _told(result: DynamicsResult, values: NDArray[np.float64]) -> str:
    first, last = result.epochs[0], result.epochs[-1]
    return f"{values[0]:.4g} at epoch {first}, {values[-1]:.4g} at epoch {last}"


def _spoken(result: DynamicsResult, curves: Curves) -> str:
    return "; ".join(f"{name} {_told(result, values)}" for name, values, _ in curves)


def _losses(result: DynamicsResult, losses: LabeledArray) -> Figure:
    names = losses.labels["set"]
    curves = [(name, losses.at(set=name), MUTED[i]) for i, name in enumerate(names)]
    finite = {name: values[np.isfinite(values)] for name, values, _ in curves}
    spoken = "; ".join(
        f"{name} {values[0]:.4g} at first, {values[-1]:.4g} at last, least {values.min():.4g}"
        for name, values in finite.items()
        if len(values)
    )
    return Figure(
        "losses",
        "Losses",
        _curves(result, "loss, summed over strings", curves, log=True),
        "The axis is logarithmic." + _marked(result),
        f"Losses over {len(result.epochs)} epochs: {spoken}.",
    )


def _errors(result: DynamicsResult, errors: LabeledArray) -> Figure:
    kinds = errors.labels["kind"]
    answers = (POSITIVE, NEGATIVE)  # a false positive is a wrong yes
    curves = [(k, errors.at(kind=k), c) for k, c in zip(kinds, answers, strict=True)]
    return Figure(
        "test-errors",
        "Errors on the test set",
        _curves(result, "strings answered wrongly", curves),
        "Of the 9,984 test strings, how many each epoch gets wrong." + _marked(result),
        f"Test errors: {_spoken(result, curves)}.",
    )


def _horizons(result: DynamicsResult, horizons: LabeledArray) -> Figure:
    lengths = horizons.array
    figure = _curves(result, "length", [("right on every string up to", lengths + 0.0, MUTED[0])])
    figure.update_layout(showlegend=False)
    if lengths.max() > 20:
        figure.data[0].y = np.maximum(lengths, 0.5)
        figure.data[0].customdata = lengths
        figure.data[0].hovertemplate = "epoch %{x}: length %{customdata:,}<extra></extra>"
        top = int(np.ceil(np.log10(lengths.max())))
        steps = (1, 2, 5) if top < 4 else (1,)
        ticks = [digit * 10.0**power for power in range(top + 1) for digit in steps]
        figure.update_yaxes(
            type="log", tickvals=[0.5, *ticks], ticktext=["0", *(f"{t:,.0f}" for t in ticks)]
        )
    best = int(lengths.argmax())
    return Figure(
        "horizons",
        "Right on every string up to this length",
        figure,
        "Exact, not sampled: below the curve there is no string the model gets wrong."
        + _marked(result),
        f"Horizon: {_told(result, lengths)}, longest {lengths[best]:.0f} at epoch "
        f"{result.epochs[best]}.",
    )


def _by_head(result: DynamicsResult, array: LabeledArray, quantity: str, title: str) -> Figure:
    letters, heads = array.labels["letter"], array.labels["head"]
    panels = []
    for index, head in enumerate(heads[:16]):
        curves = [
            (letter, array.array[:, index, place], token_style(letter).colour)
            for place, letter in enumerate(letters)
        ]
        panels.append((f"head {head}", _curves(result, quantity.rstrip("s"), curves)))
    spoken = "; ".join(
        f"head {head}: "
        + each("{} {:.4f} to {:.4f}", letters, array.array[0, i], array.array[-1, i], between=", ")
        for i, head in enumerate(heads[:4])
    )
    meaning = {
        "scores": "The letter with the highest score is the one the head reads; its lead decides "
        "how many others it takes to drown it.",
        "values": "What the head contributes for each letter.",
    }[quantity]
    return Figure(
        f"head-{quantity}",
        f"{title}, head by head",
        choice(panels),
        meaning + _marked(result),
        f"First to last epoch. {spoken}.",
    )


def _logits(result: DynamicsResult) -> Figure:
    curves = [
        (string, result.logits.array[:, index], string_style(result.labels[index], True).colour)
        for index, string in enumerate(result.logits.labels["string"])
    ]
    figure = _curves(result, "logit", curves)
    decision_line(figure, y=0)
    figure.update_layout(height=400 + 22 * len(curves), margin_t=16)
    return Figure(
        "logits",
        "Logits of the strings",
        figure,
        "Above the dashed line the model says yes; vermillion strings should be there, blue ones "
        "below." + _marked(result),
        f"Logits: {_spoken(result, curves)}.",
    )


def _magnitudes(result: DynamicsResult) -> Figure:
    names = result.magnitudes.labels["weight"]
    curves = [
        (name.removeprefix("blocks."), result.magnitudes.array[:, index], MUTED[index % len(MUTED)])
        for index, name in enumerate(names[:12])
    ]
    figure = _curves(result, "root mean square", curves)
    figure.update_layout(height=400 + 22 * len(curves))
    return Figure(
        "weight-sizes",
        "How large the weights become",
        figure,
        "The typical size of the entries of each weight matrix." + _marked(result),
        f"Root mean squares: {_spoken(result, curves)}.",
    )


def _embeddings(result: DynamicsResult) -> Figure:
    tokens = result.embeddings.labels["token"]
    seen = common_view(result.embeddings.array)
    figure = animate(seen, result.epochs, tokens, [token_style(t) for t in tokens])
    lengths = np.linalg.norm(result.embeddings.array, axis=-1)
    spoken = each("{} {:.4f} to {:.4f}", tokens, lengths[0], lengths[-1], between=", ")
    return Figure(
        "embeddings",
        "Embeddings, epoch by epoch",
        figure,
        f"Press play, or move the slider. {seen.remark}".strip(),
        f"Lengths of the embeddings, first to last epoch: {spoken}.",
    )


def _transformed(result: DynamicsResult) -> Figure:
    strings = result.transformed.labels["string"]
    logits = result.logits.array
    styles = [
        string_style(label, bool((logit > 0) == bool(label)))
        for label, logit in zip(result.labels, logits[-1], strict=True)
    ]
    seen = common_view(result.transformed.array)
    direction = result.readout.array if seen.exact else None
    figure = animate(seen, result.epochs, strings, styles, normals=direction)
    how = " The dashed line is where the logit is zero." if direction is not None else ""
    spoken = each("{} {:.4f} to {:.4f}", strings, logits[0], logits[-1], between=", ")
    return Figure(
        "transformed",
        "Transformed CLS, epoch by epoch",
        figure,
        f"Press play, or move the slider: each string on its way.{how} {seen.remark}".strip(),
        f"Logits, first to last epoch: {spoken}.",
    )
