"""One input taken apart, from its letters to its logit, out of what the probes' results hold.

That is a string of a classifier, or a row of token ids of any model of TransformerLens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tsc_interp.plots.colours import MUTED
from tsc_interp.plots.style import token_style
from tsc_interp.probes.attribution import AttributionResult
from tsc_interp.probes.margin import MarginResult
from tsc_interp.probes.patterns import PatternsResult
from tsc_interp.probes.trace import TraceResult
from tsc_interp.report.asked import Asked
from tsc_interp.report.card import ModelCard
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.reach import n_letters
from tsc_interp.strings import MAX_LETTERS, Alphabet

_ANY = Alphabet(MAX_LETTERS)
_MOST_HEADS, _MOST_PARTS, _MOST_SHARES = 4, 8, 6


@dataclass(frozen=True)
class Share:
    """A letter's part of a head's attention."""

    letter: str
    percent: float
    colour: str

    @property
    def text(self) -> str:
        """What is written into its part of the bar; empty where that is too narrow."""
        fits = self.percent > 9 + 3 * len(self.letter)
        return f"{self.letter} {self.percent:.0f}%" if fits else ""


@dataclass(frozen=True)
class Head:
    name: str
    shares: tuple[Share, ...]
    adds: float


def colours_of(heads: Sequence[Head]) -> dict[str, str]:
    """The colours of what can be seen in the heads' bars and is not written there."""
    shares = [share for head in heads for share in head.shares]
    return {s.letter: s.colour for s in shares if s.percent >= 1 and not s.text}


@dataclass(frozen=True)
class Bar:
    """What one part of the model adds to the logit, as a bar from a common zero."""

    name: str
    adds: float
    left: float
    width: float


@dataclass(frozen=True)
class Dissection:
    """One input from its letters to its logit."""

    string: str
    expected: str
    answer: str
    right: bool | None
    """None where nobody said what is right."""
    logit: float
    heads: tuple[Head, ...]
    parts: tuple[Bar, ...]
    zero: float
    total: str = "the logit"
    """What the parts add up to."""
    letters: str = ""
    question: str = ""
    left_out: int = 0
    position: int | None = None
    """Of a row of token ids: where it is read."""
    cause: str | None = None
    confirmed: str | None = None
    """The intervention that confirms the cause, in a sentence."""

    @property
    def title(self) -> str:
        """What the tile asks."""
        if self.right is False:
            return f"Why is it wrong on `{self.string}`?"
        if self.position is None:
            return f"How does it answer `{self.string}`?"
        return f"What adds up to the answer in {self.string}?"


@dataclass(frozen=True)
class Choice:
    """The string to take apart: a wrong one with its cause if a probe names it, or a close call."""

    string: str
    right: bool
    cause: str | None


def choose(model: ModelReport) -> Choice | None:
    """The shortest wrong string, with its cause if a probe names it; else the closest call."""
    trace = model.result("trace", TraceResult)
    if trace is None or "attribution" not in model.sections:
        return None
    wrong = [s for s, right in zip(trace.strings, trace.right, strict=True) if not right]
    if wrong:
        shortest = min(wrong, key=n_letters)
        return Choice(shortest, False, _cause(model, shortest))
    closest = trace.strings[int(np.abs(trace.logits.array).argmin())]
    return Choice(closest, True, None)


def dissect(model: ModelReport) -> Dissection | None:
    """The chosen string from its letters to its logit; None without a trace or an attribution."""
    chosen, trace = choose(model), model.result("trace", TraceResult)
    effects = model.result("attribution", AttributionResult)
    if effects is None:
        return None
    if model.card.asked is not None:
        return _of_row(
            model.card, model.card.asked, effects, model.result("patterns", PatternsResult)
        )
    if chosen is None or trace is None:
        return _of_classes(effects, model.card.task)
    string = chosen.string
    row = trace.strings.index(string)
    logit, label = float(trace.logits.array[row]), bool(trace.labels[row])
    heads = _heads(trace, effects, string)
    blamed = f"head {lost_head(model, string)}"  # is among those shown, whatever it adds
    shown = sorted(heads, key=lambda head: (head.name != blamed, -abs(head.adds)))[:_MOST_HEADS]
    parts, zero = bars(largest(effects, effects.by_group.labels["string"].index(string)))
    answers = {True: "yes", False: "no"}
    tested = model.confirmation
    return Dissection(
        string=string,
        letters=_letters(string),
        question=trace.task,
        expected=answers[label],
        answer=answers[logit > 0],
        right=(logit > 0) == label,
        logit=logit,
        heads=tuple(sorted(shown, key=heads.index)),
        left_out=len(heads) - len(shown),
        parts=parts,
        zero=zero,
        cause=chosen.cause,
        confirmed=tested.sentence() if tested is not None and tested.string == string else None,
    )


def _cause(model: ModelReport, string: str) -> str | None:
    """What the probes that look for causes say of this string, or of a letter that it lacks."""
    missing = [letter for letter in _ANY.letters if letter not in string]
    for probe in ("superposition", "margin", "cone", "specialization"):
        section = model.sections.get(probe)
        for finding in section.result.findings if section is not None else ():
            unread = probe == "specialization" and finding.about.get("letter") in missing
            if finding.severity == "failure" and (unread or finding.concerns(string=string)):
                return finding.text
    return None


def lost_head(model: ModelReport, string: str) -> int | None:
    """The head that lost its letter in a wrong string, as far as the margin probe names one."""
    margin = model.result("margin", MarginResult)
    lost = () if margin is None else margin.lost
    return next((letter.head for letter in lost if letter.string == string), None)


def _letters(string: str) -> str:
    counts = zip(_ANY.letters, _ANY.counts(string).tolist(), strict=True)
    return ", ".join(f"{n:,} {letter}" for letter, n in counts if n)


