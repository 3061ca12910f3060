"""What the margin probe found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.probes.margin.result import EVERY, Family, LostLetter, MarginResult, Prediction
from tsc_interp.probes.standing_out import against_chance, heads_to_tell
from tsc_interp.probes.wording import (
    capital,
    grouped,
    n_letters,
    occurrences,
    write_share,
    write_strings,
)
from tsc_interp.results.base import Cell, Finding, Severity
from tsc_interp.source_report import TEST_LENGTH

MOST_HEADS = 4
ALIKE = 0.01
"""Scores closer than this get weights within 1 % of each other, which is no preference."""


def findings(result: MarginResult) -> tuple[Finding, ...]:
    if result.needs is None:
        heads = [_head(result, i, h) for i, h in heads_to_tell(result)]
        return (against_chance(result), *heads)
    statements = [
        _head(result, i, h)
        for i in range(len(result.reads))
        for h in _heads_worth_naming(result, i)
    ]
    shortest_first = sorted(result.lost, key=lambda lost: n_letters(lost.string))
    by_cause = grouped(shortest_first, lambda lost: (lost.head, lost.rival))
    statements += [_lost_letter(result, *same) for same in by_cause]
    flips = [family for family in result.families if family.first_error is not None]
    flips.sort(key=lambda family: family.first_error or 0)
    statements += [_flip(same) for same in grouped(flips, _severity)]
    if result.predicted is not None:
        statements.append(_prediction(result.predicted))
    if right := [family for family in result.families if family.first_error is None]:
        cap = min(family.cap for family in right)
        how = f"every n up to {min(EVERY, cap):,}" + ", then in steps of 1%" * (cap > EVERY)
        names = write_strings([family.name for family in right])
        text = f"Right for n up to {cap:,}, evaluated at {how}: {names}."
        statements.append(Finding.of(text, {"cap": cap}, "good"))
    return tuple(statements)


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
        return Finding.of(f"{name} has one {result.unit} to read.")
    alike = [letters[t] for t in order if margins[t] < ALIKE]
    if len(alike) == len(order):
        text = (
            f"{name} attends to all of them alike: no {result.unit}'s score is more than "
            f"{margins.max():.1g} below the highest."
        )
        return Finding.of(text, {"largest margin": float(margins.max())})
    order = order[len(alike) :]
    shown = [f"{margins[t]:.4f} over `{letters[t]}` ({_halves(half[t])}" for t in order[:3]]
    shown[0] += f" of them per `{target}` halve its weight" if np.isfinite(half[order[0]]) else ""
    both = f" and {write_strings(alike)} alike" if alike else ""
    text = f"{name} reads `{target}`{both}, with a margin of {'), '.join(shown)})."
    return Finding.of(text, {letters[t]: float(margins[t]) for t in order[:3]})


def _halves(count: float) -> str:
    if count == float("inf"):
        return "never outweighed"
    return f"{count:.1f}" if count < 100 else f"{count:,.0f}" if count < 1e9 else f"{count:.1e}"


def _severity(family: Family) -> Severity:
    n = family.first_error or 0
    return "failure" if n <= TEST_LENGTH else "warning" if n <= EVERY else "note"


def _flip(families: Sequence[Family]) -> Finding:
    """One sentence for a severity: "`ab{n}` goes wrong at n = 66, `bc{n}` at n = 70"."""
    numbers: dict[str, Cell] = {}
    clauses, right = [], 0
    for family in families:
        n = family.first_error or 0
        numbers |= {family.name: n, f"{family.name} predicted": family.predicted}
        if n == 1:
            clauses.append(f"`{family.name}` is wrong from n = 1 on (logit {family.start:+.4f})")
            continue
        # The verb once: what follows is a list.
        verb = "at" if any("goes wrong" in clause for clause in clauses) else "goes wrong at"
        off = f" (predicted: {family.predicted:,})" if family.predicted not in (None, n) else ""
        right += family.predicted == n
        clauses.append(f"`{family.name}` {verb} n = {n:,}{off}")
    text = ", ".join(clauses)
    if right:
        text += ", as scores and values predict" + " for the others" * (right < len(families))
    if not all(family.exact for family in families):
        text += f"; beyond {EVERY:,} searched in steps of 1%"
    names = tuple(family.name for family in families)
    return Finding.of(text + ".", numbers, _severity(families[0]), family=names)


def _prediction(known: Prediction) -> Finding:
    """The horizon by the closed formula beside the exact one."""
    predicted, exact = (
        length and length - 1 for length in (known.predicted_length, known.exact_length)
    )
    expected = "no error"
    if predicted is not None:
        expected = f"a horizon of {predicted:,} (first error `{known.predicted}`)"
    exact_result = f"the search finds no error up to {known.searched:,} letters"
    if exact is not None:
        exact_result = f"the exact horizon is {exact:,} (`{known.exact}`)"
    text = f"Margins, values and read-out predict {expected}; {exact_result}."
    return Finding.of(text, {"predicted": predicted, "exact": exact})


def _lost_letter(result: MarginResult, lost: LostLetter, *others: LostLetter) -> Finding:
    start = f"`{lost.string}` (logit {lost.logit:+.4f}) is a false negative"
    likewise = ""
    strings = (lost.string, *(other.string for other in others))
    if others:
        likewise = f" The same happens in {write_strings([other.string for other in others])}."
    if lost.head is None or lost.kept is None or lost.rival is None:
        text = f"{start}; no head reads its letters.{likewise}"
        return Finding.of(text, severity="failure", string=strings)
    layer, target, rival = result.scores.labels["layer"][0], result.reads[0][lost.head], lost.rival
    margin, half = (
        float(array.at(layer=layer, head=lost.head, letter=rival))
        for array in (result.margins, result.half_weight)
    )
    head, many = result.head_name(layer, lost.head), occurrences(lost.string)
    reads = f"{start}. {capital(head)} reads `{target}`: "
    if margin < ALIKE:
        text = f"{start}. {capital(head)} attends to `{target}` and `{rival}` alike"
    elif rival in many and np.isclose(half, np.exp(margin), rtol=1e-6):
        text = (
            f"{reads}one `{target}` outweighs one `{rival}` e^{margin:.4f} = {_halves(half)} "
            f"times, {'but' if many[rival] > half else 'and'} there "
            f"{'is one' if many[rival] == 1 else f'are {many[rival]:,}'} `{rival}`"
        ) + (f" and {many[target]:,} `{target}`" if many.get(target, 1) > 1 else "")
    else:
        text = (
            f"{reads}its margin over `{rival}` is {margin:.4f}, and {_halves(half)} `{rival}` per "
            f"`{target}` halve its weight"
        )
    text += f". So `{target}` keeps {write_share(lost.kept)} of the head's weight."
    numbers: dict[str, Cell] = {"logit": lost.logit, "kept": lost.kept, "margin": margin}
    if lost.reduced is not None:
        logit = lost.reduced.logit
        numbers["without"] = logit
        left_out = " and ".join(f"`{letter}`" for letter in lost.reduced.left_out)
        be = "are" if len(lost.reduced.left_out) > 1 else "is"
        right, no = ("right", "") if logit > 0 else ("still wrong", "not ")
        text += (
            f" Without {left_out}, `{lost.reduced.string}` is {right} (logit {logit:+.4f}), so "
            f"{left_out} {be} {no}the cause."
        )
    return Finding.of(
        text + likewise, numbers, "failure", string=strings, head=lost.head, letter=target
    )
