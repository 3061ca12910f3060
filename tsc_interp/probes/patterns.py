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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.probes.inputs import Floats, Inputs, as_array, chosen_layers
from tsc_interp.probes.probe import probe
from tsc_interp.probes.wording import capital, joined
from tsc_interp.results.base import (
    Finding,
    LabeledArray,
    ProbeResult,
    Record,
    Table,
    named_heads,
    that_hold,
)
from tsc_interp.results.views import Heat, Rows, shown
from tsc_interp.strings import PAD

if TYPE_CHECKING:
    from tsc_interp.plots.attention import AttentionView

READS = ("attn.hook_pattern",)
MOST_WEIGHTS = 120_000
"""Weights kept string by string; of more strings, the first ones."""
MOST_STRINGS = 8
MOST_TOKENS = 16
MOST_LETTERS = 32
"""Strings of a model without positions are written out to this length."""
MOST_HEADS = 8
UNIFORM = 0.02
"""A head whose weights are nearer than this to equal ones, on average, prefers nothing."""
HABITS = {
    "itself": "itself",
    "previous": "the previous position",
    "first": "the first position",
    "same": "other places with the same token",
    "after same": "the place after an earlier copy of its token",
    "mirror": "the place as far from the end as it is from the start",
}
"""Places a head may attend to, by what they have to do with the place it attends from."""
Places = NDArray[np.bool_]
_HEADS = ("layer", "head")


class StringPattern(Record):
    """One string (or row of token ids), and every head's weights in it."""

    name: str
    tokens: tuple[str, ...]
    reads: int
    """The position whose state becomes the answer."""
    weights: LabeledArray
    """`[layer head query key]`: from each position to each position, in five decimals."""


