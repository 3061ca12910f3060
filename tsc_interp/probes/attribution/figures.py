"""Figures of attribution: each logit as a stack of parts, and every part of every string."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsc_interp.plots.colours import INK, MUTED
from tsc_interp.plots.heat import heat
from tsc_interp.plots.series import add_series, each, name_rows
from tsc_interp.plots.style import Figure, new_figure
from tsc_interp.probes.attribution.result import AttributionResult
from tsc_interp.results.base import LabeledArray, largest

_PATTERNS = ("", "/", "\\", "x", "-", "|")
MOST_GROUPS, MOST_PARTS = 6, 24
MOST_HEADS = 12


def figures(result: AttributionResult) -> list[Figure]:
    by_place = [] if result.sources is None else [_sources(result, result.sources)]
    return [_stack(result), _parts(result), *by_place]


def _stack(result: AttributionResult) -> Figure:
    """Groups to the right of zero push towards yes, to the left towards no; a mark is the sum."""
    strings = result.by_group.labels["string"]
    size = np.abs(result.by_group.array).mean(0)
    groups, effects = _largest(result.by_group, size, MOST_GROUPS)
    place = list(range(len(strings)))
    figure = new_figure(
        f"effect on the {result.total}", height=150 + 36 * len(strings), legend=True
    )
    for g, group in enumerate(groups):
        figure.add_bar(
            x=effects[:, g],
            y=place,
            orientation="h",
            name=group,
            marker={
                "color": MUTED[g % len(MUTED)],
                "pattern": {
                    "shape": _PATTERNS[g % len(_PATTERNS)],
                    "fillmode": "overlay",
                    "fgcolor": "rgba(255,255,255,0.45)",
                    "solidity": 0.15,
                },
            },
            width=0.6,
            hovertemplate=f"{group}: %{{x:+.4f}}<extra></extra>",
        )
    hover = "%{customdata}: %{x:+.4f}<extra></extra>"
    add_series(figure, result.logits.array, place, f"{result.total} (the sum)", hover,
               mode="markers", colour=INK, symbol="diamond", size=11,
               marker={"line": {"width": 2}}, customdata=list(strings))  # fmt: skip
    figure.update_layout(barmode="relative", margin_t=30)
    name_rows(figure, strings, showgrid=False)
    up, down = _pushes(result)
    spoken = "; ".join(
        f"{string} {logit:+.4f} = " + each("{} {:+.2f}", groups, row, between=", ")
        for string, logit, row in zip(strings, result.logits.array, effects, strict=True)
    )
    return Figure(
        "sums",
        f"What each {result.total} is made of",
        figure,
        f"Bars to the right of zero {up}, bars to the left {down}; the diamond is their sum, the "
        f"{result.total}. These are direct effects: what a head tells the MLP counts as MLP.",
        f"{spoken}.",
    )


def _sources(result: AttributionResult, sources: LabeledArray) -> Figure:
    """The heads that add most, by where they read from."""
    mean = sources.array.mean(0)
    kept = largest(np.abs(mean).max(1), MOST_HEADS)
    names, places = [sources.labels["head"][h] for h in kept], sources.labels["position"]
    h, place = np.unravel_index(np.abs(mean).argmax(), mean.shape)
    up, down = _pushes(result)
    of_all = f" ({MOST_HEADS} of {len(mean)} heads)" if len(mean) > MOST_HEADS else ""
    return Figure(
        "sources",
        f"What each head adds, by the position it reads from{of_all}",
        heat(mean[kept], names, places, show="+.1f", hover="+.4f"),
        f"Averaged over the {result.row}s; columns are positions. Vermillion cells {up}, blue ones "
        f"{down}.",
        f"The largest is {sources.labels['head'][h]} from position {places[place]}: "
        f"{mean[h, place]:+.4f}.",
    )


def _pushes(result: AttributionResult) -> tuple[str, str]:
    """What a positive and a negative effect do, in words."""
    if result.answers:
        return "speak for the answer", "against it"
    if result.chance is not None:
        return "raise it", "lower it"
    return "push towards yes", "towards no"


def _parts(result: AttributionResult) -> Figure:
    strings, parts = result.effects.labels["string"], result.effects.labels["part"]
    size = np.abs(result.effects.array).max(0)
    names, effects = _largest(result.effects, size, MOST_PARTS)
    figure = heat(effects.T, names, strings, show="+.1f", hover="+.4f")
    flat = int(np.abs(result.effects.array).argmax())
    row, part = divmod(flat, len(parts))
    up, down = _pushes(result)
    return Figure(
        "parts",
        f"Every part of every {result.total}",
        figure,
        f"One column per {result.row}; its cells add up to its {result.total}. Vermillion cells "
        f"{up}, blue ones {down}. 'head 0 ← a' is what head 0 adds by looking at a.",
        f"The largest single effect is {parts[part]} on {strings[row]}: "
        f"{result.effects.array[row, part]:+.4f}.",
    )


def _largest(
    effects: LabeledArray, size: NDArray[np.float64], most: int
) -> tuple[list[str], NDArray[np.float64]]:
    """All columns, or of many the largest, with one for the rest so that rows still add up."""
    names, cells = list(effects.labels[effects.dims[1]]), effects.array
    if len(names) <= most:
        return names, cells
    order = np.argsort(-size, kind="stable")
    kept, rest = np.sort(order[: most - 1]), order[most - 1 :]
    together = cells[:, rest].sum(1, keepdims=True)
    shown = [*(names[column] for column in kept), f"{len(rest)} others"]
    return shown, np.concatenate([cells[:, kept], together], axis=1)