def _of_classes(effects: AttributionResult, task: str) -> Dissection | None:
    """Of a multiclass model: the shortest string whose right class is behind, or the closest call.

    The parts add up to the lead of the right class over the strongest other one.
    """
    if not effects.answers:
        return None
    strings, leads = effects.logits.labels["string"], effects.logits.array
    row = min(range(len(strings)), key=lambda i: (leads[i] > 0, n_letters(strings[i]), leads[i]))
    if leads[row] > 0:
        row = int(leads.argmin())
    expected, other = (f"class {name}" for name in effects.answers[row].split(" over "))
    parts, zero = bars(largest(effects, row))
    right = bool(leads[row] > 0)
    return Dissection(
        string=strings[row], letters=_letters(strings[row]), question=task, expected=expected,
        answer=expected if right else other, right=right, logit=float(leads[row]),
        heads=(), parts=parts, zero=zero,
        total=f"the lead of {expected} over {other}",
    )  # fmt: skip


def _of_row(
    card: ModelCard, asked: Asked, effects: AttributionResult, patterns: PatternsResult | None
) -> Dissection:
    """The wrong input that was found, or else the row with the largest read-out in size."""
    tested = card.tested if card.tested is not None and card.tested.found else None
    first = card.tested is not None and 0 in asked.shown
    row = asked.shown.index(0) if first else int(np.abs(effects.logits.array).argmax())
    place = asked.rows.index(asked.shown[row])
    parts, zero = bars(largest(effects, row))
    lead = effects.answers[row] if effects.answers else ""
    why = " ".join(one.text for one in tested.mechanism) if tested else None
    return Dissection(
        string=str(tested.text) if tested else effects.logits.labels["string"][row],
        expected=str(tested.label) if tested else "", answer=str(tested.answer) if tested else "",
        right=False if tested else None, logit=float(effects.logits.array[row]),
        heads=() if patterns is None else _heads_of_row(patterns, effects, row),
        parts=parts, zero=zero, total=f"the lead of {lead}" if lead else "",
        position=asked.query[place], confirmed=why,
    )  # fmt: skip


def _heads_of_row(
    patterns: PatternsResult, effects: AttributionResult, row: int
) -> tuple[Head, ...]:
    """Where the heads that add most look in this row, from the position that is read."""
    name = effects.logits.labels["string"][row]
    string = next((string for string in patterns.strings if string.name == name), None)
    if string is None:
        return ()
    groups, adds = list(effects.by_group.labels["group"]), effects.by_group.array[row]
    places = [f"{token} at {at}" for at, token in enumerate(string.tokens)]
    adding = {head: float(adds[groups.index(head)]) for *_, head in patterns.heads
              if head in groups}  # fmt: skip
    most = sorted(adding, key=lambda head: -abs(adding[head]))[:_MOST_HEADS]
    weights = {head: string.weights.array[i, h, string.reads] for i, h, head in patterns.heads}
    colours: dict[str, str] = {}
    return tuple(Head(head, _shares(weights[head], places, colours), adding[head]) for head in most)


def _shares(weights: np.ndarray, places: list[str], colours: dict[str, str]) -> tuple[Share, ...]:
    """The places with the most weight, of one colour in all heads; the rest is left blank."""
    order = np.argsort(-weights, kind="stable")[:_MOST_SHARES]
    return tuple(
        Share(places[t], round(100 * float(weights[t]), 2),
              colours.setdefault(places[t], MUTED[len(colours) % len(MUTED)]))
        for t in order
        if weights[t] > 0.0005
    )  # fmt: skip


def _heads(trace: TraceResult, effects: AttributionResult, string: str) -> list[Head]:
    """What each head of a one-layer model reads; of a deeper one the parts say enough."""
    if trace.weights is None or len(trace.weights.labels["layer"]) > 1:
        return []
    groups = effects.by_group.labels["group"]
    heads = []
    for head in trace.weights.labels["head"]:
        weights = trace.weights.at(layer=trace.weights.labels["layer"][0], string=string, head=head)
        shares = [
            Share(token, round(100 * float(weight), 2), token_style(token).colour)
            for token, weight in zip(trace.weights.labels["token"], weights, strict=True)
            if float(weight) > 0.0005
        ]
        name = f"head {head}"
        adds = float(effects.by_group.at(string=string, group=name)) if name in groups else 0.0
        heads.append(Head(name, tuple(shares), adds))
    return heads


def largest(effects: AttributionResult, row: int) -> dict[str, float]:
    """The groups of parts that add most to a row's read-out, and all others together."""
    groups, adds = effects.by_group.labels["group"], effects.by_group.array[row]
    order = np.argsort(-np.abs(adds), kind="stable")
    kept, rest = sorted(order[:_MOST_PARTS].tolist()), order[_MOST_PARTS:]
    adds_by_group = {groups[g]: float(adds[g]) for g in kept}
    if len(rest):
        adds_by_group[f"{len(rest)} others"] = float(adds[rest].sum())
    return adds_by_group


def bars(adds: Mapping[str, float], *, keep_zeros: bool = False) -> tuple[tuple[Bar, ...], float]:
    """Bars around a common zero, in percent of the width; parts that add nothing are left out."""
    adds = {name: value for name, value in adds.items() if keep_zeros or abs(value) > 1e-9}
    low, high = min([0.0, *adds.values()]), max([0.0, *adds.values()])
    span = (high - low) or 1.0

    def across(value: float) -> float:
        return round(100 * (value - low) / span, 2)

    drawn_bars = tuple(
        Bar(name, value, across(min(value, 0.0)), round(100 * abs(value) / span, 2))
        for name, value in adds.items()
    )
    return drawn_bars, across(0.0)
