"""What the specialization probe found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.probes.specialization.result import SpecializationResult, Unread
from tsc_interp.probes.standing_out import against_chance, heads_to_tell
from tsc_interp.probes.wording import capital, grouped, joined, write_share
from tsc_interp.results.base import Cell, Finding, Severity

MOST_HEADS = 4
ALIKE = 0.9
"""Two heads whose attention overlaps by more than this read the same."""


def findings(result: SpecializationResult) -> tuple[Finding, ...]:
    if result.needs is None:
        return (against_chance(result), *_heads(result), *_alike(result, range(len(result.reads))))
    statements = []
    for i in range(len(result.reads)):
        statements += _who_reads_what(result, i)
        statements += _alike(result, [i])
    if needs := result.needs_among(result.attention.labels["letter"]):
        statements += _signs(result, needs)
        # Where a letter's scores depend on its place, who reads it is known on average only.
        statements += _unread(result, needs) if result.lead is None else []
    return tuple(statements)


def _heads(result: SpecializationResult) -> list[Finding]:
    """One sentence for each head of a model without a task that can be spoken of."""
    statements = []
    labels = result.attention.labels
    for i, h in heads_to_tell(result):
        shares, read = result.attention.array[i, h], result.reads[i][h]
        second = labels["letter"][int(np.argsort(-shares, kind="stable")[1])]
        assert result.lead is not None
        lead = float(result.lead.array[i, h])
        text = (
            f"{capital(result.head_name(labels['layer'][i], h))} reads `{read}`, which would get "
            f"{write_share(float(shares.max()))} of its weight if each token compared occurred "
            f"once; `{second}` comes next, {lead:.2f} behind in score."
        )
        statements.append(Finding.of(text, {"share": float(shares.max()), "lead": lead}))
    return statements


def _alike(result: SpecializationResult, layers: Sequence[int]) -> list[Finding]:
    """The two heads of one layer that attend most alike, among those that can be spoken of."""
    overlap = result.overlap.array
    pairs = [
        (i, h, g)
        for i in layers
        for h, g in np.ndindex(overlap.shape[1:])
        if h < g and overlap[i, h, g] > ALIKE
        and (result.needs is not None or (result.stands_out(i, h) and result.stands_out(i, g)))
    ]  # fmt: skip
    if not pairs:
        return []
    i, h, g = max(pairs, key=lambda pair: float(overlap[pair]))
    share = float(overlap[i, h, g])
    text = (
        f"{_layer(result, i)}heads {h} and {g} attend alike: they share {write_share(share)} of "
        f"their attention, and what they write has cosine {result.writing.array[i, h, g]:+.2f}"
    )
    text += f"; {len(pairs)} pairs of heads overlap by {ALIKE:.0%}." if len(pairs) > 1 else "."
    # With more heads than letters some have to agree.
    needless = result.needs is not None and overlap.shape[1] <= result.attention.shape[2]
    numbers = {"overlap": share, "pairs": len(pairs)}
    return [Finding.of(capital(text), numbers, "warning" if needless else "note")]


def _who_reads_what(result: SpecializationResult, i: int) -> list[Finding]:
    heads = [h for h in range(len(result.reads[i])) if result.stands_out(i, h)]
    if not heads:
        return []
    parts: list[str] = []
    for same in grouped(heads, lambda h: result.reads[i][h]):
        letter = result.reads[i][same[0]]
        t = result.attention.labels["letter"].index(letter)
        least = min(float(result.attention.array[i, h, t]) for h in same)
        share = "at least " * (len(same) > 1) + write_share(least)
        meaning = "" if parts else " of its weight when every letter occurs once"
        read = "s" * (len(same) > 1) + f" {joined([str(h) for h in same])} "
        read += {1: "reads", 2: "both read"}.get(len(same), "read")
        parts.append(f"head{read} `{letter}` ({share}{meaning})")
    text = capital(f"{_layer(result, i)}{'; '.join(parts)}.")
    return [Finding.of(text, {f"head {h}": letter for h, letter in enumerate(result.reads[i])})]


def _signs(result: SpecializationResult, needs: str) -> list[Finding]:
    """For a few heads of size one: do the letters the task names get values of opposite sign?"""
    if result.values is None:
        return []
    heads = result.values.labels["head"]
    if result.values.shape[-1] != 1 or len(heads) > MOST_HEADS or len(needs) != 2:
        return []
    named = [result.values.labels["letter"].index(letter) for letter in needs]
    pairs = result.values.array[0][:, named, 0]
    opposite = pairs[:, 0] * pairs[:, 1] < 0
    which = {len(heads): "Every head gives", 0: "No head gives"}.get(
        int(opposite.sum()), "Not every head gives"
    )
    values = "; ".join(f"head {h} {a:.4f} and {b:.4f}" for h, (a, b) in enumerate(pairs.tolist()))
    text = f"{which} `{needs[0]}` and `{needs[1]}` values of opposite sign: {values}."
    return [Finding.of(text, {"opposite": int(opposite.sum())})]


def _unread(result: SpecializationResult, needs: str) -> list[Finding]:
    if not result.unread:
        text = f"Every letter the task names ({', '.join(needs)}) has a head that reads it."
        return [Finding.of(text, severity="good")]
    readable = " and ".join(f"`{letter}`" for letter in sorted(set(result.reads[0])))
    count = len(result.reads[0])
    every = {1: "its one head reads", 2: "both heads read"}.get(count, f"all {count} heads read")
    heads = every if len(set(result.reads[0])) == 1 else f"its {count} heads read"
    return [_effect_of_not_reading(unread, f"{heads} {readable}") for unread in result.unread]


def _effect_of_not_reading(unread: Unread, instead: str) -> Finding:
    if not unread.logits:
        return Finding.of(
            f"No head reads `{unread.letter}`; {instead}.",
            severity="warning",
            letter=unread.letter,
        )
    with_it, without_it = unread.logits
    numbers: dict[str, Cell] = {unread.with_it: with_it, unread.without_it: without_it}
    pair = (
        f"`{unread.with_it}` has logit {with_it:+.4f} and `{unread.without_it}` {without_it:+.4f}"
    )
    turns = (with_it > 0) != (without_it > 0)
    effect = ", and whether it is there does not change the answer"
    text = (
        f"No head reads `{unread.letter}` ({instead})"
        f"{', yet the answer depends on it' if turns else effect}: {pair}."
    )
    severity: Severity = "warning" if turns else "failure"
    return Finding.of(text, numbers, severity, letter=unread.letter)


def _layer(result: SpecializationResult, i: int) -> str:
    return "" if result.n_layers == 1 else f"layer {result.attention.labels['layer'][i]}: "
