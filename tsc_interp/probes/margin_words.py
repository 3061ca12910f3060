"""What the margin probe found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tsc_interp.probes.base import Cell, Finding, Severity
from tsc_interp.probes.families import EVERY, Family, logits_of
from tsc_interp.probes.reading import Reading
from tsc_interp.probes.running import classifier_config
from tsc_interp.probes.wording import capital, write_share, write_strings

if TYPE_CHECKING:
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.probes.margin import MarginResult

TESTED = 200
"""The longest strings of the report's test set: an error within it is there to be seen."""
MOST_HEADS = 4
MOST_STRINGS = 3


def findings(model: Any, reading: Reading, result: MarginResult) -> tuple[Finding, ...]:
    found = [
        _head(reading, result, i, h)
        for i in range(len(reading.layers))
        for h in _heads_worth_naming(result, i)
    ]
    config = classifier_config(model)
    if config is not None and config.n_layers == 1 and not config.has_positions:
        found += _false_negatives(model, config, reading, result)
    found += [_flip(family) for family in result.families if family.first_error is not None]
    right = [family for family in result.families if family.first_error is None]
    if right:
        found.append(_always_right(right))
    return tuple(found)


def _heads_worth_naming(result: MarginResult, i: int) -> list[int]:
    """All heads, or of many the one with the largest margin for each letter read."""
    heads = range(len(result.reads[i]))
    if len(heads) <= MOST_HEADS:
        return list(heads)
    ahead = np.sort(result.margins.array[i], axis=1)[:, 1]
    best = {
        letter: max((h for h in heads if result.reads[i][h] == letter), key=lambda h: ahead[h])
        for letter in result.reads[i]
    }
    return sorted(best.values())


def _head(reading: Reading, result: MarginResult, i: int, h: int) -> Finding:
    target, name = result.reads[i][h], reading.head_name(reading.layers[i], h)
    margins, half = result.margins.array[i, h], result.half_weight.array[i, h]
    order = sorted(
        (t for t, token in enumerate(reading.tokens) if token != target), key=lambda t: margins[t]
    )
    if not order:
        return Finding(severity="note", text=f"{capital(name)} has one letter to read.")
    shown = [f"{margins[t]:.4f} over `{reading.tokens[t]}` ({_halves(half[t])}" for t in order[:3]]
    shown[0] += f" of them per `{target}` halve its weight" if np.isfinite(half[order[0]]) else ""
    text = f"{capital(name)} reads `{target}`, with a margin of {'), '.join(shown)})."
    numbers: dict[str, Cell] = {reading.tokens[t]: float(margins[t]) for t in order[:3]}
    return Finding(severity="note", text=text, numbers=numbers)


def _halves(count: float) -> str:
    if count == float("inf"):
        return "never outnumbered"
    return f"{count:.1f}" if count < 100 else f"{count:,.0f}" if count < 1e9 else f"{count:.1e}"


def _flip(family: Family) -> Finding:
    n = family.first_error
    assert n is not None
    numbers: dict[str, Cell] = {"first error": n, "predicted": family.predicted}
    severity: Severity = "failure" if n <= TESTED else "warning" if n <= EVERY else "note"
    if n == 1:
        text = f"`{family.name}` is wrong from the start: `{family.string(1)}` {family.start:+.4f}."
        return Finding(severity=severity, text=text, numbers=numbers)
    text = f"`{family.name}` goes wrong at n = {n:,}"
    if family.predicted is not None:
        text += f" (predicted from scores and values: {family.predicted:,})"
    if not family.exact:
        text += f"; beyond {EVERY:,} searched in steps of 1%"
    return Finding(severity=severity, text=text + ".", numbers=numbers)


def _always_right(families: Sequence[Family]) -> Finding:
    cap = min(family.cap for family in families)
    how = f"every n up to {min(EVERY, cap):,}" + ", then in steps of 1%" * (cap > EVERY)
    names = write_strings([family.name for family in families])
    text = f"Right for n up to {cap:,}, evaluated at {how}: {names}."
    return Finding(severity="good", text=text, numbers={"cap": cap})


# -- strings ---------------------------------------------------------------------------------


def _false_negatives(
    model: Any, config: ClassifierConfig, reading: Reading, result: MarginResult
) -> list[Finding]:
    counts = config.alphabet.count_matrix(reading.rows)
    logits = logits_of(model, counts.astype(np.float64))
    labels = config.task.labels(counts)
    wrong = [row for row in range(len(counts)) if labels[row] and logits[row] <= 0]
    return [
        _lost_letter(model, config, reading, result, row, float(logits[row]))
        for row in wrong[:MOST_STRINGS]
    ]


def _lost_letter(
    model: Any, config: ClassifierConfig, reading: Reading, result: MarginResult, row: int,
    logit: float,
) -> Finding:  # fmt: skip
    """Of the heads whose letter is there, the one that keeps least of its weight on it."""
    layer, string = reading.layers[0], reading.rows[row]
    counts = config.alphabet.counts(string)
    start = f"`{string}` (logit {logit:+.4f}) is a false negative"
    numbers: dict[str, Cell] = {"logit": logit}
    heads = [h for h, letter in enumerate(result.reads[0]) if letter in config.task.needs]
    heads = [h for h in heads if counts[config.alphabet.index(result.reads[0][h])]]
    if not heads:
        return Finding(severity="failure", text=f"{start}; no head reads its letters.")
    kept = {h: float(layer.weights[row, h, layer.scores[h].argmax()]) for h in heads}
    h = min(kept, key=lambda head: kept[head])
    target = result.reads[0][h]
    taken = layer.weights[row, h].copy()
    taken[reading.tokens.index(target)] = 0
    rival = reading.tokens[int(taken.argmax())]
    margin = float(result.margins.at(layer=0, head=h, letter=rival))
    half = float(result.half_weight.at(layer=0, head=h, letter=rival))
    text = (
        f"{start}: {reading.head_name(layer, h)} keeps {write_share(kept[h])} of its weight on "
        f"`{target}`, because the margin of `{target}` over `{rival}` is {margin:.4f} "
        f"({_halves(half)} `{rival}` per `{target}` halve the weight)"
    )
    numbers |= {"kept": kept[h], "margin": margin}
    return Finding(
        severity="failure", text=text + _without(model, config, string, numbers), numbers=numbers
    )


def _without(model: Any, config: ClassifierConfig, string: str, numbers: dict[str, Cell]) -> str:
    """Whether the letters the label does not depend on matter: the logit without them."""
    counts = config.alphabet.counts(string)
    kept = np.array([letter in config.task.needs for letter in config.alphabet.letters])
    spare = [letter for letter, k, n in zip(config.alphabet.letters, kept, counts, strict=True)
             if n and not k]  # fmt: skip
    if not spare:
        return "."
    reduced = np.where(kept, counts, 0)
    if not config.task.labels(reduced):
        return "."
    logit = float(logits_of(model, reduced[None].astype(np.float64))[0])
    numbers["without"] = logit
    letters = ", ".join(f"`{letter}`" for letter in spare)
    verdict = "still wrong, so they do not matter" if logit <= 0 else "right, so they do matter"
    return f". Without {letters} it is `{config.alphabet.write(reduced)}` {logit:+.4f}: {verdict}."
