"""Screen one of a TransformerLens model's page: patterns, one answer taken apart, needed heads.

Made from what the report holds: no model is run here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tsc_interp.plots.colours import MUTED
from tsc_interp.probes.ablation import AblationResult, Answers
from tsc_interp.probes.attribution import AttributionResult
from tsc_interp.probes.patterns import HABITS, PatternsResult
from tsc_interp.report.card import ModelCard
from tsc_interp.report.dissection import Bar, Head, Share, bars, largest
from tsc_interp.report.model_report import ModelReport

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


def outside_front(model: ModelReport) -> OutsideFront:
    effects = model.result("attribution", AttributionResult)
    patterns = model.result("patterns", PatternsResult)
    ablation = model.result("ablation", AblationResult)
    answers = None if ablation is None else ablation.answers
    attention = None
    if patterns is not None:
        attention = Markup(patterns.view(_first(patterns, answers)).to_html())
    return OutsideFront(
        attention=attention,
        row=None if effects is None else _apart(model.card, effects, patterns),
        needed=() if answers is None else _needed(answers, patterns),
        rows=0 if answers is None else answers.rows,
        confirmed="" if ablation is None or answers is None else _confirmed(ablation, answers),
        rates=() if model.card.tested is None else tuple(
            Rate(of, 100 * wrong / tried, f"{wrong:,} of {tried:,}")
            for of, wrong, tried in model.card.tested.rates
        ),
    )  # fmt: skip


def _first(patterns: PatternsResult, answers: Answers | None) -> tuple[int, int] | None:
    """The head that is needed most is shown large."""
    if answers is None:
        return None
    part = answers.changed.labels["part"][answers.most_needed(heads=True)]
    return next(((i, h) for i, h, name in patterns.heads if part == name), None)


def _apart(
    card: ModelCard, effects: AttributionResult, patterns: PatternsResult | None
) -> RowApart:
    """The wrong input that was found, or else the row with the largest read-out in size."""
    assert card.asked is not None
    wrong = card.tested is not None and 0 in card.asked.shown
    row = card.asked.shown.index(0) if wrong else int(np.abs(effects.logits.array).argmax())
    place = card.asked.rows.index(card.asked.shown[row])
    parts, zero = bars(largest(effects, row))
    return RowApart(
        name=effects.logits.labels["string"][row],
        position=card.asked.query[place],
        what=effects.answers[row] if effects.answers else "",
        heads=() if patterns is None else _heads(patterns, effects, row),
        parts=parts,
        zero=zero,
        readout=float(effects.logits.array[row]),
    )


def _heads(patterns: PatternsResult, effects: AttributionResult, row: int) -> tuple[Head, ...]:
    """Where the heads that add most look in this row, from the position that is read."""
    name = effects.logits.labels["string"][row]
    string = next((string for string in patterns.strings if string.name == name), None)
    if string is None:
        return ()
    groups, adds = list(effects.by_group.labels["group"]), effects.by_group.array[row]
    places = [f"{token} at {at}" for at, token in enumerate(string.tokens)]
    adding = {head: float(adds[groups.index(head)]) for *_, head in patterns.heads
              if head in groups}  # fmt: skip
    most = sorted(adding, key=lambda head: -abs(adding[head]))[:MOST_HEADS]
    weights = {head: string.weights.array[i, h, string.reads] for i, h, head in patterns.heads}
    colours: dict[str, str] = {}
    return tuple(Head(head, _shares(weights[head], places, colours), adding[head]) for head in most)


def _shares(weights: np.ndarray, places: list[str], colours: dict[str, str]) -> tuple[Share, ...]:
    """The places with the most weight, of one colour in all heads; the rest is left blank."""
    order = np.argsort(-weights, kind="stable")[:MOST_SHARES]
    return tuple(
        Share(places[t], round(100 * float(weights[t]), 2),
              colours.setdefault(places[t], MUTED[len(colours) % len(MUTED)]))
        for t in order
        if weights[t] > 0.0005
    )  # fmt: skip


# -- the heads that matter, and the test of it -----------------------------------------------------


def _needed(answers: Answers, patterns: PatternsResult | None) -> tuple[Rate, ...]:
    """The heads without which most answers change, their mean put in their place."""
    parts = answers.changed.labels["part"]
    c = answers.changed.labels["change"].index("mean")
    heads = [p for p, part in enumerate(parts) if "head" in part]
    heads.sort(key=lambda p: (-answers.changed.array[c, p], answers.mean_effect.array[c, p]))
    needed = []
    for p in heads[:MOST_HEADS]:
        changed, effect = int(answers.changed.array[c, p]), float(answers.mean_effect.array[c, p])
        attends = "" if patterns is None else _attends(patterns, parts[p])
        remark = f"The answer's lead changes by {effect:+.2f} on average."
        remark += f" It {attends}." if attends else ""
        percent, counted = 100 * changed / answers.rows, f"{changed} of {answers.rows}"
        needed.append(Rate(parts[p], percent, counted, remark))
    return tuple(needed)


def _attends(patterns: PatternsResult, head: str) -> str:
    """Its habit, or where it attends from the position that is read, on average."""
    for i, h, name in patterns.heads:
        if name != head:
            continue
        if patterns.uniform(i, h):
            return "attends to everything alike"
        habit = patterns.habit(i, h)
        if habit is not None:
            return f"attends to {HABITS[habit[0]]} ({habit[1]:.0%} of its weight)"
        string = patterns.strings[0]
        mean = patterns.by_position.array[i, h, string.reads] if patterns.by_position else None
        if mean is not None and mean.max() >= 0.3:
            place = int(mean.argmax())
            return f"attends to position {place} from where it is read ({mean.max():.0%})"
    return ""


def _confirmed(ablation: AblationResult, answers: Answers) -> str:
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
        changes = f"{count} of {answers.rows} answers change" if count else "no answer changes"
        return f"{text}{changes}; the answer's lead changes by {effect:+.2f} on average."
    row = int(turned[0])
    lead = float(ablation.logits.array[row])
    after = lead + float(ablation.effects.array[c, p, row])
    pair = [answers.names[str(int(x))] for x in
            (answers.before.array[row], answers.after.array[c, p, row])]  # fmt: skip
    return (
        f"{text}the answer to {labels['string'][row]} turns from {pair[0]} to {pair[1]} (its lead "
        f"from {lead:+.2f} to {after:+.2f}), and {count} of all {answers.rows} answers change."
    )
