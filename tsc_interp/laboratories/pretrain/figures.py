"""Figures of pre-training: facts, few labels, confidence, horizons, and what heads read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tsc_interp.laboratories.pretrain.figures_characters import similar_names
from tsc_interp.laboratories.pretrain.result import (
    ARMS,
    BOTH,
    GROUPS,
    LONGER,
    STAGES,
    TRAINED,
    PretrainResult,
    mean_and_error,
)
from tsc_interp.plots.colours import DASHES, INK, MUTED, WRONG
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


def _strip(
    figure: go.Figure, row: int, found: NDArray[np.float64], middle: float, arm: str, form: str
) -> None:
    """One mark per seed, and a bar at their middle."""
    spread = (np.arange(len(found)) / max(len(found) - 1, 1) - 0.5) * 0.5
    figure.add_scatter(
        x=found,
        y=row + spread,
        mode="markers",
        marker={"size": 8, "color": _COLOURS[arm], "symbol": _SYMBOLS[arm], "opacity": 0.8},
        hovertemplate=f"{arm}: %{{x:{form}}}<extra></extra>",
    )
    figure.add_shape(
        type="line", x0=middle, x1=middle, y0=row - 0.36, y1=row + 0.36,
        line={"color": INK, "width": 3},
    )  # fmt: skip


def _rows(figure: go.Figure, names: Sequence[str]) -> None:
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[name.replace(", ", ",<br>") for name in names],
        autorange="reversed",
        zeroline=False,
    )


def _partners(result: PretrainResult) -> Figure:
    figure = new_figure("answered right", "", height=380)
    words = []
    for row, arm in enumerate(ARMS):
        found = result.partners.at(arm=arm, group=GROUPS[1])
        _strip(figure, row, found, float(found.mean()), arm, ".1%")
        words.append(f"{arm}: {found.mean():.1%}")
    constant = float(result.constant.array.mean())
    figure.add_vline(x=constant, line={"color": WRONG, "dash": "dash", "width": 1.5})
    figure.update_xaxes(tickformat=".0%", range=[-0.04, 1.04])
    _rows(figure, ARMS)
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
        each = [mean_and_error(result.contains.at(arm=arm, labels=n)) for n in labels]
        means, errors = (list(column) for column in zip(*each, strict=True))
        figure.add_scatter(
            x=[i + (place - 1) * 0.08 for i in range(len(labels))],
            y=means,
            error_y={"type": "data", "array": errors, "width": 5},
            mode="lines+markers",
            name=arm,
            line={"color": _COLOURS[arm], "dash": DASHES[place], "width": 2},
            marker={"color": _COLOURS[arm], "symbol": _SYMBOLS[arm], "size": 10},
            hovertemplate=f"{arm}: %{{y:.1%}}<extra></extra>",
        )
        told = ", ".join(f"{n} labels {mean:.1%}" for n, mean in zip(labels, means, strict=True))
        words.append(f"{arm}: {told}")
    figure.add_hline(y=0.5, line={"color": WRONG, "dash": "dash", "width": 1.5})
    figure.update_xaxes(tickvals=list(range(len(labels))), ticktext=labels, zeroline=False)
    figure.update_yaxes(tickformat=".0%", range=[0.48, 1.02])
    figure.update_layout(margin_t=36)
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
        figure.add_scatter(
            x=values,
            y=list(range(len(cells))),
            mode="markers",
            name=name,
            marker={"size": 12, "color": colour, "symbol": symbol, "line": {"width": 2}},
            hovertemplate=f"{name}: %{{x:.1%}}<extra></extra>",
        )
    short = {BOTH: "pre-trained", LONGER: "alone"}
    names = [f"{short[arm]}, {group}" for arm, group in cells]
    _rows(figure, names)
    figure.update_xaxes(tickformat=".0%", range=[-0.04, 1.04])
    figure.update_layout(margin_t=36)
    told = "; ".join(
        f"{name}: right {a:.1%}, sure {b:.0%}"
        for name, a, b in zip(names, right, sure, strict=True)
    )
    return Figure(
        "confidence",
        "Asked what it never learned, a model answers anyway",
        figure,
        "Shown: asked about in fine-tuning. Held out: in the corpus only, for models that had one. "
        "Strangers: nowhere. Alone: fine-tuning only, as many steps in all. The dotted line is "
        "confidence without knowledge.",
        f"{told}.",
    )


def _horizons(result: PretrainResult) -> Figure:
    cells = [(labels, arm) for labels in result.options.labels for arm in TRAINED]
    figure = new_figure("right through this length", "", height=80 + 44 * len(cells))
    words = []
    for row, (labels, arm) in enumerate(cells):
        found = result.horizons.at(arm=arm, labels=labels)
        middle = float(np.median(found))
        _strip(figure, row, np.maximum(found, 0.7), max(middle, 0.7), arm, ",.0f")
        words.append(f"{labels} labels, {arm}: {middle:,.0f}")
    figure.update_xaxes(type="log", dtick=1, exponentformat="power")
    short = dict(zip(TRAINED, ("pre-trained", "alone", "alone, longer"), strict=True))
    _rows(figure, [f"{labels} {short[arm]}" for labels, arm in cells])
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
        figure.add_scatter(
            x=place + spread,
            y=largest,
            mode="markers",
            marker={"size": 7, "color": MUTED[place], "symbol": list(_SYMBOLS.values())[place]},
            hovertemplate=f"{stage}: %{{y:.0%}}<extra></extra>",
        )
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
