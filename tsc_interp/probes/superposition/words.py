"""What the superposition probe found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tsc_interp.probes.superposition.result import Imitation, SuperpositionResult
from tsc_interp.probes.wording import (
    capital,
    grouped,
    n_letters,
    write_mixture,
    write_strings,
    write_vector,
)
from tsc_interp.results.base import Cell, Finding

CLOSE = 0.25
"""A letter can be mistaken when the others come within this fraction of the values' range."""
MOST_STRINGS = 4


def findings(result: SuperpositionResult) -> tuple[Finding, ...]:
    if len(_letters(result)) < 2:
        text = f"One {result.unit} alone cannot be mistaken for another."
        return (Finding.of(text),)
    if result.needs is None:
        return _without_a_task(result)
    statements = [
        finding
        for i in range(len(result.reads))
        for finding in (*_heads(result, i), *_joint(result, i))
    ]
    shortest_first = sorted(result.imitations, key=lambda imitation: n_letters(imitation.string))
    by_cause = grouped(
        shortest_first, lambda imitation: (imitation.head, imitation.missing, imitation.by)
    )
    statements += [_imitation(result, result.needs, *same) for same in by_cause]
    if others := result.other_false_positives:
        text = (
            f"No letter is mistaken for another in the false positive {write_strings(others)}: "
            "no head's value moves towards that of a missing letter."
        )
        statements.append(Finding.of(text, {"strings": len(others)}))
    return tuple(statements)


def _letters(result: SuperpositionResult) -> tuple[str, ...]:
    return result.hull_distance.labels["letter"]


def _without_a_task(result: SuperpositionResult) -> tuple[Finding, ...]:
    """Against shuffled heads: whose token is nearer to a mixture of the others, whose farther?"""
    chance = result.chance_distance or (0.0,)
    low, high = min(chance), max(chance)
    places = [
        (i, h, _letters(result).index(letter))
        for i, heads in enumerate(result.reads)
        for h, letter in enumerate(heads)
        if result.stands_out(i, h)
    ]
    relative = {at: float(result.relative[at]) for at in places}
    near = sorted((at for at in places if relative[at] < low), key=lambda at: relative[at])
    far = sum(distance > high for distance in relative.values())
    total = result.lead.array.size if result.lead is not None else 0
    expected = len(places) / (len(chance) + 1)
    if not places:
        text = (
            f"None of {total} heads reads one token clearly (see specialization), so none can "
            "mistake another for it."
        )
        return (Finding.of(text, {"heads": total}),)
    text = (
        f"{len(places)} of {total} heads read a token clearly. In {len(near)} of them a mixture of "
        f"other tokens comes closer to that token's value than in any of {len(chance)} heads with "
        f"shuffled weights, and in {far} of them less close (about {expected:.1f} of each by "
        f"chance). In shuffled heads the closest mixture is {low:.0%} to {high:.0%} of the values' "
        "range away."
    )
    summary = Finding.of(text, {"near": len(near), "far": far, "heads": len(places)})
    return (summary, *(_near(result, at) for at in near[:MOST_STRINGS]))


def _near(result: SuperpositionResult, at: tuple[int, int, int]) -> Finding:
    i, h, t = at
    relative, letter = float(result.relative[at]), _letters(result)[t]
    text = (
        f"{capital(_name(result, i, h))} reads `{letter}`, and others can be mistaken for it: "
        f"{write_mixture(result.mixture.array[at], _letters(result))} comes within "
        f"{relative:.0%} of the values' range."
    )
    return Finding.of(text, {"relative": relative})


def _name(result: SuperpositionResult, i: int, h: int) -> str:
    return result.head_name(result.hull_distance.labels["layer"][i], h)


def _heads(result: SuperpositionResult, i: int) -> list[Finding]:
    """For the letter each head scores highest: can the others be mistaken for it?"""
    statements, safe = [], []
    for h, letter in enumerate(result.reads[i]):
        if not result.stands_out(i, h):
            continue
        t = _letters(result).index(letter)
        if result.relative[i, h, t] <= CLOSE:
            statements.append(_imitated(result, (i, h, t)))
        else:
            safe.append((h, t))
    return statements + ([_safe(result, i, safe)] if safe else [])


