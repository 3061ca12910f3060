"""Figures of ablation: errors and first errors without each part, and what happens to logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10

import numpy as np
import plotly.graph_objects as go

from tsc_interp.plots.colours import MUTED
from tsc_interp.plots.heat import heat
from tsc_interp.plots.series import add_series, name_rows
from tsc_interp.plots.style import Figure, decision_line, new_figure
from tsc_interp.probes.ablation.result import AblationResult, Answers, Exact
from tsc_interp.probes.wording import number
from tsc_interp.results.base import largest

MOST_ROWS = 24
_LOOKS = {"zero": ("circle", MUTED[3]), "mean": ("diamond-open", MUTED[2])}


def figures(result: AblationResult) -> list[Figure]:
    if result.answers is not None:
        return [_answers(result.answers), _logits(result)]
    drawn = []
    if result.exact is not None:
        drawn += [_errors(result, result.exact), _first_errors(result, result.exact)]
    return [*drawn, _logits(result)]


def _errors(result: AblationResult, before: Exact) -> Figure:
    most = log10(result.strings)
    none = -0.07 * most
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100) if most / size < 5)
    powers = range(step, int(most) + 1, step)
    figure = _dots(
        result,
        before,
        lambda exact: log10(exact.errors) if exact.errors else none,
        lambda exact: f"{number(exact.errors)} wrong",
        f"wrong strings up to {result.length}",
    )
    figure.update_xaxes(
        tickvals=[none, *powers],
        ticktext=["none", *(f"10<sup>{power}</sup>" for power in powers)],
        tickangle=0,
        range=[1.6 * none, most * 1.04],
    )
    zeroed = result.of("zero", exact=True)
    errors = {part.part: part.exact.errors for part in zeroed if part.exact}
    worst = max(errors, key=lambda part: errors[part])
    return Figure(
        "errors",
        "How many strings go wrong without each part",
        figure,
        f"Every string of up to {result.length} letters, counted exactly. The dashed line is the "
        "model as it is; a point on it is a part that can be replaced without a change in the "
        "number of errors. The axis counts in powers of ten.",
        f"As it is, {number(before.errors)} strings are wrong; most go wrong without "
        f"{worst}, {number(errors[worst])}.",
    )


def _first_errors(result: AblationResult, before: Exact) -> Figure:
    horizons = [ablation.exact.horizon for ablation in result.ablated if ablation.exact]
    most = log10(max([10, *(n for n in horizons if n), before.horizon or 1]) + 1) * 1.25
    figure = _dots(
        result,
        before,
        lambda exact: most if exact.horizon is None else log10(exact.horizon + 1),
        lambda exact: exact.first_error or "no error found",
        "letters in the first error",
    )
    ticks: dict[float, str] = {power: f"{10**power:,}" for power in range(int(most) + 1)}
    if None in horizons:
        ticks[most] = "none found"
    figure.update_xaxes(
        tickvals=list(ticks),
        ticktext=list(ticks.values()),
        range=[-0.05 * most, most * 1.05],
    )
    ranked = sorted(
        result.of("zero", exact=True), key=lambda part: part.exact.reach if part.exact else 0.0
    )
    return Figure(
        "first-errors",
        "Where the first error is without each part",
        figure,
        "The length of the shortest string that is wrong. Left of the dashed line a part is "
        "needed; right of it, the model reaches further without the part than with it.",
        f"As it is, the first error has {_letters(before)} letters; without {ranked[0].part}, "
        f"{_letters(ranked[0].exact)}, and without {ranked[-1].part}, "
        f"{_letters(ranked[-1].exact)}.",
    )


def _letters(exact: Exact | None) -> str:
    return "no known" if exact is None or exact.horizon is None else f"{exact.horizon + 1:,}"


def _dots(
    result: AblationResult,
    before: Exact,
    place: Callable[[Exact], float],
    say: Callable[[Exact], str],
    x: str,
) -> go.Figure:
    """A row per part, a point per change, and a line where the model is as it is."""
    rows = [ablation.part for ablation in result.of("zero", exact=True)][:MOST_ROWS]
    figure = new_figure(x, height=110 + 26 * len(rows), legend=True)
    for change, (symbol, colour) in _LOOKS.items():
        shown = [ablation for ablation in result.of(change, exact=True) if ablation.part in rows]
        exacts = [ablation.exact for ablation in shown if ablation.exact is not None]
        words = [f"{ablation.part}={change}: {say(exact)}"
                 for ablation, exact in zip(shown, exacts, strict=True)]  # fmt: skip
        add_series(figure, [place(exact) for exact in exacts],
                   [rows.index(ablation.part) for ablation in shown], change,
                   "%{customdata}<extra></extra>", mode="markers", colour=colour, symbol=symbol,
                   size=11, marker={"line": {"width": 2}}, customdata=words)  # fmt: skip
    decision_line(figure, x=place(before))
    name_rows(figure, rows, range=[len(rows) - 0.5, -0.5], autorange=None)
    figure.update_xaxes(zeroline=False)
    return figure


def _answers(answers: Answers) -> Figure:
    """One bar per part: how many answers change."""
    labels, changed = answers.changed.labels, answers.changed.array
    kept = largest(changed.max(0), MOST_ROWS)
    names = _picked(labels["part"], kept)
    figure = new_figure("answers that change", height=110 + 24 * len(kept), legend=True)
    for c, change in enumerate(labels["change"]):
        symbol, colour = _LOOKS[change]
        add_series(figure, changed[c, kept], names, f"replaced by {change}",
                   f"%{{y}}, {change}: %{{x}} of {answers.rows}<extra></extra>", mode="markers",
                   colour=colour, symbol=symbol, size=11,
                   marker={"line": {"width": 2}})  # fmt: skip
    figure.update_xaxes(range=[-0.03 * answers.rows, 1.04 * answers.rows])
    figure.update_yaxes(range=[len(kept) - 0.5, -0.5], zeroline=False)
    most = answers.most_needed()
    return Figure(
        "answers",
        "How many answers change without each part",
        figure,
        f"Each part in turn is replaced by zero, or by its mean over the {answers.rows} rows."
        + (f" The {MOST_ROWS} parts that change most." if len(kept) < changed.shape[1] else ""),
        f"Most change without {labels['part'][most]}: {int(changed[1, most])} of {answers.rows} "
        "with its mean in its place.",
    )


def _logits(result: AblationResult) -> Figure:
    """Of many parts those that move the logits most, in their order."""
    parts, strings = result.effects.labels["part"], result.effects.labels["string"]
    cells = result.effects.array[0]
    size = np.abs(cells).mean(axis=1)
    kept = largest(size, MOST_ROWS)
    figure = heat(cells[kept], _picked(parts, kept), strings, show="+.1f", hover="+.4f")
    quantity, up, down = "logit", "towards yes", "towards no"
    if result.answers is not None:
        quantity, up, down = "answer's lead", "in favour of the answer", "against it"
    top = int(size.argmax())
    at = int(np.abs(cells[top]).argmax())
    return Figure(
        "logits",
        f"What happens to each {quantity} without each part",
        figure,
        f"The change of the {quantity} when the part is set to zero: vermillion {up}, blue {down}."
        + (f" The {MOST_ROWS} parts with the largest effects." if len(kept) < len(parts) else ""),
        f"The largest effect on average is that of {parts[top]}, {size[top]:.4f}; it moves "
        f"{strings[at]} by {cells[top, at]:+.4f}.",
    )


def _picked(names: Sequence[str], kept: Sequence[int]) -> list[str]:
    return [names[index] for index in kept]