class PatternsResult(ProbeResult):
    """Attention weights, string by string and on average."""

    probe: ClassVar[str] = "patterns"

    n_layers: int
    rows: int
    """How many strings the averages are over."""
    strings: tuple[StringPattern, ...]
    """The strings kept one by one."""
    by_position: Annotated[
        LabeledArray | None,
        Heat(
            "Where each head attends, by position",
            "One square per head, averaged over {result.rows} strings or rows. Each line is a "
            "position that attends, and its cells are the weights it gives. Darker is more.",
            share=True, form=".1%", panels=_HEADS, table=False,
        ),
    ]  # fmt: skip
    """`[layer head query key]`: the mean over the strings that have both positions."""
    by_token: Annotated[
        LabeledArray,
        Heat(
            "Where each head attends, by token",
            "Each line is a token that attends; its cells are the mean weights on all copies of "
            "the tokens across.",
            share=True, form=".1%", panels=_HEADS, table=False,
        ),
    ]  # fmt: skip
    """`[layer head from to]`: the mean weight a token gives all copies of another."""
    focus: LabeledArray
    """`[layer head]`: how far weights are from equal ones, 0 (equal) to 1 (all on one of many)."""
    habits: LabeledArray | None
    """`[layer head habit]`: the mean weight on the places that HABITS describes."""
    by_chance: LabeledArray | None
    """`[habit]`: the same of equal weights; 0 where no position has such a place."""

    @property
    def heads(self) -> list[tuple[int, int, str]]:
        """Of every head its place in the arrays, layer first, and its name."""
        return named_heads(self.n_layers, self.focus)

    def uniform(self, i: int, h: int) -> bool:
        return bool(self.focus.array[i, h] < UNIFORM)

    def habit(self, i: int, h: int) -> tuple[str, float, float] | None:
        """The habit that explains most of a head's weight, the share, and what equal weights give.

        None unless it explains at least half, and half as much again as equal weights do.
        """
        if self.habits is None or self.by_chance is None:
            return None
        shares, chance = self.habits.array[i, h], self.by_chance.array
        best = int(np.argmax(shares - chance))
        share, even = float(shares[best]), float(chance[best])
        if share < 0.5 or share < 1.5 * even:
            return None
        return self.habits.labels["habit"][best], share, even

    @shown(Rows("Where each head attends, on average"))
    def averages(self) -> Table:
        names = self.habits.labels["habit"] if self.habits is not None else ()
        shares = self.habits.array if self.habits is not None else np.empty((*self.focus.shape, 0))
        rows = (
            (name, float(self.focus.array[i, h]), *shares[i, h].tolist())
            for i, h, name in self.heads
        )
        columns = ("head", "distance from equal weights",
                   *(f"weight on {HABITS[name]}" for name in names))  # fmt: skip
        return Table.from_rows("Where each head attends, on average", columns, rows)

    @shown(Rows("Mean weight from token to token"))
    def from_token_to_token(self) -> LabeledArray:
        cells = self.by_token.array.reshape(-1, *self.by_token.shape[2:])
        labels = {dim: self.by_token.labels[dim] for dim in ("from", "to")}
        return LabeledArray.of(cells, head=[name for *_, name in self.heads], **labels)

    def conclude(self) -> Iterator[Finding]:
        heads = [(i, h, name, self.habit(i, h)) for i, h, name in self.heads]
        clear = [(name, habit) for i, h, name, habit in heads if habit and not self.uniform(i, h)]
        clear.sort(key=lambda head: -(head[1][1] - head[1][2]))
        even = [name for i, h, name in self.heads if self.uniform(i, h)]
        rest = len(heads) - len(clear) - len(even)
        for name, (habit, share, chance) in clear[:MOST_HEADS]:
            text = (
                f"{capital(name)} attends to {HABITS[habit]}: {share:.0%} of its weight on "
                f"average, where equal weights would give {chance:.0%}."
            )
            numbers = {"weight": share, "equal weights": chance}
            yield Finding.of(text, numbers, head=name, habit=habit)
        if even:
            more = [f"{len(even) - MOST_HEADS} more"] if len(even) > MOST_HEADS else []
            text = (
                f"{capital(joined([*even[:MOST_HEADS], *more]))} "
                f"{'attends' if len(even) == 1 else 'attend'} to everything alike: the weights are "
                "equal to within 2% on average."
            )
            yield Finding.of(text, {"uniform heads": len(even)}, head=tuple(even))
        if rest:
            i, h, name, _ = max(heads, key=lambda head: self.focus.array[head[0], head[1]])
            text = (
                f"{rest} of {len(heads)} heads {'follows' if rest == 1 else 'follow'} no rule of "
                f"position. The most selective head is {name}: its weights are "
                f"{self.focus.array[i, h]:.0%} away from equal ones."
            )
            yield Finding.of(text, {"heads": len(heads)}, head=name)

    def view(self, first: tuple[int, int] | None = None) -> AttentionView:
        """Every string kept, and the average by position where all are of one length.

        Args:
            first: The place of the head to show large at the start, by default the most selective.
        """
        from tsc_interp.plots.attention import AttentionView, Head, Shown

        labels = self.focus.labels
        places = [head[:2] for head in self.heads]
        at = places.index(first) if first else int(self.focus.array.argmax())
        strings = [
            Shown(one.name, one.tokens, one.reads,
                  one.weights.array.reshape(-1, *one.weights.shape[2:]))
            for one in self.strings
        ]  # fmt: skip
        mean = self.by_position
        lengths = {len(one.tokens) for one in self.strings}
        if mean is not None and self.rows > 1 and lengths == {mean.shape[-1]}:
            columns = map(set, zip(*(one.tokens for one in self.strings), strict=True))
            common = [c.pop() if len(c) == 1 else str(place) for place, c in enumerate(columns)]
            reads = {one.reads for one in self.strings}
            name = f"average over {self.rows} strings or rows"
            weights = mean.array.reshape(len(places), *mean.shape[2:])
            strings.append(Shown(name, common, reads.pop() if len(reads) == 1 else 0, weights))
        named = [Head(labels["layer"][i], labels["head"][h], name) for i, h, name in self.heads]
        return AttentionView(tuple(named), tuple(strings), at)


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


