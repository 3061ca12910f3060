"""Figures of the failure atlas: the first error of every set of letters, strings of two letters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.plots.colours import INK, NEGATIVE, POSITIVE, WRONG
from tsc_interp.plots.series import add_series, name_rows
from tsc_interp.plots.style import Figure, decision_line, new_figure
from tsc_interp.probes.atlas.result import AtlasResult, pair_counts
from tsc_interp.results.base import LabeledArray


def figures(result: AtlasResult) -> list[Figure]:
    drawn = [_sets(result)]
    if result.pairs is not None and result.pairs_wrong is not None:
        drawn.append(_pairs(result, result.pairs, result.pairs_wrong))
    return drawn


def _pairs(result: AtlasResult, logits: LabeledArray, wrong: LabeledArray) -> Figure:
    """The edges: strings of two letters. The wrong stretch of a curve is drawn thick and purple."""
    reach = result.pair_reach
    figure = new_figure("second letter per first", "logit", height=440, legend=True)
    steps = np.linspace(-reach, reach, logits.shape[1])
    counts = pair_counts(reach)
    spoken = []
    labels = {letter_set.letters: letter_set.label for letter_set in result.sets}
    colours = {0: NEGATIVE, 1: POSITIVE, None: INK}
    for line, pair in enumerate(logits.labels["pair"]):
        values, bad = logits.at(pair=pair), wrong.at(pair=pair) > 0
        words = [_hover(pair, c, v, b) for c, v, b in
                 zip(counts.tolist(), values, bad, strict=True)]  # fmt: skip
        if bad.any():
            first = not any(trace.name == "wrong" for trace in figure.data)
            add_series(figure, steps, np.where(bad, values, np.nan), "wrong", mode="lines",
                       colour=WRONG, width=9, opacity=0.6, hoverinfo="skip", legendgroup="wrong",
                       showlegend=first)  # fmt: skip
        answer = {0: ", should be no", 1: ", should be yes", None: ""}[labels[pair]]
        add_series(figure, steps, values, f"{pair[0]} and {pair[1]}{answer}",
                   "%{customdata}<extra></extra>", mode="lines", place=line,
                   colour=colours[labels[pair]], customdata=words)  # fmt: skip
        spoken.append(f"{pair[0]} and {pair[1]}: {bad.mean():.0%} wrong")
    decision_line(figure, y=0)
    powers = [p for p in range(-reach, reach + 1) if p % max(1, -(-reach // 3)) == 0]
    superscript = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
    names = ["1" if p == 0 else f"10{str(p).translate(superscript)}" for p in powers]
    figure.update_xaxes(tickvals=powers, ticktext=names)
    figure.update_yaxes(zeroline=False)
    figure.update_layout(margin_t=70)
    return Figure(
        "edges",
        "Strings of two letters",
        figure,
        "From almost only the first letter (left) to almost only the "
        "second (right), on a logarithmic scale. Above the dashed line the answer is yes; curves "
        "in vermillion should be there, blue ones below. "
        "Where a curve is thick and purple the answer is wrong.",
        f"Logits of two-letter strings up to 10^{reach} : 1. {'; '.join(spoken)}.",
    )


def _sets(result: AtlasResult) -> Figure:
    """How long the first error of every set of letters is."""
    sets = sorted(result.sets, key=lambda entry: (entry.length or np.inf, entry.letters))
    figure = new_figure("letters in the first error", height=110 + 26 * len(sets))
    far = max([letter_set.length or 0 for letter_set in sets] + [1000]) * 3
    failing = [(i, entry) for i, entry in enumerate(sets) if entry.length is not None]
    sides = ["middle right" if (entry.length or 0) ** 2 < far else "middle left"
             for _, entry in failing]  # fmt: skip
    words = [
        f"{entry.first_error}: a {entry.kind}, logit {entry.logit:.4g}" for _, entry in failing
    ]
    add_series(figure, [entry.length or 0 for _, entry in failing], [i for i, _ in failing], "",
               "%{customdata}<extra></extra>", mode="markers+text", colour=WRONG, symbol="x",
               size=11, text=[f" {entry.first_error} " for _, entry in failing], textposition=sides,
               cliponaxis=False, customdata=words, showlegend=False)  # fmt: skip
    quiet = [(i, entry) for i, entry in enumerate(sets) if entry.length is None]
    figure.add_scatter(
        x=[1] * len(quiet),
        y=[i for i, _ in quiet],
        mode="text",
        text=[
            "right at every length, proved" if entry.always_right
            else f"no error up to {entry.verified_length:,}, proved"
            for _, entry in quiet
        ],
        textposition="middle right",
        hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip
    figure.update_xaxes(type="log", dtick=1, range=[-0.1, float(np.log10(far)) + 1.2])
    names = [f"only {', '.join(letter_set.letters)}" for letter_set in sets]
    name_rows(figure, names, showgrid=False)  # no line through what is written in a row
    figure.update_xaxes(showgrid=bool(failing))
    return Figure(
        "first-errors",
        "The first error of every set of letters",
        figure,
        "One row per set of letters: strings over exactly these. The cross stands at the length of "
        "the shortest string the model gets wrong.",
        f"First errors by set of letters, {len(sets)} sets. {_first_errors(result)}",
    )


def _hover(pair: str, counts: Sequence[int], logit: float, wrong: bool) -> str:
    runs = zip(pair, counts, strict=True)
    string = "".join(letter if n == 1 else f"{letter}{{{n}}}" for letter, n in runs)
    kind = (", a false positive" if logit > 0 else ", a false negative") if wrong else ""
    return f"{string}: logit {logit:.4g}{kind}"


def _first_errors(result: AtlasResult) -> str:
    """For the alternative texts."""
    first = [
        f"{letter_set.letters}: {letter_set.first_error}"
        for letter_set in result.sets
        if letter_set.first_error
    ]
    if not first:
        return f"No error up to {result.verified_length:,} letters."
    return f"First errors: {'; '.join(first[:8])}."
