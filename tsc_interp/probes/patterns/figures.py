"""Figures of attention patterns: every head's average, by position and by token."""

from __future__ import annotations

import numpy as np

from tsc_interp.plots.attention import AttentionView, Head, Shown
from tsc_interp.plots.colours import SHARE
from tsc_interp.plots.heat import Panel, panels
from tsc_interp.plots.style import Figure
from tsc_interp.probes.patterns.result import HABITS, PatternsResult
from tsc_interp.results.base import largest_heads

MOST_PANELS = 12
"""Of more heads, the most selective are drawn."""


def figures(result: PatternsResult) -> list[Figure]:
    drawn = [_positions(result)] if result.by_position is not None else []
    return [*drawn, _tokens(result)]


def _positions(result: PatternsResult) -> Figure:
    assert result.by_position is not None
    places = result.by_position.labels["query"]
    shown, of_all = largest_heads(result.heads, result.focus.array, MOST_PANELS)
    drawing = panels(
        [Panel(name, result.by_position.array[i, h]) for i, h, name in shown],
        places, places, x="to position", y="from position", colours=SHARE,
    )  # fmt: skip
    spoken = []
    for i, h, name in shown:
        habit = result.habit(i, h)
        at = np.unravel_index(result.by_position.array[i, h].argmax(), (len(places),) * 2)
        most = float(result.by_position.array[i, h][at])
        spoken.append(
            f"{name}: {habit[1]:.0%} on {HABITS[habit[0]]}" if habit
            else f"{name}: at most {most:.0%}, from {at[0]} to {at[1]}"
        )  # fmt: skip
    return Figure(
        "by-position",
        f"Where each head attends, by position{of_all}",
        drawing,
        f"One square per head, averaged over {result.rows} strings or rows: each line is a "
        "position, and its cells are the weights it gives the positions across. Darker is more.",
        "; ".join(spoken) + ".",
    )


def _tokens(result: PatternsResult) -> Figure:
    labels = result.by_token.labels
    shown, of_all = largest_heads(result.heads, result.focus.array, MOST_PANELS)
    drawing = panels(
        [Panel(name, result.by_token.array[i, h]) for i, h, name in shown],
        labels["from"], labels["to"], x="to token", y="from token", colours=SHARE,
    )  # fmt: skip
    spoken = []
    for i, h, name in shown:
        weights = result.by_token.array[i, h]
        s, t = np.unravel_index(weights.argmax(), weights.shape)
        spoken.append(f"{name}: {labels['from'][s]} gives {labels['to'][t]} {weights[s, t]:.0%}")
    return Figure(
        "by-token",
        f"Where each head attends, by token{of_all}",
        drawing,
        "Each line is a token that attends; its cells are the mean weights on all copies of the "
        "tokens across.",
        "; ".join(spoken) + ".",
    )


def view(result: PatternsResult, first: tuple[int, int] | None = None) -> AttentionView:
    """Every string kept, and the average by position where several strings are of one length.

    Args:
        result: Of the patterns probe.
        first: The place of the head to show large at the start; the most selective by default.
    """
    heads = result.heads
    labels = result.focus.labels
    flat = int(result.focus.array.argmax())
    at = heads.index(next(head for head in heads if head[:2] == first)) if first else flat
    strings = [
        Shown(
            string.name,
            string.tokens,
            string.reads,
            string.weights.array.reshape(-1, *string.weights.shape[2:]),
        )
        for string in result.strings
    ]
    mean = result.by_position
    sizes = {len(string.tokens) for string in result.strings}
    if mean is not None and result.rows > 1 and sizes == {mean.shape[-1]}:
        name = f"average over {result.rows} strings or rows"
        reads = {string.reads for string in result.strings}
        weights = mean.array.reshape(len(heads), *mean.shape[2:])
        read = reads.pop() if len(reads) == 1 else 0
        strings.append(Shown(name, _common(result), read, weights))
    named = [Head(labels["layer"][i], labels["head"][h], name) for i, h, name in heads]
    return AttentionView(tuple(named), tuple(strings), at)


def _common(result: PatternsResult) -> list[str]:
    """A token where all shown strings have it, else the number of the position."""
    columns = np.array([string.tokens for string in result.strings], dtype=object).T
    return [
        str(column[0]) if len(set(column)) == 1 else str(place)
        for place, column in enumerate(columns)
    ]
