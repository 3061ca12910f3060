"""What the margin probe found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.probes.margin.result import EVERY, Family, LostLetter, MarginResult, Prediction
from tsc_interp.probes.standing_out import against_chance, heads_to_tell
from tsc_interp.probes.wording import capital, write_share, write_strings
from tsc_interp.results.base import Cell, Finding, Severity
from tsc_interp.source_report import TEST_LENGTH

MOST_HEADS = 4
MOST_STRINGS = 3
ALIKE = 0.01
"""Scores closer than this get weights within 1 % of each other, which is no preference."""


def findings(result: MarginResult) -> tuple[Finding, ...]:
    if result.needs is None:
        told = [_head(result, i, h) for i, h in heads_to_tell(result)]
        return (against_chance(result), *told)
    found = [
        _head(result, i, h)
        for i in range(len(result.reads))
        for h in _heads_worth_naming(result, i)
    ]
    found += [_lost_letter(result, lost) for lost in result.lost[:MOST_STRINGS]]
    found += [_flip(family) for family in result.families if family.first_error is not None]
    found += [] if result.foretold is None else [_prediction(result.foretold)]
    right = [family for family in result.families if family.first_error is None]
    if right:
        found.append(_always_right(right))
    return tuple(found)


def _heads_worth_naming(result: MarginResult, i: int) -> list[int]:
    """All heads, or of many the one with the largest margin for each letter read.

    A head whose margin is smaller than what one letter's scores differ by is not named.
    """
    heads = [h for h in range(len(result.reads[i])) if result.stands_out(i, h)]
    if len(heads) <= MOST_HEADS:
        return heads
    ahead = np.sort(result.margins.array[i], axis=1)[:, 1]
    best = {
        letter: max((h for h in heads if result.reads[i][h] == letter), key=lambda h: ahead[h])
        for letter in (result.reads[i][h] for h in heads)
    }
    return sorted(best.values())


def _head(result: MarginResult, i: int, h: int) -> Finding:
    labels, target = result.scores.labels, result.reads[i][h]
    letters, name = labels["letter"], capital(result.head_name(labels["layer"][i], h))
    margins, half = result.margins.array[i, h], result.half_weight.array[i, h]
    order = sorted(
        (t for t, letter in enumerate(letters) if letter != target), key=lambda t: margins[t]
    )
    if not order:
        return Finding(severity="note", text=f"{name} has one {result.unit} to read.")
    alike = [letters[t] for t in order if margins[t] < ALIKE]
    if len(alike) == len(order):
        text = (
            f"{name} attends to all of them alike: no {result.unit}'s score is more than "
            f"{margins.max():.1g} below the highest."
        )
        return Finding(severity="note", text=text, numbers={"largest margin": float(margins.max())})
    order = order[len(alike) :]
    shown = [f"{margins[t]:.4f} over `{letters[t]}` ({_halves(half[t])}" for t in order[:3]]
    shown[0] += f" of them per `{target}` halve its weight" if np.isfinite(half[order[0]]) else ""
    both = f" and {write_strings(alike)} alike" if alike else ""
    text = f"{name} reads `{target}`{both}, with a margin of {'), '.join(shown)})."
    numbers: dict[str, Cell] = {letters[t]: float(margins[t]) for t in order[:3]}
    return Finding(severity="note", text=text, numbers=numbers)


def _halves(count: float) -> str:
    if count == float("inf"):
        return "never outweighed"
    return f"{count:.1f}" if count < 100 else f"{count:,.0f}" if count < 1e9 else f"{count:.1e}"


def _flip(family: Family) -> Finding:
    n = family.first_error
    assert n is not None
    numbers: dict[str, Cell] = {"first error": n, "predicted": family.predicted}
    severity: Severity = "failure" if n <= TEST_LENGTH else "warning" if n <= EVERY else "note"
    if n == 1:
        text = f"`{family.name}` is wrong from the start: `{family.string(1)}` {family.start:+.4f}."
        return Finding(severity=severity, text=text, numbers=numbers)
    text = f"`{family.name}` goes wrong at n = {n:,}"
    if family.predicted is not None:
        text += f" (predicted from scores and values: {family.predicted:,})"
    if not family.exact:
        text += f"; beyond {EVERY:,} searched in steps of 1%"
    return Finding(severity=severity, text=text + ".", numbers=numbers)


def _prediction(known: Prediction) -> Finding:
    """ "Horizon from margins, values and read-out: predicted 1,948, exact 2,166"."""
    numbers: dict[str, Cell] = {
        "predicted": known.predicted_length and known.predicted_length - 1,
        "exact": known.exact_length and known.exact_length - 1,
    }
    said = (
        "predicted none to be wrong"
        if known.predicted_length is None
        else f"predicted {known.predicted_length - 1:,} (first error `{known.predicted}`)"
    )
    is_so = (
        f"exact: no error up to {known.searched:,} letters"
        if known.exact_length is None
        else f"exact {known.exact_length - 1:,} (`{known.exact}`)"
    )
    text = f"Horizon from margins, values and read-out: {said}, {is_so}."
    return Finding(severity="note", text=text, numbers=numbers)


def _always_right(families: Sequence[Family]) -> Finding:
    cap = min(family.cap for family in families)
    how = f"every n up to {min(EVERY, cap):,}" + ", then in steps of 1%" * (cap > EVERY)
    names = write_strings([family.name for family in families])
    text = f"Right for n up to {cap:,}, evaluated at {how}: {names}."
    return Finding(severity="good", text=text, numbers={"cap": cap})


def _lost_letter(result: MarginResult, lost: LostLetter) -> Finding:
    start = f"`{lost.string}` (logit {lost.logit:+.4f}) is a false negative"
    if lost.head is None or lost.kept is None or lost.rival is None:
        return Finding(severity="failure", text=f"{start}; no head reads its letters.")
    layer, target, rival = result.scores.labels["layer"][0], result.reads[0][lost.head], lost.rival
    margin, half = (
        float(array.at(layer=layer, head=lost.head, letter=rival))
        for array in (result.margins, result.half_weight)
    )
    text = (
        f"{start}: {result.head_name(layer, lost.head)} keeps {write_share(lost.kept)} "
        f"of its weight on `{target}`, because the margin of `{target}` over `{rival}` is "
        f"{margin:.4f} ({_halves(half)} `{rival}` per `{target}` halve the weight)."
    )
    numbers: dict[str, Cell] = {"logit": lost.logit, "kept": lost.kept, "margin": margin}
    if lost.reduced is not None:
        logit = lost.reduced.logit
        numbers["without"] = logit
        left_out = ", ".join(f"`{letter}`" for letter in lost.reduced.left_out)
        matter = "still wrong, so they do not matter" if logit <= 0 else "right, so they do matter"
        text += f" Without {left_out} it is `{lost.reduced.string}` {logit:+.4f}: {matter}."
    return Finding(severity="failure", text=text, numbers=numbers)