def _imitated(result: SuperpositionResult, at: tuple[int, int, int]) -> Finding:
    i, h, t = at
    letters = _letters(result)
    letter = letters[t]
    distance, relative = float(result.hull_distance.array[at]), float(result.relative[at])
    mixture = result.mixture.array[at]
    near = "equal to" if distance < 1e-9 else f"within {distance:.4f} of"
    name = capital(_name(result, i, h))
    text = f"{name} reads `{letter}`, and other letters can be mistaken for it: "
    numbers: dict[str, Cell] = {"distance": distance, "relative": relative}
    mixed = write_mixture(mixture, letters)
    if result.values is None:
        text += f"{mixed} comes {near} `{letter}`'s value ({relative:.0%} of the range)."
        return Finding.of(text, numbers)
    values = result.values.array[i, h]
    text += (
        f"{mixed} gives {write_vector(mixture @ values)}, "
        f"{near} `{letter}`'s value {write_vector(values[t])} ({relative:.0%} of the range)"
    )
    return Finding.of(text + _same_sign(values, t, letters), numbers)


def _same_sign(values: NDArray[np.float64], t: int, letters: Sequence[str]) -> str:
    """For heads of size one: who is on the letter's side of zero."""
    if values.shape[1] != 1:
        return "."
    side = np.sign(values[:, 0])
    same = [
        f"`{letter}` ({values[other, 0]:.4f})"
        for other, letter in enumerate(letters)
        if other != t and side[other] == side[t]
    ]
    return f"; of the same sign: {', '.join(same)}." if same else "; no other has its sign."


def _safe(result: SuperpositionResult, i: int, heads: Sequence[tuple[int, int]]) -> Finding:
    nearest = min(float(result.relative[i, h, t]) for h, t in heads)
    if len(heads) > 3:
        names = f"the letter that {len(heads)} of {len(result.reads[i])} heads read"
    else:
        names = " or ".join(f"`{_letters(result)[t]}` in {_name(result, i, h)}" for h, t in heads)
    text = (
        f"No mixture of other letters can be mistaken for {names}: all stay at least "
        f"{nearest:.0%} of the values' range away."
    )
    return Finding.of(text, {"nearest": nearest}, "good")


def _joint(result: SuperpositionResult, i: int) -> list[Finding]:
    """Over all heads at once, for the letters the task names."""
    letters = _letters(result)
    candidates = [t for t, letter in enumerate(letters) if letter in (result.needs or "")]
    if not candidates:
        return []
    t = min(candidates, key=lambda t: float(result.relative[i, -1, t]))
    letter, relative = letters[t], float(result.relative[i, -1, t])
    mixture = write_mixture(result.mixture.array[i, -1, t], letters)
    layer = "" if result.n_layers == 1 else f"Layer {result.hull_distance.labels['layer'][i]}: "
    text = (
        f"{layer}No mixture of other letters can be mistaken for a letter the task needs in all "
        f"heads at once: the closest, to `{letter}`, is {relative:.0%} of the values' range away."
    )
    if relative <= CLOSE:
        text = (
            f"{layer}Other letters can be mistaken for `{letter}` in all heads at once: "
            f"{mixture} comes within {relative:.0%} of the values' range."
        )
    return [Finding.of(text, {"relative": relative}, "warning" if relative <= CLOSE else "good")]


def _imitation(
    result: SuperpositionResult, needs: str, first: Imitation, *others: Imitation
) -> Finding:
    assert result.values is not None
    assert result.string_values is not None
    values, letters = result.values.array[0, first.head], _letters(result)
    own, target = (write_vector(values[letters.index(t)]) for t in (first.by, first.missing))
    layer = result.values.labels["layer"][0]
    output = result.string_values.at(layer=layer, string=first.string, head=first.head)
    text = (
        f"`{first.string}` (logit {first.logit:+.4f}) is a false positive: it has no "
        f"`{first.missing}`, but `{first.by}` is mistaken for it. "
        f"{capital(_name(result, 0, first.head))} gives `{first.by}` {first.weight:.0%} of its "
        f"weight, with a value of {own} where "
        f"`{first.missing}` has {target}; its output {write_vector(output)} reads as "
        f"{write_mixture(first.reads_as, needs)}."
    )
    if others:
        text += f" The same happens in {write_strings([other.string for other in others])}."
    share = first.reads_as[needs.index(first.missing)]
    return Finding.of(
        text,
        {"logit": first.logit, "head": first.head, "share": share},
        "failure",
        string=(first.string, *(other.string for other in others)),
        head=first.head,
        letter=first.missing,
    )