@probe(
    PatternsResult,
    title="Where does each head look?",
    question="Which positions and which tokens does each head attend to?",
    chapter="2",
    on_request=True,
    any_model=True,
    accepts=("query", "token_names", "attention_mask"),
)
def patterns(inputs: Inputs, *, layer: int | None = None) -> PatternsResult:
    """Every layer, or just `layer`; `query` is the position that is read, marked in the view."""
    model, config = inputs.model, inputs.config
    if config is not None and not config.has_attention:
        raise UnsupportedError("this model has no attention (n_heads = 0), so no head to look at")
    written_out = False
    if config is not None and not config.needs_order:
        lengths = [int(config.alphabet.counts(string).sum()) for string in inputs.given]
        written_out = max(lengths, default=0) <= MOST_LETTERS
    given = inputs.run(*READS, written_out=written_out)
    layers = chosen_layers(model, layer)
    seen = [_seen(given, row, layers) for row in range(len(given.rows))]
    ordered = config is None or config.needs_order
    causal = all(not np.triu(string.pattern, 1).any() for string in seen) and ordered
    labels = {"layer": layers, "head": range(seen[0].pattern.shape[1])}
    habit, chance = mean_habits(seen, causal) if ordered else ({}, {})
    kept, units = _kept(seen), "rows" if config is None else "strings"
    left_out = len(seen) - len(kept)
    notes = {
        f"of {len(seen)} {units} the first {len(kept)} are shown one by one": left_out,
        "this model has no positions, so there are no averages by position": not ordered,
    }
    return PatternsResult(
        not_applicable=that_hold(notes),
        n_layers=model.cfg.n_layers,
        rows=len(seen),
        strings=tuple(_rounded(string, labels) for string in kept),
        by_token=_by_token(seen, labels),
        by_position=_by_position(seen, labels) if ordered else None,
        focus=LabeledArray.of(mean_focus(seen, causal), **labels),
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
    name = run.config.named(run.rows[row]) if run.config else run.rows[row]
    return StringAttention(name, tuple(called), copies[kept], reads, pattern)


def _kept(seen: Sequence[StringAttention]) -> Sequence[StringAttention]:
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


def _rounded(string: StringAttention, labels: dict[str, Any]) -> StringPattern:
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


# -- habits: the mean weight on places of each kind ------------------------------------------------


def _same(tokens: Sequence[str]) -> Places:
    kinds = np.array(tokens, dtype=object)
    return np.asarray(kinds[:, None] == kinds[None, :], dtype=bool)


def _after_same(tokens: Sequence[str]) -> Places:
    """`[query key]`: the place before the key has the query's token, and comes before the query."""
    places = np.zeros((len(tokens), len(tokens)), dtype=bool)
    places[:, 1:] = (_same(tokens) & np.tri(len(tokens), k=-1, dtype=bool))[:, :-1]
    return places


PLACES: dict[str, Callable[[Sequence[str]], Places]] = {
    "itself": lambda tokens: np.eye(len(tokens), dtype=bool),
    "previous": lambda tokens: np.eye(len(tokens), k=-1, dtype=bool),
    "first": lambda tokens: np.arange(len(tokens))[None, :].repeat(len(tokens), 0) == 0,
    "same": lambda tokens: _same(tokens) & ~np.eye(len(tokens), dtype=bool),
    "after same": _after_same,
    "mirror": lambda tokens: np.eye(len(tokens), dtype=bool)[::-1],
}


def mean_habits(seen: Sequence[Any], causal: bool) -> tuple[dict[str, Floats], dict[str, float]]:
    """Of each habit `[layer head]`, the mean weight; and the mean of equal weights."""
    weights, chance = {}, {}
    for name, places in PLACES.items():
        total, even, count = np.zeros(seen[0].pattern.shape[:2]), 0.0, 0
        for string in seen:
            visible = visibility(string, causal)
            there = places(string.tokens) & visible
            asked = there.any(1) & (visible.sum(1) > 1)
            if name == "first":
                asked[0] = False  # at the start, the first is itself
            total += (string.pattern * there)[:, :, asked].sum((-1, -2))
            even += float((there[asked].sum(1) / visible[asked].sum(1)).sum())
            count += int(asked.sum())
        weights[name] = total / max(count, 1)
        chance[name] = even / max(count, 1)
    return weights, chance


def mean_focus(seen: Sequence[Any], causal: bool) -> Floats:
    """`[layer head]`: the mean total variation distance from equal weights on what is visible."""
    total, count = np.zeros(seen[0].pattern.shape[:2]), 0
    for string in seen:
        visible = visibility(string, causal)
        share = visible * string.copies
        share = share / np.maximum(share.sum(1, keepdims=True), 1e-300)
        asked = visible.sum(1) > 1
        total += 0.5 * np.abs(string.pattern - share)[:, :, asked].sum((-1, -2))
        count += int(asked.sum())
    return np.asarray(total / max(count, 1))


def visibility(string: Any, causal: bool) -> Places:
    """`[query key]`."""
    size = len(string.tokens)
    visible = np.broadcast_to(string.copies > 0, (size, size))
    return visible & np.tri(size, dtype=bool) if causal else visible
