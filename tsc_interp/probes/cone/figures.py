"""Figures of cone: how near each negative set comes to crossing, and along which mixtures."""

from __future__ import annotations

from tsc_interp.plots.colours import INK, NEGATIVE, WRONG
from tsc_interp.plots.series import add_series, signed_bars
from tsc_interp.plots.style import Figure, decision_line, new_figure
from tsc_interp.probes.cone.result import ConeResult
from tsc_interp.results.base import LabeledArray, largest

MOST_SETS, MOST_CURVES = 24, 6


def figures(result: ConeResult) -> list[Figure]:
    drawn = [_largest(result)] if result.sets else []
    return drawn + ([_curves(result, result.curves)] if result.curves is not None else [])


def _largest(result: ConeResult) -> Figure:
    sets = sorted(result.sets, key=lambda subset: -subset.max_logit)[:MOST_SETS]
    figure = signed_bars(
        [subset.max_logit for subset in sets],
        [f"only {', '.join(subset.letters)}" for subset in sets],
        x="largest logit of any mixture",
        colours=[WRONG if subset.crosses else NEGATIVE for subset in sets],
        hatched=[subset.crosses for subset in sets],
        notes=["" for _ in sets],
        hover=[
            f"{subset.letters}: {subset.max_logit:.4f} at {subset.written_mixture()}<br>"
            f"shortest crossing string: {subset.shortest or 'none'}"
            for subset in sets
        ],
    )
    spoken = "; ".join(
        f"only {', '.join(subset.letters)}: {subset.max_logit:.4f}"
        + (f", crossing with {subset.shortest}" if subset.shortest else "")
        for subset in sets
    )
    return Figure(
        "largest-logits",
        "How near each negative set of letters comes to a yes",
        figure,
        "Strings of only these letters should all be answered no. The bar is the largest logit any "
        "mixture of them reaches; a hatched purple bar right of zero means false positives.",
        f"Largest logits: {spoken}.",
    )


def _curves(result: ConeResult, curves: LabeledArray) -> Figure:
    names = [curves.labels["set"][index] for index in largest(curves.array.max(1), MOST_CURVES)]
    ratios = [float(ratio) for ratio in curves.labels["ratio"]]
    figure = new_figure("mixture", "logit", height=460, legend=True)
    hover = "%{customdata}: %{y:.4f}<extra></extra>"
    for line, name in enumerate(names):
        first, second = name[0], name[1]
        add_series(figure, ratios, curves.at(set=name), f"{first} : {second}", hover, mode="lines",
                   place=line, colour=NEGATIVE,
                   customdata=[_ratio(ratio, first, second) for ratio in ratios])  # fmt: skip
    points = [point for point in result.strings if point.letters in names]
    if points:
        look = {
            "symbol": ["x" if point.logit > 0 else "circle" for point in points],
            "color": [WRONG if point.logit > 0 else INK for point in points],
            "line": {"width": 1, "color": INK},
        }
        add_series(figure, [point.log_ratio for point in points],
                   [point.logit for point in points], "given strings", hover, mode="markers",
                   size=11, marker=look, customdata=[point.string for point in points])  # fmt: skip
    decision_line(figure, y=0)
    figure.update_xaxes(tickvals=[-6, 0, 6], ticktext=["10⁶ : 1", "1 : 1", "1 : 10⁶"])
    figure.update_yaxes(zeroline=False)
    figure.update_layout(margin_t=30)
    spoken = "; ".join(
        f"{name[0]} and {name[1]}: at most {curves.at(set=name).max():.4f}" for name in names
    )
    return Figure(
        "mixtures",
        "Every mixture of two letters that should be a no",
        figure,
        "From almost only the first letter (left) to almost only the second (right), on a "
        "logarithmic scale. Above the dashed line the answer is a wrong yes; crosses are given "
        "strings that are wrong.",
        f"Logits along two-letter mixtures. {spoken}.",
    )


def _ratio(log_ratio: float, first: str, second: str) -> str:
    rarer, more = (first, second) if log_ratio >= 0 else (second, first)
    return f"{10 ** abs(log_ratio):,.3g} {more} per {rarer}"
