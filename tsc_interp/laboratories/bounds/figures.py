"""Figures of bounds: risk by length beside the bound, each model's interval, claims by width."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.bounds.result import CLAIMS, DRAWS, BoundsResult, Derivation
from tsc_interp.plots.colours import DASHES, INK, MUTED, WRONG
from tsc_interp.plots.series import add_series, each, ends, log_axis
from tsc_interp.plots.style import Figure, new_figure


def figures(result: BoundsResult) -> list[Figure]:
    drawn = [_by_length(result), _models(result), _claims(result)]
    return [*drawn, *([_epsilon(result, result.derivation)] if result.derivation else [])]


def _by_length(result: BoundsResult) -> Figure:
    figure = new_figure("length", "risk, exactly", height=460, legend=True)
    lengths = [int(label) for label in result.by_length.labels["length"]]
    others = [int(s) for s in result.by_length.labels["seed"] if int(s) not in result.best]
    for place, seed in enumerate((*others, *result.best)):
        best = seed in result.best
        add_series(
            figure, lengths, result.by_length.at(seed=seed),
            "fewest errors" if best else "other seeds",
            f"seed {seed}, %{{x:,}} letters: %{{y:.4f}}",
            mode="lines+markers" if best else "lines", colour=WRONG if best else INK,
            width=3 if best else 1, legendgroup=str(best), showlegend=place in (0, len(others)),
        )  # fmt: skip
    errors = float(result.risks.at(seed=result.best[0], quantity="validation error"))
    most = errors + float(result.bounds.at(bound=CLAIMS[0]))
    longest = result.options.max_length
    add_series(figure, [lengths[0], longest], [most, most], "their bound",
               f"at most {most:.4f}, over lengths 1 to {longest}", mode="lines", dash="dash",
               width=3)  # fmt: skip
    log_axis(figure, "x", lengths)
    spoken = "; ".join(
        f"seed {seed}: "
        + each("{:.3f} at {:,}", result.by_length.at(seed=seed), lengths, between=", ")
        for seed in result.best
    )
    return Figure(
        "by-length",
        "What the bound is about, and what it is not",
        figure,
        "The exact risk on the stream's strings given their length. The dashed line is what the "
        f"validation set guarantees for lengths up to {longest} taken together; it ends there.",
        f"Risks of the models with the fewest errors, {spoken}. Their bound is {most:.4f}, up to "
        f"{longest} letters.",
    )


def _models(result: BoundsResult) -> Figure:
    figure = new_figure("seed", "risk", height=420, legend=True)
    seeds = [int(label) for label in result.risks.labels["seed"]]
    seen = result.risks.at(quantity="validation error")
    exact = result.risks.at(quantity="exact risk")
    bound = float(result.bounds.at(bound=CLAIMS[0]))
    up, down = [bound] * len(seeds), np.minimum(bound, seen)
    reach = {"type": "data", "array": up, "arrayminus": down, "color": MUTED[0], "width": 5}
    add_series(figure, seeds, seen, "validation error, with the uniform bound",
               "seed %{x}: %{y:.4f}", mode="markers", symbol="line-ew-open", size=12,
               error_y=reach)  # fmt: skip
    add_series(figure, seeds, exact, "exact risk", "seed %{x}: exactly %{y:.5f}", mode="markers",
               place=2)  # fmt: skip
    figure.update_xaxes(range=[-0.7, len(seeds) - 0.3])
    spoken = each("seed {} {:.4f}", seeds, exact, between=", ")
    return Figure(
        "models",
        "One validation set, every model's exact risk",
        figure,
        f"Bars reach the uniform bound of {bound:.4f} around each validation error. All exact "
        "risks lie inside at once; that is what the bound promises, and most of the bar is slack.",
        f"Exact risks: {spoken}.",
    )


def _claims(result: BoundsResult) -> Figure:
    figure = new_figure("half-width of the claim", "how often it holds", height=420, legend=True)
    for place, draws in enumerate(DRAWS):
        add_series(figure, result.widths.at(draws=draws), result.coverage.at(draws=draws), draws,
                   "%{customdata}: %{x:.4f}, holds %{y:.2%}", place=place, mode="markers", size=11,
                   customdata=CLAIMS)  # fmt: skip
    promised = 1 - result.options.delta
    figure.add_hline(y=promised, line={"color": INK, "dash": DASHES[1]})
    for claim in CLAIMS:
        held, above = result.coverage.at(claim=claim), claim == CLAIMS[3]
        figure.add_annotation(
            x=float(result.widths.at(draws=DRAWS[0], claim=claim)),
            y=float(held.max() if above else held.min()),
            text=claim.removeprefix("Clopper-Pearson, "),
            yshift=20 if above else -20,
            font={"size": 11},
        )
    low = min(promised, float(result.coverage.array.min()))
    figure.update_yaxes(range=[low - 0.03, 1.008], tickformat=".0%")
    figure.update_xaxes(rangemode="tozero")
    widths, held = (array.at(draws=DRAWS[0]) for array in (result.widths, result.coverage))
    spoken = each("{}: half-width {:.4f}, holds {:.1%}", CLAIMS, widths, held)
    return Figure(
        "claims",
        "What each claim costs, and how often it holds",
        figure,
        "Half-widths are means over models; the two on the left are Clopper-Pearson's, for one "
        "model and for all at once. All claims but the first of these are about every model. "
        "Dashed: what is promised. Farther left says more.",
        f"{spoken}.",
    )


def _epsilon(result: BoundsResult, derivation: Derivation) -> Figure:
    figure = new_figure("validation strings N", "bound ε", height=440, legend=True)
    labels = derivation.epsilon.labels
    sizes = [int(n) for n in labels["strings"]]
    spoken = []
    for place, models in enumerate(labels["models"]):
        for k, delta in enumerate(labels["delta"]):
            values = derivation.epsilon.at(models=models, delta=delta)
            name = f"M = {int(models):,}"
            add_series(figure, sizes, values, name, f"N = %{{x:,}}, δ = {delta}: %{{y:.4f}}",
                       place=place, dash=DASHES[k], mode="lines", legendgroup=models,
                       showlegend=not k)  # fmt: skip
            if k == 1:
                spoken.append(ends(name, sizes, values, ".4f"))
    bound = float(result.bounds.at(bound=CLAIMS[0]))
    add_series(figure, [result.strings], [bound], "here", "%{y:.4f}", mode="markers", colour=INK,
               symbol="star", size=13)  # fmt: skip
    log_axis(figure, "x", sizes)
    log_axis(figure, "y", (1, 0.3, 0.1, 0.03, 0.01, 0.003))
    dashes = ", ".join(
        f"{d} δ = {delta}" for d, delta in zip(DASHES, labels["delta"], strict=False)
    )
    return Figure(
        "epsilon",
        "The bound ε against N, M and δ",
        figure,
        f"sqrt(ln(2M/δ) / (2N)) on logarithmic axes: {dashes}. Four times the strings halve ε; a "
        "thousand times the models move it less than that.",
        f"At δ = {labels['delta'][1]}: {'; '.join(spoken)}. Here: {bound:.4f}.",
    )
