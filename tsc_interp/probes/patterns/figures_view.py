"""The patterns probe's result as a view to point at."""

from __future__ import annotations

import numpy as np

from tsc_interp.plots.attention import AttentionView, Head, Shown
from tsc_interp.probes.patterns.result import PatternsResult, StringPattern


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
    strings = [_shown(string, len(heads)) for string in result.strings]
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


def _shown(one: StringPattern, heads: int) -> Shown:
    weights = one.weights.array.reshape(heads, len(one.tokens), len(one.tokens))
    return Shown(one.name, one.tokens, one.reads, weights)


def _common(result: PatternsResult) -> list[str]:
    """A token where all shown strings have it, else the number of the position."""
    columns = np.array([string.tokens for string in result.strings], dtype=object).T
    return [
        str(column[0]) if len(set(column)) == 1 else str(place)
        for place, column in enumerate(columns)
    ]
