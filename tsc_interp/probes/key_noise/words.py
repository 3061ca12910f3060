"""What the key-noise probe found, in sentences."""

from __future__ import annotations

import numpy as np

from tsc_interp.probes.base import Cell, Finding
from tsc_interp.probes.key_noise.result import KeyNoiseResult
from tsc_interp.probes.wording import capital

MOST_HEADS = 4


def findings(result: KeyNoiseResult) -> tuple[Finding, ...]:
    found = []
    for a in range(len(result.flips.labels["along"])):
        most = result.flips.array[a].max(axis=(1, 2))
        order = np.argsort(-most, kind="stable")
        found += [_head(result, a, h) for h in sorted(order[:MOST_HEADS].tolist()) if most[h]]
        found += _idle(result, a, np.flatnonzero(most == 0).tolist())
    return (*found, _margins(result))


def _idle(result: KeyNoiseResult, a: int, heads: list[int]) -> list[Finding]:
    if not heads:
        return []
    every = len(result.flips.labels["head"])
    many = len(heads) > MOST_HEADS
    who = (
        f"{len(heads)} of {every} heads"
        if many
        else " and ".join(result.head_name("0", h) for h in heads)
    )
    text = (
        f"In {who} no answer changes when a key is {_how(result, a)}, up to {result.sizes[-1]:.0%}."
    )
    return [Finding(severity="good", text=text, numbers={"heads": len(heads)})]


def _how(result: KeyNoiseResult, a: int) -> str:
    turned = result.flips.labels["along"][a] == "direction"
    return "turned" if turned else "made longer or shorter"


def _head(result: KeyNoiseResult, a: int, h: int) -> Finding:
    labels, cells = result.flips.labels, result.flips.array[a, h]
    along, head = labels["along"][a], labels["head"][h]
    letter = int(cells.mean(axis=1).argmax())
    name, size = labels["letter"][letter], int(cells[letter].argmax())
    place = capital(result.head_name("0", h))
    how = _how(result, a)
    first = result.first_flip(along, head, name)
    text = (
        f"{place} depends most on the key of `{name}`: {how} by {result.sizes[size]:.0%}, "
        f"{cells[letter, size]:.1%} of the answers change "
        f"(in {result.possible.array[a, h, letter, size]:.1%} of the strings margins allow it); "
        f"the first change at {first:.0%}."
    )
    idle = [labels["letter"][t] for t in range(len(cells)) if not cells[t].any()]
    if idle:
        text += f" No size changes an answer through {', '.join(f'`{t}`' for t in idle)}."
    numbers: dict[str, Cell] = {"flips": float(cells[letter, size]), "first": first}
    return Finding(severity="note", text=text, numbers=numbers)


def _margins(result: KeyNoiseResult) -> Finding:
    """Whether margins saw the changes coming."""
    flips, possible = result.flips.array > 0, result.possible.array > 0
    missed, alarms = int((flips & ~possible).sum()), int((possible & ~flips).sum())
    text = (
        f"Of {flips.size} combinations of head, letter and size, answers change in "
        f"{int(flips.sum())}; margins allow it in {int((flips & possible).sum())} of these, and in "
        f"{alarms} where none changes (over {result.over}, {result.draws} draws each)."
    )
    if missed:
        text += (
            f" In {missed} answers change although nobody else takes the lead: they depend on how "
            "far ahead the leader is."
        )
    numbers: dict[str, Cell] = {"changed": int(flips.sum()), "unforeseen": missed, "alarms": alarms}
    return Finding(severity="note", text=text, numbers=numbers)
