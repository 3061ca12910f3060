"""Screen one of a TransformerLens model's page: patterns, one answer taken apart, needed heads.

Made from what the report holds: no model is run here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tsc_interp.plots.colours import MUTED
from tsc_interp.probes.ablation.result import AblationResult, Answers
from tsc_interp.probes.attribution.result import AttributionResult
from tsc_interp.probes.patterns.figures import view
from tsc_interp.probes.patterns.result import HABITS, PatternsResult
from tsc_interp.report.dissection import Bar, Head, Share, bars, largest
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.outside_card import OutsideCard

MOST_HEADS = 4
MOST_SHARES = 6


@dataclass(frozen=True)
class RowApart:
    """One row, from the positions that get the weight to the answer."""

    name: str
    position: int
    what: str
    """What the parts add up to, such as `7 over 3`."""
    heads: tuple[Head, ...]
    parts: tuple[Bar, ...]
    zero: float
    readout: float


@dataclass(frozen=True)
class Rate:
    """How often something happens: answers that change without a head, or wrong ones of a kind."""

    name: str
    percent: float
    counted: str
    """The number, and of how many."""
    remark: str = ""


@dataclass(frozen=True)
class OutsideFront:
    attention: Markup | None
    row: RowApart | None
    needed: tuple[Rate, ...]
    """Heads, by the answers that change without them."""
    rows: int
    confirmed: str
    rates: tuple[Rate, ...] = ()
    """Wrong answers, by kind of input."""


def outside_front(model: ModelReport, card: OutsideCard) -> OutsideFront:
    told = model.result("attribution", AttributionResult)
    seen = model.result("patterns", PatternsResult)
    without = model.result("ablation", AblationResult)
    answers = None if without is None else without.answers
    row = None
    if told is not None:  # the wrong input that was found, or else the largest read-out in size
        wrong = card.tested is not None and 0 in card.asked.shown
        row = card.asked.shown.index(0) if wrong else int(np.abs(told.logits.array).argmax())
    return OutsideFront(
        attention=None if seen is None else Markup(view(seen, _first(seen, answers)).to_html()),
        row=None if told is None or row is None else _apart(card, told, seen, row),
        needed=() if answers is None else _needed(answers, seen),
        rows=0 if answers is None else answers.rows,
        confirmed="" if without is None or answers is None else _confirmed(without, answers),
        rates=() if card.tested is None else tuple(
            Rate(of, 100 * wrong / tried, f"{wrong:,} of {tried:,}")
            for of, wrong, tried in card.tested.rates
        ),
    )  # fmt: skip


def _first(seen: PatternsResult, answers: Answers | None) -> tuple[int, int] | None:
    """The head that is needed most is shown large."""
    if answers is None:
        return None
    part = answers.changed.labels["part"][answers.most_needed(heads=True)]
    return next(((i, h) for i, h, name in seen.heads if part == name), None)


def _apart(
    card: OutsideCard, told: AttributionResult, seen: PatternsResult | None, row: int
) -> RowApart:
    place = card.asked.rows.index(card.asked.shown[row])
    parts, zero = bars(largest(told, row))
    return RowApart(
        name=told.logits.labels["string"][row],
        position=card.asked.query[place],
        what=told.answers[row] if told.answers else "",
        heads=() if seen is None else _heads(seen, told, row),
        parts=parts,
        zero=zero,
        readout=float(told.logits.array[row]),
    )


def _heads(seen: PatternsResult, told: AttributionResult, row: int) -> tuple[Head, ...]:
    """Where the heads that add most look in this row, from the position that is read."""
    name = told.logits.labels["string"][row]
    one = next((string for string in seen.strings if string.name == name), None)
    if one is None:
        return ()
    groups, adds = list(told.by_group.labels["group"]), told.by_group.array[row]
    places = [f"{token} at {at}" for at, token in enumerate(one.tokens)]
    found = [
        Head(head, _shares(one.weights.array[i, h, one.reads], places),
             float(adds[groups.index(head)]))
        for i, h, head in seen.heads
        if head in groups
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda head: -abs(head.adds))[:MOST_HEADS])


def _shares(weights: np.ndarray, places: list[str]) -> tuple[Share, ...]:
    """The places with the most weight; what is left of the row is left blank."""
    order = np.argsort(-weights, kind="stable")[:MOST_SHARES]
    return tuple(
        Share(places[t], round(100 * float(weights[t]), 2), MUTED[place % len(MUTED)])
        for place, t in enumerate(order)
        if weights[t] > 0.0005
    )


# -- the heads that matter, and the test of it -----------------------------------------------------


def _needed(answers: Answers, seen: PatternsResult | None) -> tuple[Rate, ...]:
    """The heads without which most answers change, their mean put in their place."""
    parts = answers.changed.labels["part"]
    c = answers.changed.labels["change"].index("mean")
    heads = [p for p, part in enumerate(parts) if "head" in part]
    heads.sort(key=lambda p: (-answers.changed.array[c, p], answers.mean_effect.array[c, p]))
    needed = []
    for p in heads[:MOST_HEADS]:
        changed, effect = int(answers.changed.array[c, p]), float(answers.mean_effect.array[c, p])
        attends = "" if seen is None else _attends(seen, parts[p])
        remark = f"The answer's lead changes by {effect:+.2f} on average."
        remark += f" It {attends}." if attends else ""
        percent, counted = 100 * changed / answers.rows, f"{changed} of {answers.rows}"
        needed.append(Rate(parts[p], percent, counted, remark))
    return tuple(needed)


def _attends(seen: PatternsResult, head: str) -> str:
    """Its habit, or where it attends from the position that is read, on average."""
    for i, h, name in seen.heads:
        if name != head:
            continue
        if seen.uniform(i, h):
            return "attends to everything alike"
        habit = seen.habit(i, h)
        if habit is not None:
            return f"attends to {HABITS[habit[0]]} ({habit[1]:.0%} of its weight)"
        one = seen.strings[0]
        mean = seen.by_position.array[i, h, one.reads] if seen.by_position else None
        if mean is not None and mean.max() >= 0.3:
            place = int(mean.argmax())
            return f"attends to position {place} from where it is read ({mean.max():.0%})"
    return ""


def _confirmed(without: AblationResult, answers: Answers) -> str:
    """What replacing the head that is needed most does, to the first row it turns and to all."""
    labels = answers.after.labels
    c = labels["change"].index("mean")
    p = answers.most_needed(heads=True)
    if "head" not in labels["part"][p]:
        return ""
    count = int(answers.changed.array[c, p])
    name = labels["part"][p]
    text = f"With the output of {name} replaced by its mean over the rows, "
    turned = np.flatnonzero(answers.after.array[c, p] != answers.before.array)
    if not count or not len(turned):
        effect = float(answers.mean_effect.array[c, p])
        some = f"{count} of {answers.rows} answers change" if count else "no answer changes"
        return f"{text}{some}; the answer's lead changes by {effect:+.2f} on average."
    row = int(turned[0])
    lead = float(without.logits.array[row])
    after = lead + float(without.effects.array[c, p, row])
    said = [answers.names[str(int(x))] for x in
            (answers.before.array[row], answers.after.array[c, p, row])]  # fmt: skip
    return (
        f"{text}the answer to {labels['string'][row]} turns from {said[0]} to {said[1]} (its lead "
        f"from {lead:+.2f} to {after:+.2f}), and {count} of all {answers.rows} answers change."
    )
