"""Screen one of a page: where the model fails, from which length on, and one string taken apart.

Made from what the report holds already: no model is run here. Only the failure map needs the
weights, which a report read from JSON does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import log10

from markupsafe import Markup

from tsc_interp.errors import TscError
from tsc_interp.output.numbers import share as written
from tsc_interp.report.automata import automaton_table
from tsc_interp.report.card import ModelCard
from tsc_interp.report.cause import Confirmation
from tsc_interp.report.dissection import Bar, Dissection, bars, dissect
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.needed import Rates, attention, needed, wrong_rates
from tsc_interp.report.order import OrderSummary
from tsc_interp.report.reach import Reach, n_letters
from tsc_interp.results.base import Table
from tsc_interp.source_report import TEST_LENGTH

_LONGEST = 10**6


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
    errors: tuple[Mark, ...]
    seen: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    words: str


@dataclass(frozen=True)
class OrderFront:
    """Every input of an order-sensitive model, and one of them letter by letter."""

    summary: OrderSummary
    automaton: Table | None
    zero: float
    bars: tuple[Bar, ...]
    """What each letter of the input taken apart pushes its gap by."""


@dataclass(frozen=True)
class Front:
    """What screen one shows; what a model has no evidence for is left out."""

    map: Markup | None = None
    no_map: str = ""
    axis: LengthAxis | None = None
    dissection: Dissection | None = None
    order: OrderFront | None = None
    rarity: str | None = None
    """Why many test strings and yet hardly any of all strings are wrong."""
    rates: tuple[Rates, ...] = ()
    """Wrong answers that a search met, by kind of input; the heads that answers need."""
    attention: Markup | None = None


def front(model: ModelReport) -> Front:
    """Gather screen one of a report."""
    card = model.card
    if card.order is not None:
        return Front(order=_order(model, card.order))
    dissection = dissect(model)
    if card.asked is not None:
        rates = tuple(filter(None, (wrong_rates(card.tested), needed(model))))
        return Front(dissection=dissection, rates=rates, attention=attention(model))
    picture, reason = None, "The failure map needs the weights, and this report has none."
    if model.checkpoint is not None:
        from tsc_interp.playground.mapfigure import failure_map

        try:
            marked = dissection.string if dissection is not None else None
            picture, reason = Markup(failure_map(model.checkpoint, string=marked)), ""
        except TscError as error:
            reason = f"There is no failure map: {error}."
    axis = None if card.reach is None else length_axis(card.reach, seen_by(card))
    return Front(picture, reason, axis, dissection, rarity=_rarity(card, model.confirmation))


def _rarity(card: ModelCard, known: Confirmation | None) -> str | None:
    """A sentence that reconciles the share of test strings with the share of all strings."""
    if card.test is None or not card.test.errors:
        return None
    if known is None or known.reason is not None:
        return None
    letters = int(card.config["n_letters"])
    total = sum(letters**length for length in range(1, known.length + 1))
    share = Fraction(known.false_positives[0] + known.false_negatives[0], total)
    tested = card.test.errors / card.test.strings
    if not share or share > tested / 100:
        return None
    return (
        f"That is {tested:.1%} of the test strings, but only {written(share)} of all strings up "
        f"to {known.length} letters. Almost every long string has its letters in about equal "
        "numbers, and the model is right on those. The test strings cover all ratios, lopsided "
        "ones too."
    )


def _order(model: ModelReport, summary: OrderSummary) -> OrderFront:
    automaton = None
    if model.checkpoint is not None:
        config = model.checkpoint.config
        two = ("no", "yes") if config.task.n_classes(config.n_letters) == 2 else ()
        automaton = automaton_table(config.task, config.n_letters, config.token_names, two)
    pushes = {f"{i}": letter.push for i, letter in enumerate(summary.apart.letters)}
    push_bars, zero = bars(pushes, keep_zeros=True)
    return OrderFront(summary, automaton, zero, push_bars)


# -- the horizon ---------------------------------------------------------------------------------


def place(length: int) -> float:
    """Where a length stands on a logarithmic axis from 1 to 10^6, in percent."""
    return round(100 * min(1.0, log10(max(1, length)) / log10(_LONGEST)), 2)


def seen_by(card: ModelCard) -> dict[str, int]:
    """Up to which length a model was trained and validated, as its file says, and tested."""
    training = card.provenance.get("training")
    known = training if isinstance(training, Mapping) else {}
    lengths: dict[str, int] = {}
    for part, word in (("train", "trained"), ("validation", "validated")):
        data = known.get(part)
        if isinstance(data, Mapping) and isinstance(data.get("max_length"), int):
            lengths[word] = data["max_length"]
    return lengths if card.test is None else {**lengths, "tested": TEST_LENGTH}


def length_axis(reach: Reach, seen: Mapping[str, int]) -> LengthAxis:
    """The axis of one model; `seen` says up to which length it was trained and tested."""
    errors = []
    for string, kind in reach.errors():
        length = n_letters(string)
        detail = f"{kind}, {length:,} letters" if kind else f"length {length:,}"
        errors.append(Mark(place(length), f"`{string}` ({detail})", kind.removeprefix("false ")))
    return LengthAxis(
        proved=place(reach.verified_length) if reach.verified_length else 0.0,
        errors=tuple(sorted(errors, key=lambda mark: mark.at)),
        seen=tuple(Mark(place(length), word, "seen") for word, length in seen.items()),
        ticks=tuple(Mark(place(10**k), f"{10**k:,}", "tick") for k in range(7)),
        words=reach.sentence().replace("`", ""),
    )
