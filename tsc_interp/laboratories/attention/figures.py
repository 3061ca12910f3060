"""Figures of the attention laboratory: the swing first, then what a copy and an average need."""

from __future__ import annotations

from typing import Any

import numpy as np

from tsc_interp.laboratories.attention.result import AttentionResult, Lookup
from tsc_interp.plots.colours import INK, MUTED, faint
from tsc_interp.plots.heat import heat
from tsc_interp.plots.series import add_series, each, ends, log_axis
from tsc_interp.plots.style import Figure, new_figure

_ONE, _TWO = MUTED[2], MUTED[0]
"""One head and two heads, in every figure."""


def figures(result: AttentionResult) -> list[Figure]:
    return [
        _distribution(result),
        _over(
            result,
            "variance",
            "Variance of v_a's share, over C and alpha",
            "Lines are closed forms, marks are draws, one dash for each alpha; both norms vary. "
            "One head's variance grows towards 0.25, a coin flip; two heads' stays below what "
            "norms under zero cost.",
        ),
        _over(
            result,
            "mean",
            "Mean of v_a's share, over C and alpha (only k_a varies)",
            "Lines are closed forms, marks are draws, one dash for each alpha. One head is right "
            "on average, which says nothing of a single draw; two heads lean to v_b, whose key "
            "never fails.",
            case="only a varies",
        ),
        _construction(result),
        _plain(result),
        _copying(result),
        _averaging(result),
        *([look_up(result.lookup)] if result.lookup else []),
    ]


