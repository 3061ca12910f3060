"""Figures of key-noise: answers that change by key and size, and what margins allow."""

from __future__ import annotations

import numpy as np

from tsc_interp.plots.colours import SHARE
from tsc_interp.plots.heat import heat
from tsc_interp.plots.style import Figure
from tsc_interp.probes.base import LabeledArray
from tsc_interp.probes.key_noise.result import KeyNoiseResult

MOST_ROWS = 24


def figures(result: KeyNoiseResult) -> list[Figure]:
    drawn = []
    for a, along in enumerate(result.flips.labels["along"]):
        drawn.append(
            _rates(
                result, a, result.flips, f"flips-{along}",
                f"Answers that change when a key's {along} is moved",
                f"The share of answers that change when the key is moved by so much of its length "
                f"(over {result.over}, {result.draws} draws).",
            )
        )  # fmt: skip
        drawn.append(
            _rates(
                result, a, result.possible, f"possible-{along}",
                f"What margins allow when a key's {along} is moved",
                "The share of strings in which a move of that size, the wrong way, gives another "
                "letter the most weight in the head. Where this is dark and the other figure is "
                "not, the head may change its mind and the answer stays.",
            )
        )  # fmt: skip
    return drawn


def _rates(
    result: KeyNoiseResult, a: int, rates: LabeledArray, name: str, title: str, caption: str
) -> Figure:
    labels = rates.labels
    rows = [
        (f"head{head}.key[{letter}]", h, t)
        for h, head in enumerate(labels["head"])
        for t, letter in enumerate(labels["letter"])
    ]
    worth = result.flips.array[a].mean(axis=-1)
    kept = sorted(sorted(rows, key=lambda row: -worth[row[1], row[2]])[:MOST_ROWS], key=rows.index)
    cells = np.array([rates.array[a, h, t] for _, h, t in kept])
    columns = [f"{size:.0%}" for size in result.sizes]
    figure = heat(
        cells, [row for row, _, _ in kept], columns, show=".0%", hover=".1%", colours=SHARE
    )
    row, column = np.unravel_index(int(cells.argmax()), cells.shape)
    most = f"{cells[row, column]:.1%}, for {kept[row][0]} at {columns[column]}"
    more = f" The {MOST_ROWS} keys that matter most." if len(kept) < len(rows) else ""
    return Figure(
        name,
        title,
        figure,
        caption + more,
        f"The largest share is {most}.",
    )
