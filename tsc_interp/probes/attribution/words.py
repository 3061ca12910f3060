"""What the attribution probe found, in sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsc_interp.probes.attribution.result import OUTSIDE, AttributionResult
from tsc_interp.results.base import Cell, Finding, LabeledArray, largest

MOST_STRINGS = 1
MOST_NAMED = 5


def findings(result: AttributionResult) -> tuple[Finding, ...]:
    strings = result.effects.labels["string"]
    count = len(result.groups)
    subject = "read-out at" if result.labels is None else "logit of"
    if result.answers:
        subject = "lead of the answer in"
    rows = "strings" if result.chance is None else "rows"
    text = (
        f"The {subject} each of the {len(strings)} {rows} is the sum of {count} parts, "
        f"to within {result.error:.1g}."
    )
    statements = [Finding.of(text, {"error": result.error, "parts": count}, "good")]
    if result.sources is not None:
        statements.append(_source(result, result.sources))
    if result.chance is not None:
        return (*statements, _beyond_chance(result, result.chance))
    if result.labels is None:
        against = np.flatnonzero(result.logits.array < 0)[: MOST_STRINGS * bool(result.answers)]
        size = np.abs(result.by_group.array).mean(0)
        name = result.by_group.labels["group"][int(size.argmax())]
        text = f"The largest effect is that of {name}: {size.max():.4f} in mean size."
        statements.append(Finding.of(text, {"mean size": float(size.max())}))
        return (*statements, *(_outvoted(result, int(row)) for row in against))
    statements += _separation(result)
    right = (result.logits.array > 0) == np.array(result.labels, dtype=bool)
    wrong = np.flatnonzero(~right)[:MOST_STRINGS]
    return (*statements, *(_wrong(result, int(row), right) for row in wrong))


def _source(result: AttributionResult, sources: LabeledArray) -> Finding:
    """The head and place that add most, on average over the strings."""
    mean = sources.array.mean(0)
    head, place = np.unravel_index(np.abs(mean).argmax(), mean.shape)
    size = float(mean[head, place])
    text = (
        f"The largest effect of one position is that of position "
        f"{sources.labels['position'][place]} through {sources.labels['head'][head]}: {size:+.4f} "
        "on average."
    )
    return Finding.of(text, {"mean effect": size})


def _outvoted(result: AttributionResult, row: int) -> Finding:
    """A string of which another class than the right one has the largest logit."""
    logit = float(result.logits.array[row])
    text = (
        f"`{_string(result, row)}` is wrong: the lead of class "
        f"{result.answers[row].replace(' over ', ' over class ')} is {logit:+.4f} = "
        f"{_sum(result, row)}."
    )
    return Finding.of(text, {"logit difference": logit}, "failure", string=_string(result, row))


def _beyond_chance(result: AttributionResult, chance: float) -> Finding:
    """Which heads and MLPs do more than any with shuffled weights."""
    size, groups = np.abs(result.by_group.array).mean(0), result.by_group.labels["group"]
    inside = [g for g, name in enumerate(groups) if name not in OUTSIDE]
    beyond = sorted((g for g in inside if size[g] > chance), key=lambda g: -float(size[g]))
    text = (
        f"{len(beyond) or 'None'} of {len(inside)} heads and MLPs "
        f"{'has' if len(beyond) < 2 else 'have'} a larger mean direct effect than any has with "
        f"shuffled weights ({chance:.4f})"
    )
    named = ", ".join(f"{groups[g]} {size[g]:.4f}" for g in beyond[:MOST_NAMED])
    more = ", ..." if len(beyond) > MOST_NAMED else ""
    numbers: dict[str, Cell] = {groups[g]: float(size[g]) for g in beyond[:MOST_NAMED]}
    text += f": {named}{more}." if beyond else "."
    return Finding.of(text, {"chance": chance, **numbers})


def _separation(result: AttributionResult) -> list[Finding]:
    """Which group tells positive from negative strings: the difference of its mean effects."""
    labels = np.array(result.labels, dtype=bool)
    if labels.all() or not labels.any():
        return []
    difference = result.by_group.array[labels].mean(0) - result.by_group.array[~labels].mean(0)
    groups = result.by_group.labels["group"]
    order = np.argsort(-np.abs(difference), kind="stable")[:3]
    parts = ", ".join(f"{groups[g]} {difference[g]:+.2f}" for g in order)
    rise = float(difference.sum())
    text = f"From negative to positive strings the mean logit changes by {rise:+.2f}: {parts}."
    return [Finding.of(text, {groups[g]: float(difference[g]) for g in order})]


def _wrong(result: AttributionResult, row: int, right: NDArray[np.bool_]) -> Finding:
    """The logit as a sum, and where it departs from strings of the same label that are right."""
    assert result.labels is not None
    label, logit = result.labels[row], float(result.logits.array[row])
    kind = "false negative" if label else "false positive"
    text = f"`{_string(result, row)}` is a {kind}: its logit {logit:+.4f} = {_sum(result, row)}."
    numbers: dict[str, Cell] = {"logit": logit}
    like = right & (np.array(result.labels) == label)
    if like.any():
        change = result.effects.array[row] - result.effects.array[like].mean(0)
        most = int((change if logit > 0 else -change).argmax())
        part = result.effects.labels["part"][most]
        text += (
            f" Compared with right strings of the same label, {part} changes it most "
            f"({change[most]:+.2f})."
        )
        numbers[part] = float(change[most])
    return Finding.of(text, numbers, "failure", string=_string(result, row))


def _string(result: AttributionResult, row: int) -> str:
    return result.effects.labels["string"][row]


def _sum(result: AttributionResult, row: int, most: int = 5) -> str:
    """`embedding -4.13, head 0 -1.83, ...`, the smallest of many left to "the rest"."""
    effects, groups = result.by_group.array[row], result.by_group.labels["group"]
    kept = largest(np.abs(effects), most)
    parts = [f"{groups[g]} {effects[g]:+.2f}" for g in kept]
    if len(groups) > most:
        parts.append(f"the rest {effects.sum() - effects[kept].sum():+.2f}")
    return ", ".join(parts)
