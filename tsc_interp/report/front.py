"""Screen one of a page: where the model fails, from which length on, and one string taken apart.

Made from what the report holds already: no model is run here. Only the failure map needs the
weights, which a report read from JSON does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log10

import numpy as np
from markupsafe import Markup

from tsc_interp.errors import TscError
from tsc_interp.plots.automata import automaton_picture
from tsc_interp.plots.style import token_style
from tsc_interp.probes.attribution.result import AttributionResult
from tsc_interp.probes.margin.result import MarginResult
from tsc_interp.probes.trace.result import TraceResult
from tsc_interp.report.card import ModelCard
from tsc_interp.report.cause import Confirmation
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.order import OrderSummary
from tsc_interp.report.reach import Reach, n_letters
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.strings import MAX_LETTERS, Alphabet

_ANY = Alphabet(MAX_LETTERS)
_LONGEST = 10**6
_MOST_HEADS, _MOST_PARTS = 4, 8


@dataclass(frozen=True)
class Mark:
    """A place on the length axis, in percent of its width."""

    at: float
    text: str
    kind: str


@dataclass(frozen=True)
class LengthAxis:
    """The horizon in a picture: proved right from 1 on, the first errors, what training saw."""

    proved: float
    ends_exactly: bool
    errors: tuple[Mark, ...]
    seen: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    words: str


@dataclass(frozen=True)
class Share:
    """A letter's part of a head's attention."""

    letter: str
    percent: float
    colour: str


@dataclass(frozen=True)
class Head:
    name: str
    shares: tuple[Share, ...]
    adds: float


@dataclass(frozen=True)
class Bar:
    """What one part of the model adds to the logit, as a bar from a common zero."""

    name: str
    adds: float
    left: float
    width: float


@dataclass(frozen=True)
class Dissection:
    """One string from its letters to its logit."""

    string: str
    letters: str
    question: str
    expected: str
    answer: str
    right: bool
    logit: float
    heads: tuple[Head, ...]
    left_out: int
    parts: tuple[Bar, ...]
    zero: float
    cause: str | None
    confirmed: str | None = None
    """The intervention that confirms the cause, in a sentence."""
    total: str = "the logit"
    """What the parts add up to."""


@dataclass(frozen=True)
class OrderFront:
    """Every input of an order-sensitive model, and one of them letter by letter."""

    summary: OrderSummary
    automaton: Markup | None
    zero: float
    bars: tuple[Bar, ...]
    """What each letter of the input taken apart pushes its gap by."""


@dataclass(frozen=True)
class Front:
    map: Markup | None
    no_map: str
    axis: LengthAxis | None
    dissection: Dissection | None
    order: OrderFront | None = None
    rarity: str | None = None
    """Why many test strings and yet hardly any of all strings are wrong."""


def front(model: ModelReport) -> Front:
    if isinstance(model.card, ModelCard) and model.card.order is not None:
        return Front(None, "", None, None, _order(model, model.card.order))
    dissection = dissect(model)
    picture, reason = None, "The failure map needs the weights, and this report has none."
    if model.checkpoint is not None:
        from tsc_interp.playground.mapfigure import failure_map

        try:
            marked = dissection.string if dissection is not None else None
            picture, reason = Markup(failure_map(model.checkpoint, string=marked)), ""
        except TscError as error:
            reason = f"There is no failure map: {error}."
    card = model.card if isinstance(model.card, ModelCard) else None
    axis = None if card is None or card.reach is None else length_axis(card.reach, seen_by(card))
    return Front(picture, reason, axis, dissection, rarity=_rarity(card, model.confirmation))


def _rarity(card: ModelCard | None, known: Confirmation | None) -> str | None:
    """A sentence that reconciles the share of test strings with the share of all strings."""
    if card is None or card.test is None or not card.test.errors:
        return None
    if known is None or known.reason is not None:
        return None
    letters = int(card.config["n_letters"])
    every = sum(letters**length for length in range(1, known.length + 1))
    share = Fraction(known.false_positives[0] + known.false_negatives[0], every)
    tested = card.test.errors / card.test.strings
    if not share or share > tested / 100:
        return None
    return (
        f"That is {tested:.1%} of the test strings, but only {float(share):.0e} of all strings up "
        f"to {known.length} letters. Almost every long string has its letters in about equal "
        "numbers, and the model is right on those. The test strings cover all ratios, lopsided "
        "ones too."
    )


def _order(model: ModelReport, summary: OrderSummary) -> OrderFront:
    picture = None
    if model.checkpoint is not None:
        config = model.checkpoint.config
        two = ("no", "yes") if config.task.n_classes(config.n_letters) == 2 else ()
        picture = automaton_picture(config.task, config.n_letters, config.token_names, two)
    apart = summary.apart
    pushes = {f"{i}": one.push for i, one in enumerate(apart.letters)} if apart else {}
    found, zero = bars(pushes, keep_zeros=True)
    return OrderFront(summary, Markup(picture) if picture else None, zero, found)


# -- the horizon ---------------------------------------------------------------------------------


def place(length: int) -> float:
    """Where a length stands on a logarithmic axis from 1 to 10^6, in percent."""
    return round(100 * min(1.0, log10(max(1, length)) / log10(_LONGEST)), 2)


def seen_by(card: ModelCard) -> dict[str, int]:
    """Up to which length a model was trained and validated, as its file says, and tested."""
    training = card.provenance.get("training")
    known = training if isinstance(training, Mapping) else {}
    found: dict[str, int] = {}
    for part, word in (("train", "trained"), ("validation", "validated")):
        data = known.get(part)
        length = data.get("max_length") if isinstance(data, Mapping) else None
        if isinstance(length, int):
            found[word] = length
    return found if card.test is None else {**found, "tested": TEST_LENGTH}


def length_axis(reach: Reach, seen: Mapping[str, int]) -> LengthAxis:
    """The axis of one model; `seen` says up to which length it was trained and tested."""
    errors = []
    for string, kind in reach.errors():
        length = n_letters(string)
        what = f"{kind}, {length:,} letters" if kind else f"length {length:,}"
        errors.append(Mark(place(length), f"`{string}` ({what})", kind.removeprefix("false ")))
    ticks = tuple(Mark(place(10**k), f"{10**k:,}", "tick") for k in range(7))
    return LengthAxis(
        proved=place(reach.verified_length) if reach.verified_length else 0.0,
        ends_exactly=reach.exact,
        errors=tuple(sorted(errors, key=lambda mark: mark.at)),
        seen=tuple(Mark(place(length), word, "seen") for word, length in seen.items()),
        ticks=ticks,
        words=reach.sentence().replace("`", ""),
    )


# -- one string ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """The string to take apart: a wrong one with its cause if a probe names it, or a close call."""

    string: str
    right: bool
    cause: str | None


def choose(model: ModelReport) -> Choice | None:
    """The shortest wrong string, with its cause if a probe names it; else the closest call."""
    if not {"trace", "attribution"} <= model.sections.keys():
        return None
    trace = model.sections["trace"].result
    if not isinstance(trace, TraceResult):
        return None
    wrong = [s for s, right in zip(trace.strings, trace.right, strict=True) if not right]
    if wrong:
        shortest = min(wrong, key=n_letters)
        return Choice(shortest, False, _cause(model, shortest))
    closest = min(trace.strings, key=lambda s: abs(float(trace.logits.at(string=s))))
    return Choice(closest, True, None)


def dissect(model: ModelReport) -> Dissection | None:
    """The chosen string from its letters to its logit; None without a trace or an attribution."""
    chosen = choose(model)
    if chosen is None:
        return _of_classes(model)
    trace, effects = (model.sections[name].result for name in ("trace", "attribution"))
    if not isinstance(trace, TraceResult) or not isinstance(effects, AttributionResult):
        return None
    found = _dissection(
        trace, effects, chosen.string, chosen.cause, lost_head(model, chosen.string)
    )
    known = model.confirmation
    if known is None or known.string != chosen.string:
        return found
    return replace(found, confirmed=known.sentence())


def _cause(model: ModelReport, string: str) -> str | None:
    """What the probes that look for causes say of this string."""
    for name in ("superposition", "margin", "cone"):
        section = model.sections.get(name)
        for finding in section.result.findings if section is not None else ():
            if finding.severity == "failure" and finding.text.startswith(f"`{string}`"):
                return finding.text
    return None


def lost_head(model: ModelReport, string: str) -> int | None:
    """The head that lost its letter in a wrong string, as far as the margin probe names one."""
    section = model.sections.get("margin")
    if section is None or not isinstance(section.result, MarginResult):
        return None
    return next((lost.head for lost in section.result.lost if lost.string == string), None)


def _dissection(
    told: TraceResult,
    effects: AttributionResult,
    string: str,
    cause: str | None,
    lost: int | None,
) -> Dissection:
    """`lost` names the head that lost its letter, which is always among those shown."""
    row = told.strings.index(string)
    logit, label = float(told.logits.array[row]), bool(told.labels[row])
    every = _heads(told, effects, string)
    blamed = f"head {lost}"
    heads = sorted(every, key=lambda head: (head.name != blamed, -abs(head.adds)))[:_MOST_HEADS]
    parts, zero = bars(largest(effects, effects.by_group.labels["string"].index(string)))
    answers = {True: "yes", False: "no"}
    return Dissection(
        string=string,
        letters=_letters(string),
        question=told.task,
        expected=answers[label],
        answer=answers[logit > 0],
        right=(logit > 0) == label,
        logit=logit,
        heads=tuple(sorted(heads, key=every.index)),
        left_out=len(every) - len(heads),
        parts=parts,
        zero=zero,
        cause=cause,
    )


def _letters(string: str) -> str:
    counts = zip(_ANY.letters, _ANY.counts(string).tolist(), strict=True)
    return ", ".join(f"{n:,} {letter}" for letter, n in counts if n)


def _of_classes(model: ModelReport) -> Dissection | None:
    """Of a multiclass model: the shortest string whose right class is behind, or the closest call.

    The parts add up to the lead of the right class over the strongest other one.
    """
    section = model.sections.get("attribution")
    effects = None if section is None else section.result
    card = model.card
    if not isinstance(effects, AttributionResult) or not effects.answers:
        return None
    if not isinstance(card, ModelCard):
        return None
    strings, leads = effects.logits.labels["string"], effects.logits.array
    row = min(range(len(strings)), key=lambda i: (leads[i] > 0, n_letters(strings[i]), leads[i]))
    if leads[row] > 0:
        row = int(leads.argmin())
    expected, other = (f"class {name}" for name in effects.answers[row].split(" over "))
    parts, zero = bars(largest(effects, row))
    return Dissection(
        string=strings[row], letters=_letters(strings[row]), question=card.task, expected=expected,
        answer=expected if leads[row] > 0 else other, right=bool(leads[row] > 0),
        logit=float(leads[row]), heads=(), left_out=0, parts=parts, zero=zero, cause=None,
        total=f"the lead of {expected} over {other}",
    )  # fmt: skip


def _heads(told: TraceResult, effects: AttributionResult, string: str) -> list[Head]:
    """What each head of a one-layer model reads; of a deeper one the parts say enough."""
    if told.weights is None or len(told.weights.labels["layer"]) > 1:
        return []
    groups = effects.by_group.labels["group"]
    found = []
    for head in told.weights.labels["head"]:
        weights = told.weights.at(layer=told.weights.labels["layer"][0], string=string, head=head)
        shares = [
            Share(token, round(100 * float(weight), 2), token_style(token).colour)
            for token, weight in zip(told.weights.labels["token"], weights, strict=True)
            if float(weight) > 0.0005
        ]
        name = f"head {head}"
        adds = float(effects.by_group.at(string=string, group=name)) if name in groups else 0.0
        found.append(Head(name, tuple(shares), adds))
    return found


def largest(effects: AttributionResult, row: int) -> dict[str, float]:
    """The groups of parts that add most to a row's read-out, and all others together."""
    groups, adds = effects.by_group.labels["group"], effects.by_group.array[row]
    order = np.argsort(-np.abs(adds), kind="stable")
    kept, rest = sorted(order[:_MOST_PARTS].tolist()), order[_MOST_PARTS:]
    found = {groups[g]: float(adds[g]) for g in kept}
    if len(rest):
        found[f"{len(rest)} others"] = float(adds[rest].sum())
    return found


def bars(adds: Mapping[str, float], *, keep_zeros: bool = False) -> tuple[tuple[Bar, ...], float]:
    """Bars around a common zero, in percent of the width; parts that add nothing are left out."""
    adds = {name: value for name, value in adds.items() if keep_zeros or abs(value) > 1e-9}
    low, high = min([0.0, *adds.values()]), max([0.0, *adds.values()])
    span = (high - low) or 1.0

    def across(value: float) -> float:
        return round(100 * (value - low) / span, 2)

    found = tuple(
        Bar(name, value, across(min(value, 0.0)), round(100 * abs(value) / span, 2))
        for name, value in adds.items()
    )
    return found, across(0.0)
