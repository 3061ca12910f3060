"""Figures of pre-training: facts, few labels, confidence, horizons, and what heads read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tsc_interp.laboratories.pretrain.result import (
    ARMS,
    BOTH,
    GROUPS,
    LONGER,
    STAGES,
    TRAINED,
    Characters,
    PretrainResult,
    mean_and_error,
)
from tsc_interp.plots.colours import INK, MUTED, WRONG
from tsc_interp.plots.series import (
    add_bar,
    add_series,
    add_strip,
    broken,
    each,
    log_axis,
    name_rows,
)
from tsc_interp.plots.style import Figure, new_figure

_SYMBOLS = dict(zip(ARMS, ("circle", "diamond", "square", "triangle-up"), strict=True))
_COLOURS = dict(zip(ARMS, (MUTED[0], MUTED[1], MUTED[2], MUTED[5]), strict=True))
"""One look for each way of training, in every figure."""


def figures(result: PretrainResult) -> list[Figure]:
    return [
        _partners(result),
        _contains(result),
        _confidence(result),
        _horizons(result),
        _heads(result),
        *([similar_names(result.characters)] if result.characters else []),
    ]


def _marks(arm: str) -> dict[str, Any]:
    look = {"colour": _COLOURS[arm], "symbol": _SYMBOLS[arm]}
    return {**look, "marker": {"opacity": 0.8}}


def _partners(result: PretrainResult) -> Figure:
    figure = new_figure("answered right", "", height=380)
    words = []
    for row, arm in enumerate(ARMS):
        shares = result.partners.at(arm=arm, group=GROUPS[1])
        add_strip(figure, row, shares, float(shares.mean()), arm, "%{x:.1%}", **_marks(arm))
        words.append(f"{arm}: {shares.mean():.1%}")
    constant = float(result.constant.array.mean())
    figure.add_vline(x=constant, line={"color": WRONG, "dash": "dash", "width": 1.5})
    figure.update_xaxes(tickformat=".0%", range=[-0.04, 1.04])
    name_rows(figure, broken(ARMS))
    return Figure(
        "partners",
        "Facts held in weights: a letter's partner",
        figure,
        "Names whose facts the corpus holds and fine-tuning never asked for. One mark per seed, "
        "the bar is their mean; the dashed line is a constant answer.",
        f"Right answers, the mean over seeds. {'; '.join(words)}; constant answer: {constant:.1%}.",
    )


def _contains(result: PretrainResult) -> Figure:
    figure = new_figure("labelled strings", "accuracy", height=420, legend=True)
    labels = [str(n) for n in result.options.labels]
    words = []
    for place, arm in enumerate(TRAINED):
        rows = [mean_and_error(result.contains.at(arm=arm, labels=n)) for n in labels]
        means, errors = (list(column) for column in zip(*rows, strict=True))
        add_series(figure, [i + (place - 1) * 0.08 for i in range(len(labels))], means, arm,
                   "%{y:.1%}", place=place, colour=_COLOURS[arm], symbol=_SYMBOLS[arm], size=10,
                   error_y={"type": "data", "array": errors, "width": 5})  # fmt: skip
        words.append(f"{arm}: " + each("{} labels {:.1%}", labels, means, between=", "))
    figure.add_hline(y=0.5, line={"color": WRONG, "dash": "dash", "width": 1.5})
    figure.update_xaxes(tickvals=list(range(len(labels))), ticktext=labels, zeroline=False)
    figure.update_yaxes(tickformat=".0%", range=[0.48, 1.02])
    return Figure(
        "contains",
        "Contains a and b from few labels",
        figure,
        f"Over every string of up to {result.options.max_length} letters (as vectors of counts), "
        "half the weight on either label. Means over seeds with their standard errors; the dashed "
        "line is a constant answer.",
        f"{'; '.join(words)}; constant answer: 50.0%.",
    )


def _confidence(result: PretrainResult) -> Figure:
    figure = new_figure("right, and sure", "", height=420, legend=True)
    cells = [(arm, group) for arm in (BOTH, LONGER) for group in GROUPS]
    right, sure = (
        [float(table.at(arm=arm, group=group).mean()) for arm, group in cells]
        for table in (result.partners, result.confidence)
    )
    for row, (low, high) in enumerate(zip(right, sure, strict=True)):
        figure.add_shape(
            type="line", x0=low, x1=high, y0=row, y1=row, layer="below",
            line={"color": INK, "width": 2, "dash": "dot"},
        )  # fmt: skip
    looks = (("answered right", right, MUTED[0], "circle"),
             ("how sure it is", sure, WRONG, "diamond-open"))  # fmt: skip
    for name, values, colour, symbol in looks:
        add_series(figure, values, list(range(len(cells))), name, "%{x:.1%}", mode="markers",
                   colour=colour, symbol=symbol, size=12,
                   marker={"line": {"width": 2}})  # fmt: skip
    short = {BOTH: "pre-trained", LONGER: "alone"}
    names = [f"{short[arm]}, {group}" for arm, group in cells]
    name_rows(figure, broken(names))
    figure.update_xaxes(tickformat=".0%", range=[-0.04, 1.04])
    spoken = each("{}: right {:.1%}, sure {:.0%}", names, right, sure)
    return Figure(
        "confidence",
        "Asked what it never learned, a model answers anyway",
        figure,
        "Shown: asked about in fine-tuning. Held out: in the corpus only, for models that had one. "
        "Strangers: nowhere. Alone: fine-tuning only, as many steps in all. The dotted line is "
        "confidence without knowledge.",
        f"{spoken}.",
    )


def _horizons(result: PretrainResult) -> Figure:
    cells = [(labels, arm) for labels in result.options.labels for arm in TRAINED]
    figure = new_figure("right through this length", "", height=80 + 44 * len(cells))
    words = []
    for row, (labels, arm) in enumerate(cells):
        horizons = result.horizons.at(arm=arm, labels=labels)
        middle = float(np.median(horizons))
        add_strip(figure, row, np.maximum(horizons, 0.7), max(middle, 0.7), arm, "%{x:,.0f}",
                  **_marks(arm))  # fmt: skip
        words.append(f"{labels} labels, {arm}: {middle:,.0f}")
    log_axis(figure, "x")
    short = dict(zip(TRAINED, ("pre-trained", "alone", "alone, longer"), strict=True))
    name_rows(figure, broken([f"{labels} {short[arm]}" for labels, arm in cells]))
    return Figure(
        "horizons",
        "How far models go, by labels",
        figure,
        "One mark per seed, the length through which every string is right, by exact search up to "
        f"{result.options.limit:,} letters; the bar is the median. At the left edge: a string of "
        "one letter is wrong; at the limit: no error was found.",
        f"Median horizon. {'; '.join(words)}.",
    )


def _heads(result: PretrainResult) -> Figure:
    figure = new_figure("", "largest weight of a head on abc", height=420)
    words = []
    for place, stage in enumerate(STAGES):
        largest = np.sort(result.heads.at(stage=stage).max(-1).ravel())
        spread = (np.arange(len(largest)) / max(len(largest) - 1, 1) - 0.5) * 0.6
        add_series(figure, place + spread, largest, stage, "%{y:.0%}", place=place, mode="markers",
                   size=7)  # fmt: skip
        words.append(f"{stage}: {largest.mean():.0%}")
    figure.add_hline(y=1 / 3, line={"color": INK, "dash": "dash", "width": 1.5})
    figure.update_xaxes(tickvals=list(range(len(STAGES))), ticktext=list(STAGES), zeroline=False)
    figure.update_yaxes(tickformat=".0%", range=[0.28, 1.03])
    return Figure(
        "heads",
        "What heads read, before and after fine-tuning",
        figure,
        "Every head of every seed in order of its largest weight on the three letters; the dashed "
        "line reads all alike. Fine-tuned: with the most labels, after pre-training.",
        f"Mean largest weight. {'; '.join(words)}.",
    )


def similar_names(characters: Characters) -> Figure:
    """Return each measure with one mark per seed and arm, and a bar at the arm's mean."""
    figure = new_figure("share", "", height=440, legend=True)
    measures = characters.measured.labels["measure"]
    spoken = []
    for place, arm in enumerate(characters.measured.labels["arm"]):
        x: list[float] = []
        y: list[float] = []
        for row, measure in enumerate(measures):
            shares = characters.measured.at(arm=arm, measure=measure)
            middle, at = float(shares.mean()), row + (place - 0.5) * 0.36
            x.extend(shares)
            y.extend(at + np.linspace(-0.08, 0.08, len(shares)))
            add_bar(figure, middle, at, 0.15)
            if arm == BOTH:
                spoken.append(f"{measure} {middle:.0%}")
        add_series(figure, x, y, arm, "%{x:.0%}", place=2 * place, mode="markers")
    figure.add_vline(x=1 / characters.places, line={"color": INK, "dash": "dash", "width": 1.5})
    figure.update_xaxes(tickformat=".0%", range=[-0.03, 1.03])
    name_rows(figure, broken(measures))
    return Figure(
        "similar-names",
        "Similar names get similar answers, also where that is wrong",
        figure,
        "Right: held-out names answered right, those from their family's home and the exceptions. "
        "Home: answered with that home. Same answer: pairs of names. One mark per seed, the bar is "
        "the mean; dashed is one of the places by chance.",
        f"Pre-trained and fine-tuned: {'; '.join(spoken)}. Chance: {1 / characters.places:.1%}.",
    )
