"""Sentences about a falsification, made from its result alone."""

from __future__ import annotations

from tsc_interp.falsification.result import Falsification, Rate
from tsc_interp.output.numbers import Cell
from tsc_interp.results.base import Finding, Severity, worst_first
from tsc_interp.results.intervals import told_share


def findings(result: Falsification) -> tuple[Finding, ...]:
    """What was found, how often it happens and where, and what was tried."""
    wrong = (*_wrong_input(result), *result.mechanism)
    return (*wrong, *_enumerated(result), *_rates(result), *_places(result.by_place))


def verdict(result: Falsification) -> Finding:
    """The first thing to know: the wrong input, the exact counts, or else how often it happens."""
    whole = result.enumerated is not None and result.enumerated.complete
    parts = [*_wrong_input(result), *_enumerated(result), *([] if whole else _rates(result)[:1])]
    return Finding.of(
        " ".join(part.text for part in parts), severity=min(parts, key=worst_first).severity
    )


def _wrong_input(result: Falsification) -> list[Finding]:
    kinds = ", ".join(family.name for family in result.families)
    if result.tokens is None:
        if result.enumerated is not None:
            return []
        if not result.tried:
            text = "Nothing was tried: time ran out first; allow more seconds."
            return [Finding(severity="note", text=text)]
        text = (
            f"No wrong input was found among {result.tried:,} tried ({kinds}; {result.stopped}). "
            "Others may exist: a search proves nothing about inputs it has not tried."
        )
        return [Finding(severity="note", text=text, numbers={"tried": result.tried})]
    how = (
        "Proved in ball arithmetic, and its own forward pass says the same."
        if result.proved
        else f"By its own forward pass; not proved ({result.not_proved})."
    )
    row = (result.text or "").replace("`", "'")  # what is between backticks is set as code
    text = f"`{row}` is wrong: the label is {result.label}, the answer {result.answer}. {how}"
    if result.original_accepts is not None:
        does = "it accepts this input" if result.original_accepts else "it does not accept this one"
        text += f" The original reads up to {result.original_reads:,} tokens: {does}."
    numbers: dict[str, Cell] = {"tried": result.tried}
    return [Finding(severity="failure", text=text, numbers=numbers)]


def _enumerated(result: Falsification) -> list[Finding]:
    counts = result.enumerated
    if counts is None:
        return []
    how = (
        f"{counts.in_float64:,} decided in float64 with a rounding bound, {counts.in_balls:,} in "
        "ball arithmetic"
    )
    if counts.proves_right:
        text = f"Proved: none of the {counts.inputs:,} inputs of the frame is wrong ({how})."
    else:
        scope = "inputs of the frame" if counts.complete else "inputs of the frame (time ran out)"
        text = (
            f"Enumerated: {counts.wrong:,} of {counts.inputs:,} {scope} are wrong, exactly; "
            f"{counts.undecided:,} are undecided ({how})."
        )
    severity: Severity = "failure" if counts.wrong else "good" if counts.proves_right else "note"
    numbers: dict[str, Cell] = {"wrong": counts.wrong, "inputs": counts.inputs}
    return [Finding(severity=severity, text=text, numbers=numbers)]


def _rates(result: Falsification) -> list[Finding]:
    notes = []
    if result.error_rate.tried:
        rate = result.error_rate
        share = told_share(rate.wrong, rate.tried, digits=2)
        text = f"Wrong among {rate.of}: {share}."
        notes.append(Finding(severity="note", text=text))
    worst = max(result.by_class, key=lambda rate: rate.share if rate.tried else -1, default=None)
    if worst is not None and worst.wrong:
        share = told_share(worst.wrong, worst.tried, digits=2)
        notes.append(Finding(severity="note", text=f"Worst class, {worst.of}: {share}."))
    return notes


def _places(rates: tuple[Rate, ...]) -> list[Finding]:
    """The places at which a change that matters goes unseen most often."""
    measured = [rate for rate in rates if rate.tried >= 10]
    if not measured or not any(rate.wrong for rate in measured):
        return []
    worst = sorted(measured, key=lambda rate: -rate.share)[:3]
    places = "; ".join(
        f"{rate.of}, wrong {rate.wrong:,} of {rate.tried:,} ({rate.share:.0%})"
        for rate in worst
        if rate.wrong
    )
    severity: Severity = "warning" if worst[0].share >= 0.5 else "note"
    text = f"One letter changed so that the label changes: {places}."
    return [Finding(severity=severity, text=text)]
