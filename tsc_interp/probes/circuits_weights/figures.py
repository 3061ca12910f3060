"""Figures of the weights: OV and QK of every head, and which heads compose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.plots.colours import SHARE, diverging
from tsc_interp.plots.heat import Panel, heat, panels
from tsc_interp.plots.style import Figure
from tsc_interp.probes.circuits_weights.result import CircuitsWeightsResult
from tsc_interp.results.base import LabeledArray, largest_heads

MOST_PANELS = 12
_BY = {"Q": "queries", "K": "keys", "V": "values"}


def figures(result: CircuitsWeightsResult) -> list[Figure]:
    maps = (
        ("ov-token", result.ov_token, "output", "token attended to",
         "What attending to a token adds to the outputs"),
        ("qk-token", result.qk_token, "token scored", "token that attends",
         "How tokens score tokens"),
        ("qk-position", result.qk_position, "position scored", "position that attends",
         "How positions score positions"),
        ("ov-position", result.ov_position, "output", "position attended to",
         "What attending to a position adds to the outputs"),
    )  # fmt: skip
    drawn = [
        _maps(result, array, name, title, (x, y))
        for name, array, x, y, title in maps
        if array is not None
    ]
    if result.composition is not None and result.pairs():
        drawn.append(_composition(result, result.composition))
    return drawn


def _maps(
    result: CircuitsWeightsResult, maps: LabeledArray, name: str, title: str, axes: Sequence[str]
) -> Figure:
    rows, columns = (maps.labels[dim] for dim in maps.dims[2:])
    size = np.abs(maps.array).max((2, 3))
    shown, of_all = largest_heads(result.heads, size, MOST_PANELS)
    cells = np.stack([maps.array[i, h] for i, h, _ in shown])
    i, h, head = max(shown, key=lambda shown_head: size[shown_head[:2]])
    r, c = np.unravel_index(np.abs(maps.array[i, h]).argmax(), maps.shape[2:])
    return Figure(
        name,
        f"{title}{of_all}",
        panels(
            [Panel(head, maps.array[i, h]) for i, h, head in shown], rows, columns,
            x=axes[0], y=axes[1], colours=diverging(cells), hover="+.3f",
        ),
        "One table per head, from the weights alone, all on one scale: vermillion is more, blue is "
        "less.",
        f"The largest entry is {head}'s for {rows[r]} and {columns[c]}: "
        f"{maps.array[i, h, r, c]:+.3f}.",
    )  # fmt: skip


def _composition(result: CircuitsWeightsResult, scores: LabeledArray) -> Figure:
    used = [(f, t) for f, t in np.ndindex(scores.shape[1:]) if scores.array[:, f, t].any()]
    most = sorted(used, key=lambda at: -scores.array[:, at[0], at[1]].max())[:24]
    names = [f"{scores.labels['from'][f]} → {scores.labels['to'][t]}" for f, t in sorted(most)]
    cells = np.array([scores.array[:, f, t] for f, t in sorted(most)])
    by, source, to, score = result.pairs()[0]
    top = max(float(cells.max()), 1e-9)
    return Figure(
        "composition",
        "How heads compose" + (f" (24 of {len(used)} pairs)" if len(used) > 24 else ""),
        heat(cells, names, list(_BY.values()), show=".2f", colours={**SHARE, "zmax": top}),
        f"How much of what the earlier head writes the later one's queries, keys or values can "
        f"read. Nine in ten scores of shuffled weights are below {result.chance or 0:.3f}.",
        f"The largest is {score:.3f}: {to} reads {source} in its {_BY[by]}.",
    )
