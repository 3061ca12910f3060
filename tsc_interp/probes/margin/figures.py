"""Figures of margin: scores on a line, the logit and the weights as one letter's count grows."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from tsc_interp.plots.colours import INK, WRONG, token_style
from tsc_interp.plots.number_line import number_line
from tsc_interp.plots.series import add_series
from tsc_interp.plots.style import Figure, decision_line, new_figure
from tsc_interp.probes.margin.result import Family, MarginResult
from tsc_interp.probes.wording import of_layer
from tsc_interp.results.base import LabeledArray

MOST_LINES = 6
SPOKEN = (1, 100, 10_000)
"""The n at which the alternative text gives numbers; points of the probe's grid."""
_POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def figures(result: MarginResult) -> list[Figure]:
    if result.many_heads:
        return [_chosen(result)]
    layers = result.scores.labels["layer"]
    drawn = [_scores(result, i, layer) for i, layer in enumerate(layers)]
    if result.logits is not None and result.weights is not None:
        drawn.insert(0, _logits(result, result.logits))
        drawn += [
            _weights(result, result.weights, i, layer)
            for i, layer in enumerate(layers)
            if _falling(result, result.weights, i)
        ]
    return drawn


def _chosen(result: MarginResult) -> Figure:
    """The clearest heads of a large model, each with the tokens it scores highest."""
    labels, best = result.scores.labels, []
    for i, h, name in result.shown_by_name(MOST_LINES):
        scores = result.scores.array[i, h] - result.scores.array[i, h].max()
        order = np.argsort(-scores, kind="stable")[:MOST_LINES]
        points = [(labels["letter"][t], float(scores[t])) for t in order]
        best.append((name, points))
    spoken = "; ".join(
        f"{name}: " + ", ".join(f"{token} {score:.2f}" for token, score in points[:3])
        for name, points in best
    )
    return Figure(
        "scores",
        "How the clearest heads score tokens",
        number_line(best, x="score, relative to the highest"),
        f"The {len(best)} heads that read one token most clearly. About e to the power of the "
        "distance of another token per token read take half of the weight.",
        f"Scores by head. {spoken}.",
    )


def _scores(result: MarginResult, i: int, layer: str) -> Figure:
    heads, letters = result.scores.labels["head"], result.scores.labels["letter"]
    rows = [
        (f"head {head}", list(zip(letters, result.scores.array[i, h].tolist(), strict=True)))
        for h, head in enumerate(heads)
    ]
    spoken = "; ".join(
        f"{name}: " + ", ".join(f"{letter} {score:.4f}" for letter, score in points)
        for name, points in rows
    )
    return Figure(
        f"scores-{layer}" if i else "scores",
        of_layer(f"How each head scores the {result.unit}s", layer, result.scores.labels["layer"]),
        number_line(rows, x="score"),
        f"The {result.unit} farthest to the right is the one a head reads; its distance d to "
        f"another is the margin. About e to the power d of the other per {result.unit} read take "
        "half of the weight: 20 for d = 3, 150 for d = 5, 22,000 for d = 10.",
        f"Scores by head. {spoken}.",
    )