def _distribution(result: AttentionResult) -> Figure:
    """Both keys vary, at the scale that is shown."""
    labels = result.distribution.labels["share"]
    width = 1 / len(labels)
    middles = [float(label) + width / 2 for label in labels]
    figure = new_figure("v_a's share of the output", "share of draws", height=420, legend=True)
    for form, colour in (("one head", _ONE), ("two heads", _TWO)):
        figure.add_bar(
            x=middles,
            y=result.distribution.at(case="both vary", form=form),
            width=width,
            marker={"color": faint(colour, 0.55), "line": {"color": colour, "width": 1}},
            name=form,
            hovertemplate="%{x:.2f}: %{y:.2%}<extra>" + form + "</extra>",
        )
    closed = "one head, closed form"
    add_series(figure, middles, result.distribution.at(case="both vary", form=closed), closed,
               "%{x:.2f}: %{y:.2%}", colour=INK, size=5)  # fmt: skip
    figure.update_layout(barmode="overlay")
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    one, two = (result.distribution.at(case="both vary", form=f) for f in ("one head", "two heads"))
    ends = float(one[0] + one[-1])
    middle = slice(len(labels) // 2 - 1, len(labels) // 2 + 2)
    return Figure(
        "swing",
        f"One head {'swings' if result.swings else 'wavers'}, two heads hold (C = "
        f"{result.shown:g}, both norms vary)",
        figure,
        "A half is the average that is wanted. Where C is large one head gives nearly all to v_a "
        "or to v_b, from draw to draw; the mean of two heads stays at a half but for the draws in "
        "which a norm is below zero.",
        f"v_a's share over {result.options.draws:,} draws: one head has {ends:.1%} of them in the "
        f"two outermost bins, two heads have {float(two[middle].sum()):.1%} in the three around a "
        "half.",
    )


def _over(
    result: AttentionResult, moment: str, title: str, caption: str, case: str = "both vary"
) -> Figure:  # fmt: skip
    labels = result.moments.labels
    scales = [float(scale) for scale in labels["scale"]]
    figure = new_figure("C", f"{moment} of v_a's share", height=440, legend=True)
    spoken = []
    for design, colour in (("one head", _ONE), ("two heads", _TWO)):
        for m, alpha in enumerate(labels["alpha"]):
            closed, drawn = (
                result.moments.at(case=case, design=design, alpha=alpha, statistic=statistic)
                for statistic in (moment, f"{moment} drawn")
            )
            hover = f"C = %{{x}}, alpha {float(alpha):g}: %{{y:.4f}}"
            alike: dict[str, Any] = {"place": m, "colour": colour, "legendgroup": design}
            add_series(figure, scales, closed, design, hover, mode="lines", showlegend=not m,
                       **alike)  # fmt: skip
            add_series(figure, scales, drawn, f"{design}, drawn", hover, mode="markers",
                       showlegend=False, **alike)  # fmt: skip
            spoken.append(ends(f"{design}, alpha {float(alpha):g}", scales, closed, ".4f"))
    log_axis(figure, "x", scales)
    if moment == "mean":
        figure.update_yaxes(range=[0.35, 0.65])
    alt = f"{moment} by C. {'; '.join(spoken)}.".capitalize()
    return Figure(f"{moment}-by-scale", title, figure, caption, alt)


def _construction(result: AttentionResult) -> Figure:
    labels = result.coefficients.labels
    rows = [f"{output} {sign}" for output in labels["output"] for sign in labels["sign"]]
    rows += [f"{output} wanted" for output in labels["output"]]
    wanted = np.array([[0, 1, -1, 0], [0, 1, 0, 0]], dtype=float)
    outputs = np.swapaxes(result.coefficients.array, 0, 1).reshape(-1, 4)
    order = [0, 1, 4, 2, 3, 5]
    values = np.vstack([outputs, wanted])[order]
    names = [rows[i] for i in order]
    figure = heat(values, names, list(labels["vector"]), hover=".4f")
    gamma = float(result.misses.labels["gamma"][-1])
    spoken = "; ".join(
        f"{name}: " + each("{:.2f} {}", row, labels["vector"], between=", ")
        for name, row in zip(names, values, strict=True)
    )
    return Figure(
        "construction",
        f"Two signs, one wanted output each (γ = {gamma:g})",
        figure,
        "Coefficients of the outputs. With the printed minus c_1 is half of u_b and has no u_c; "
        "c_2 does not depend on that sign.",
        f"Coefficients of u_a to u_d. {spoken}.",
    )


def _plain(result: AttentionResult) -> Figure:
    multiples = [float(m) for m in result.plain.labels["multiple"]]
    figure = new_figure("multiple s of u_d added to x_2", "coefficient in c_2", legend=True)
    for place, vector in enumerate(("u_a", "u_b", "u_d")):
        values = result.plain.at(added="u_d", vector=vector)
        add_series(figure, multiples, values, vector, "s = %{x:.1f}: %{y:.4f}", place=place,
                   mode="lines", width=2.5)  # fmt: skip
    least = float(result.leads.at(added="u_d").min())
    most = float(result.plain.at(added="u_d", vector="u_b").max())
    return Figure(
        "plain",
        "Without matrices c_2 is x_2 itself, whatever is added",
        figure,
        "Wanted is u_b alone. x_2 = u_a + s u_d always has its highest score with itself, so u_a "
        "stays and u_d comes along.",
        f"Over s from {multiples[0]:g} to {multiples[-1]:g} the coefficient of u_b is at most "
        f"{most:.1e}; x_2's own score leads by at least {least:.2f} γ².",
    )


def _copying(result: AttentionResult) -> Figure:
    keys = [int(n) for n in result.margins.labels["keys"]]
    figure = new_figure("keys n", "margin needed", legend=True)
    spoken = []
    for place, epsilon in enumerate(result.margins.labels["epsilon"]):
        name, margins = f"weight {1 - float(epsilon):g}", result.margins.at(epsilon=epsilon)
        add_series(figure, keys, margins, name, "%{x} keys: %{y:.3f}", place=place)
        spoken.append(ends(name, keys, margins, ".3f"))
    log_axis(figure, "x", keys)
    return Figure(
        "copying",
        "How far ahead a score must be to be copied",
        figure,
        "log((n - 1)(1 - ε)/ε): a straight line in log n.",
        f"Margins, by the number of keys. {'; '.join(spoken)}.",
    )


def _averaging(result: AttentionResult) -> Figure:
    scales = [float(scale) for scale in result.averaging.labels["scale"]]
    figure = new_figure("C", "weight on a and b together", legend=True)
    spoken = []
    for place, keys in enumerate(result.averaging.labels["keys"][::2]):
        name, weights = f"{int(keys):,} keys", result.averaging.at(keys=keys, statistic="closed")
        add_series(figure, scales, weights, name, "C = %{x}: %{y:.4f}", place=place)
        spoken.append(f"{name}: {weights[0]:.4f} to {weights[-1]:.4f}")
    log_axis(figure, "x", scales)
    figure.update_yaxes(range=[0, 1.05])
    return Figure(
        "averaging",
        "What C an average of two keys needs (keys of one norm)",
        figure,
        "The rest of the weight falls on the other keys; a and b always share theirs evenly.",
        f"Weight on a and b over C from {scales[0]:g} to {scales[-1]:g}. {'; '.join(spoken)}.",
    )


_FLOOR = 1e-9


def look_up(lookup: Lookup) -> Figure:
    """Return distance against lead, one mark per table and temperature, and the bound above."""
    figure = new_figure("lead over T", "distance from the look-up, in D", height=460, legend=True)
    spoken = []
    for place, (temperature, cells) in enumerate(
        zip(lookup.sharp.labels["temperature"], lookup.sharp.array, strict=True)
    ):
        seen = cells[:, 1] > _FLOOR
        name = f"T = {float(temperature):g}"
        add_series(figure, cells[seen, 0], cells[seen, 1], name, "lead %{x:.2f} T: %{y:.2g} D",
                   place=place, mode="markers", size=6, marker={"opacity": 0.7})  # fmt: skip
        spoken.append(f"{name}: median {np.median(cells[:, 1]):.2g} D")
    leads = np.geomspace(1e-3, np.log((lookup.keys - 1) / _FLOOR), 200)
    rest = (lookup.keys - 1) * np.exp(-leads)
    add_series(figure, leads, rest / (1 + rest), "bound", "at most %{y:.2g} D", mode="lines",
               colour=INK, width=3)  # fmt: skip
    figure.update_xaxes(range=[-0.5, float(leads[-1])])
    figure.update_yaxes(type="log", exponentformat="power", range=[np.log10(_FLOOR), 0.3])
    figure.update_layout(margin_t=56)
    return Figure(
        "look-up",
        "Sharp attention is a look-up, as far as one key leads",
        figure,
        "One mark per table and temperature. The line is r/(1 + r) with r = (n - 1) exp(-lead/T): "
        "no mark can lie above it. Marks below one in a thousand million are left out.",
        f"Distances from the look-up. {'; '.join(spoken)}.",
    )
