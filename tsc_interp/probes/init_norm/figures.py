"""Figures of init-norm: sizes against width, measured and in theory; weights before and after."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from tsc_interp.plots.colours import DASHES, INK, MUTED, faint
from tsc_interp.plots.series import add_guide, add_series, each, log_axis, name_rows
from tsc_interp.plots.style import Figure, new_figure
from tsc_interp.probes.init_norm.result import InitNormResult
from tsc_interp.results.base import LabeledArray

# One look per strategy, in every figure.
_LOOKS = ((MUTED[0], "circle"), (MUTED[1], "square"), (MUTED[2], "diamond"))


def figures(result: InitNormResult) -> list[Figure]:
    drawn = [] if result.before is None else [_training(result, result.before)]
    drawn.append(_norms(result))
    for name, spread in (("scores", result.score_spread), ("logits", result.logit_spread)):
        if spread is not None:
            drawn.append(_spread(name, spread))
    return drawn


def _log_axes(figure: go.Figure, widths: list[int]) -> None:
    log_axis(figure, "x", widths)
    # Written out: plotly's own labels between powers of ten say 5 where 0.5 is meant.
    ticks = [digit * 10.0**power for power in range(-6, 6) for digit in (1, 2, 5)]
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])


def _norms(result: InitNormResult) -> Figure:
    """Only the embedding's own strategy matters here, so the first and the last of the three."""
    widths = [int(width) for width in result.embedding_norms.labels["width"]]
    figure = new_figure("d_model", "norm of a token's embedding", height=420, legend=True)
    spoken = []
    for strategy, name, (colour, symbol) in (
        (0, "standard normal", _LOOKS[0]),
        (-1, "linear_like", _LOOKS[-1]),
    ):
        mean, low, high, theory = result.embedding_norms.array[strategy].T
        add_guide(figure, [*widths, *widths[::-1]], [*high, *low[::-1]], width=0, fill="toself",
                  fillcolor=faint(colour), name=f"{name}: 90 % of tokens")  # fmt: skip
        hover = "theory %{y:.4f}<extra></extra>"
        add_series(figure, widths, theory, "theory", hover, mode="lines", colour=INK, dash="dash",
                   width=1.5, showlegend=strategy == 0)  # fmt: skip
        add_series(figure, widths, mean, name, "d_model %{x}: %{y:.4f}", mode="markers",
                   colour=colour, symbol=symbol, size=10)  # fmt: skip
        pairs = each("{:.4f} (theory {:.4f}) at {}", mean, theory, widths, between=", ")
        spoken.append(f"{name}: {pairs}")
    _log_axes(figure, widths)
    return Figure(
        "embedding-norms",
        "Embedding norms at initialisation",
        figure,
        f"Means over {result.seeds} fresh models (marks), the range of 90 % of tokens (bands) and "
        "theory (dashed). Both axes are logarithmic: a straight slope is a power of d_model.",
        f"Mean norms by d_model. {'; '.join(spoken)}.",
    )


def _spread(name: str, spread: LabeledArray) -> Figure:
    widths = [int(width) for width in spread.labels["width"]]
    figure = new_figure("d_model", f"standard deviation of {name}", height=420, legend=True)
    for index, (strategy, (colour, symbol)) in enumerate(
        zip(spread.labels["strategy"], _LOOKS, strict=True)
    ):
        add_series(figure, widths, spread.array[index], strategy, "d_model %{x}: %{y:.4f}",
                   colour=colour, symbol=symbol, dash=DASHES[index], size=9)  # fmt: skip
    _log_axes(figure, widths)
    spoken = "; ".join(
        f"{strategy}: " + each("{:.4f} at {}", row, widths, between=", ")
        for strategy, row in zip(spread.labels["strategy"], spread.array, strict=True)
    )
    return Figure(
        f"{name[:-1]}-spread",
        f"Spread of the {name} at initialisation",
        figure,
        f"How much the {name} differ between fresh models: the larger, the more decided a model "
        "is before it has learned anything.",
        f"Standard deviation of {name}. {spoken}.",
    )


def _training(result: InitNormResult, before: LabeledArray) -> Figure:
    weights = list(result.after.labels["weight"])
    rows = np.arange(len(weights))
    mean, low, high = before.array.T
    figure = new_figure("root mean square", height=110 + 32 * len(weights), legend=True)
    reach = {"type": "data", "symmetric": False, "array": high - mean, "arrayminus": mean - low,
             "color": INK, "thickness": 3, "width": 0}  # fmt: skip
    add_series(figure, mean, rows, "fresh: mean, 90 % of seeds", "fresh %{x:.4f}<extra></extra>",
               mode="markers", colour=INK, symbol="line-ns-open", size=12,
               error_x=reach)  # fmt: skip
    add_series(figure, result.after.array, rows, "this model", "this model %{x:.4f}<extra></extra>",
               mode="markers", colour=MUTED[2], size=11)  # fmt: skip
    name_rows(figure, weights)
    figure.update_yaxes(showgrid=False)
    figure.update_xaxes(rangemode="tozero")
    spoken = each("{} {:.4f} to {:.4f}", weights, mean, result.after.array, between=", ")
    return Figure(
        "before-and-after",
        "Weights before and after training",
        figure,
        "Grey: where fresh models of this configuration start. Rust: this model.",
        f"Root mean square, fresh mean to this model: {spoken}.",
    )
