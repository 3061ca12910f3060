"""Where does each head look? Attention weights by position and by token.

A head gives each position k, as seen from position q, the weight `A[q, k]` (`hook_pattern`). Shown
are the weights in each string, and three averages over all strings:

    by position    the mean of A[q, k]
    by token       from every copy of a token, the weight on all copies of another, averaged
    habits         the mean weight on places described by where they are: the position itself, the
                   previous one, the first, other copies of the same token, the place after an
                   earlier copy (what an induction head attends to), the mirrored place

A habit is averaged over the positions that have such a place and a choice, and stands beside what
equal weights on everything visible would give. `focus` is the total variation distance from equal
weights: 0 is uniform attention.

In a model without positions a letter's copies share one state, so long strings are shown with one
place per letter, and averages by position are left out: there is no order to average over.

Reads `hook_pattern`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.probes.patterns.habits import focus, habits
from tsc_interp.probes.patterns.result import PatternsResult, StringPattern
from tsc_interp.probes.running import (
    Floats,
    InputOptions,
    as_array,
    chosen_layers,
    classifier_config,
    start,
)
from tsc_interp.results.base import LabeledArray, that_hold
from tsc_interp.strings import PAD

if TYPE_CHECKING:
    from torch import Tensor

READS = ("attn.hook_pattern",)
MOST_WEIGHTS = 120_000
"""Weights kept string by string; of more strings, the first ones."""
MOST_STRINGS = 8
MOST_TOKENS = 16
MOST_LETTERS = 32
"""Strings of a model without positions are written out to this length."""


@dataclass(frozen=True)
class StringAttention:
    """One string's tokens and patterns, without its padding."""

    name: str
    tokens: tuple[str, ...]
    copies: Floats
    """`[position]`: how often each occurs; as a key, 0 is a place that cannot be attended to."""
    reads: int
    pattern: Floats
    """`[layer head query key]`."""


def run(
    model: Any,
    strings: Sequence[str] | Tensor,
    *,
    layer: int | None = None,
    **options: Unpack[InputOptions],
) -> PatternsResult:
    """Every layer, or just `layer`; `query` is the position that is read, marked in the view."""
    config = classifier_config(model)
    if config is not None and not config.has_attention:
        raise UnsupportedError("this model has no attention (n_heads = 0), so no head to look at")
    written_out = False
    if config is not None and not isinstance(strings, str) and not config.needs_order:
        lengths = [int(config.alphabet.counts(string).sum()) for string in strings]
        written_out = max(lengths, default=0) <= MOST_LETTERS
    given = start(model, strings, reads=READS, written_out=written_out, **options)
    layers = chosen_layers(model, layer)
    seen = [_seen(given, row, layers) for row in range(len(given.rows))]
    ordered = config is None or config.needs_order
    causal = all(not np.triu(string.pattern, 1).any() for string in seen) and ordered
    labels = {"layer": layers, "head": range(seen[0].pattern.shape[1])}
    habit, chance = habits(seen, causal) if ordered else ({}, {})
    shown, units = _shown(seen), "rows" if config is None else "strings"
    left_out = len(seen) - len(shown)
    notes = {
        f"of {len(seen)} {units} the first {len(shown)} are shown one by one": left_out,
        "this model has no positions, so there are no averages by position": not ordered,
    }
    return PatternsResult(
        not_applicable=that_hold(notes),
        n_layers=model.cfg.n_layers,
        rows=len(seen),
        strings=tuple(_kept(string, labels) for string in shown),
        by_token=_by_token(seen, labels),
        by_position=_by_position(seen, labels) if ordered else None,
        focus=LabeledArray.of(focus(seen, causal), **labels),
        habits=LabeledArray.of(np.stack(list(habit.values()), -1), **labels, habit=habit)
        if habit else None,
        by_chance=LabeledArray.of(list(chance.values()), habit=chance) if habit else None,
    )  # fmt: skip


def _seen(run: Any, row: int, layers: Sequence[int]) -> StringAttention:
    tokens, copies = run.tokens[row], run.multiplicity[row]
    ours = run.config is not None
    # A letter that a compressed string lacks has a place, and nothing there attends or is seen.
    kept = np.flatnonzero((tokens != PAD) & ((copies > 0) | (tokens < PAD)) if ours else copies > 0)
    at = np.ix_(kept, kept)
    pattern = np.stack(
        [
            as_array(run.tensor(f"blocks.{i}.attn.hook_pattern")[row])[:, at[0], at[1]]
            for i in layers
        ]
    )
    # Names in a row: a token that occurs twice is not two of one name.
    kinds = list(dict.fromkeys(tokens[kept].tolist()))
    named = dict(zip(kinds, run.names(kinds), strict=True))
    names = [named[token] for token in tokens[kept].tolist()]
    called = [f"{n}×{c:.0f}" if c > 1 else n for n, c in zip(names, copies[kept], strict=True)]
    reads = int(np.searchsorted(kept, run.query[row]))
    return StringAttention(run.rows[row], tuple(called), copies[kept], reads, pattern)


def _shown(seen: Sequence[StringAttention]) -> Sequence[StringAttention]:
    total, count = 0, 0
    for string in seen[:MOST_STRINGS]:
        total += string.pattern.size
        if total > MOST_WEIGHTS and count:
            break
        count += 1
    first = seen[0]
    if first.pattern.size > 10 * MOST_WEIGHTS:
        raise UsageError(
            f"{first.pattern.size:,} attention weights in one row of {len(first.tokens)} tokens "
            "are too many to show; take shorter rows, or one layer with layer=0"
        )
    return seen[:count]


def _kept(string: StringAttention, labels: dict[str, Any]) -> StringPattern:
    places = range(len(string.tokens))
    weights = LabeledArray.of(string.pattern.round(5), **labels, query=places, key=places)
    return StringPattern(
        name=string.name, tokens=string.tokens, reads=string.reads, weights=weights
    )


def _by_position(seen: Sequence[StringAttention], labels: dict[str, Any]) -> LabeledArray:
    width = max(len(string.tokens) for string in seen)
    total = np.zeros((*seen[0].pattern.shape[:2], width, width))
    count = np.zeros((width, width))
    for string in seen:
        size = len(string.tokens)
        total[:, :, :size, :size] += string.pattern
        count[:size, :size] += 1
    mean = (total / np.maximum(count, 1)).round(5)
    return LabeledArray.of(mean, **labels, query=range(width), key=range(width))


def _by_token(seen: Sequence[StringAttention], labels: dict[str, Any]) -> LabeledArray:
    """Of many tokens those that occur most."""
    times = Counter(_kind(token) for string in seen for token in string.tokens)
    kinds = [token for token, _ in times.most_common(MOST_TOKENS)]
    kinds.sort(key=list(times).index)
    total = np.zeros((*seen[0].pattern.shape[:2], len(kinds), len(kinds)))
    count = np.zeros(len(kinds))
    for string in seen:
        member = np.array([[_kind(t) == kind for kind in kinds] for t in string.tokens], float)
        as_query = member * np.maximum(string.copies, 1)[:, None]  # CLS reads, even if unseen
        total += np.einsum("lhqk,qs,kt->lhst", string.pattern, as_query, member, optimize=True)
        count += as_query.sum(0)
    mean = total / np.maximum(count, 1)[:, None]
    return LabeledArray.of(mean, **labels, **{"from": kinds, "to": kinds})


def _kind(token: str) -> str:
    """`b` of `b×30`."""
    head, times, copies = token.rpartition("×")
    return head if times and head and copies.isdigit() else token
