"""What the specialization probe found, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tsc_interp.probes.base import Cell, Finding
from tsc_interp.probes.reading import Reading
from tsc_interp.probes.running import classifier_config
from tsc_interp.probes.wording import capital, write_share

if TYPE_CHECKING:
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.probes.specialization import SpecializationResult

MOST_HEADS = 4
ALIKE = 0.9
"""Two heads whose attention overlaps by more than this read the same."""


def findings(model: Any, reading: Reading, result: SpecializationResult) -> tuple[Finding, ...]:
    found = []
    for i in range(len(reading.layers)):
        found.append(_who_reads_what(reading, result, i))
        found += _repeats(reading, result, i)
    config = classifier_config(model)
    if config is not None and reading.n_layers == 1:
        found += _signs(config, result)
        found += _unread(model, config, result)
    return tuple(found)


def _who_reads_what(reading: Reading, result: SpecializationResult, i: int) -> Finding:
    readers: dict[str, list[int]] = {}
    for h, letter in enumerate(result.reads[i]):
        readers.setdefault(letter, []).append(h)
    parts = []
    for letter, heads in readers.items():
        t = reading.tokens.index(letter)
        least = min(float(result.attention.array[i, h, t]) for h in heads)
        share = "at least " * (len(heads) > 1) + write_share(least)
        parts.append(f"{_who_reads(heads)} `{letter}` ({share})")
    layer = "" if reading.n_layers == 1 else f"layer {result.attention.labels['layer'][i]}: "
    text = capital(f"{layer}{'; '.join(parts)}.")
    numbers: dict[str, Cell] = {f"head {h}": letter for h, letter in enumerate(result.reads[i])}
    explained = " In brackets: its weight when every letter occurs once."
    return Finding(severity="note", text=text + explained, numbers=numbers)


def _repeats(reading: Reading, result: SpecializationResult, i: int) -> list[Finding]:
    overlap, writing = result.overlap.array[i], result.writing.array[i]
    pairs = [(h, g) for h, g in np.ndindex(overlap.shape) if h < g and overlap[h, g] > ALIKE]
    if not pairs:
        return []
    h, g = max(pairs, key=lambda pair: float(overlap[pair]))
    layer = "" if reading.n_layers == 1 else f"layer {result.attention.labels['layer'][i]}: "
    text = (
        f"{layer}heads {h} and {g} attend alike: they share {write_share(float(overlap[h, g]))} of "
        f"their attention, and what they write has cosine {writing[h, g]:+.2f}"
    )
    text += f"; {len(pairs)} pairs of heads overlap by {ALIKE:.0%}." if len(pairs) > 1 else "."
    numbers: dict[str, Cell] = {"overlap": float(overlap[h, g]), "pairs": len(pairs)}
    if len(reading.heads) > len(reading.tokens):  # then some heads have to agree
        return [Finding(severity="note", text=capital(text), numbers=numbers)]
    return [Finding(severity="warning", text=capital(text), numbers=numbers)]


def _signs(config: ClassifierConfig, result: SpecializationResult) -> list[Finding]:
    """For a few heads of size one: do the letters the task names get values of opposite sign?"""
    heads, needs = result.values.labels["head"], config.task.needs
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
    return [Finding(severity="note", text=text, numbers={"opposite": int(opposite.sum())})]


def _unread(model: Any, config: ClassifierConfig, result: SpecializationResult) -> list[Finding]:
    """Letters the task names that no head reads, and what that does to a string without them."""
    needs = config.task.needs
    unread = [letter for letter in needs if letter not in result.reads[0]]
    if not unread:
        text = f"Every letter the task names ({', '.join(needs)}) has a head that reads it."
        return [Finding(severity="good", text=text)]
    readable = " and ".join(f"`{letter}`" for letter in sorted(set(result.reads[0])))
    count = len(result.reads[0])
    heads = {1: "its one head reads", 2: "both heads read"}.get(count, f"all {count} heads read")
    return [
        _effect_of_not_reading(model, needs, letter, f"{heads} {readable}") for letter in unread
    ]


def _effect_of_not_reading(model: Any, needs: str, letter: str, instead: str) -> Finding:
    without = needs.replace(letter, "")
    if not without:
        return Finding(severity="warning", text=f"No head reads `{letter}`; {instead}.")
    logits = [float(logit) for logit in model([needs, without]).detach()]
    numbers: dict[str, Cell] = {needs: logits[0], without: logits[1]}
    pair = f"`{needs}` has logit {logits[0]:+.4f} and `{without}` {logits[1]:+.4f}"
    if (logits[0] > 0) != (logits[1] > 0):
        text = f"No head reads `{letter}` ({instead}), yet the logit still tells: {pair}."
        return Finding(severity="warning", text=text, numbers=numbers)
    text = (
        f"No head reads `{letter}` ({instead}), so the model does not see whether it is there: "
        f"{pair}."
    )
    return Finding(severity="failure", text=text, numbers=numbers)


def _who_reads(heads: list[int]) -> str:
    if len(heads) == 1:
        return f"head {heads[0]} reads"
    names = f"heads {', '.join(map(str, heads[:-1]))} and {heads[-1]}"
    return f"{names} both read" if len(heads) == 2 else f"{names} read"