def _logits(result: MarginResult, logits: LabeledArray) -> Figure:
    figure = new_figure("n", "logit", height=480, legend=True)
    n = [int(label) for label in logits.labels["n"]]
    by_error = sorted(result.families, key=lambda family: family.first_error or 10**12)
    kept = {family.name for family in by_error[:MOST_LINES]}
    shown = [family for family in result.families if family.name in kept]
    for line, family in enumerate(shown):
        hover = f"{family.name}, n = %{{x:,}}: %{{y:.4f}}<extra></extra>"
        add_series(figure, n, logits.at(family=family.name), family.name, hover, mode="lines",
                   place=line, colour=token_style(family.letter).colour)  # fmt: skip
    flips = [family for family in shown if family.first_error is not None]
    first = [family.first_error or 0 for family in flips]
    words = [
        f"{family.name} is first wrong at n = {family.first_error:,}"
        + ("" if family.predicted is None else f" (predicted {family.predicted:,})")
        for family in flips
    ]
    add_series(figure, first, [0.0] * len(flips), "first wrong n", "%{customdata}<extra></extra>",
               mode="markers", colour=WRONG, symbol="x", size=11,
               marker={"line": {"width": 1, "color": INK}},
               customdata=words)  # fmt: skip
    _count_axis(figure)
    figure.update_yaxes(zeroline=False)
    decision_line(figure, y=0)
    spoken = "; ".join(
        f"{family.name} first wrong at n = {family.first_error:,}" if family.first_error else
        f"{family.name} right up to n = {family.cap:,}" for family in shown
    )  # fmt: skip
    return Figure(
        "flips",
        "When do long strings flip?",
        figure,
        "The logit as one letter's count n grows, in that letter's colour, on a log scale; "
        "below the dashed line the answer is no. Crosses mark the first n with a wrong answer.",
        f"{spoken}.",
    )


def _weights(result: MarginResult, weights: LabeledArray, i: int, layer: str) -> Figure:
    """The families in which a head's own letter is outweighed, its weight falling."""
    figure = new_figure("n", "weight of the letter read", height=480, legend=True)
    n = [int(label) for label in weights.labels["n"]]
    lines = _falling(result, weights, i)
    for line, (family, h) in enumerate(lines):
        letter = result.reads[i][h]
        name = f"head {weights.labels['head'][h]}: {letter} in {family.name}"
        hover = f"{letter} in {family.name}, n = %{{x:,}}: %{{y:.4f}}<extra></extra>"
        shares = weights.array[i, weights.labels["family"].index(family.name), h]
        add_series(figure, n, shares, name, hover, mode="lines", place=line,
                   colour=token_style(letter).colour)  # fmt: skip
    _count_axis(figure)
    figure.update_yaxes(range=[-0.02, 1.04], tickformat=".0%")
    figure.add_hline(y=0.5, line={"color": INK, "width": 1, "dash": "dot"})
    spoken = "; ".join(
        f"head {h} on {result.reads[i][h]} in {family.name}: "
        + ", ".join(f"{weights.array[i, f, h, n.index(k)]:.2%} at n = {k:,}" for k in SPOKEN)
        for family, h in lines
        for f in [weights.labels["family"].index(family.name)]
    )
    layers = result.scores.labels["layer"]
    half = " It crosses half (dotted) where n is e to the margin."
    return Figure(
        f"weights-{layer}" if i else "weights",
        of_layer("How fast the letter a head reads is outweighed", layer, layers),
        figure,
        "The attention a head keeps on the letter it reads while another letter's count n grows."
        + half * (len(layers) == 1),
        f"{spoken}.",
    )


def _falling(result: MarginResult, weights: LabeledArray, i: int) -> list[tuple[Family, int]]:
    """(family, head) pairs in which the head reads a letter that is there and does not grow."""
    letters = sorted({letter for row in result.reads for letter in row})
    pairs = []
    for letter in letters:
        readers = [h for h, read in enumerate(result.reads[i]) if read == letter]
        if not readers:
            continue
        # Of several heads that read a letter, the one that holds on to it longest.
        h = max(readers, key=lambda h: float(weights.array[i, :, h].sum()))
        for family in result.families[: len(result.scores.labels["letter"])]:
            grows_another = family.letter != letter and letter in family.name
            if grows_another and family.letter in result.scores.labels["letter"]:
                pairs.append((family, h))
    return pairs[:MOST_LINES]


def _count_axis(figure: go.Figure) -> None:
    """Powers of ten up to a million."""
    figure.update_xaxes(
        type="log",
        tickvals=[10**power for power in range(7)],
        ticktext=["1", "10", "100", *(f"10{_POWERS[power]}" for power in range(3, 7))],
    )
    figure.update_layout(margin_t=30)
