"""A verdict in plain words, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, log10

from tsc_interp.output.numbers import number
from tsc_interp.verification.certificates import Certificate
from tsc_interp.verification.costs import EXACT_BUDGET, duration
from tsc_interp.verification.horizons import Counterexample, Horizon
from tsc_interp.verification.replay import Replay
from tsc_interp.verification.tally import Side
from tsc_interp.verification.verdict import Verdict

Line = tuple[str, str]
"""A rich style and a sentence."""

_SEARCHED = "by a search in float64 with error bounds that the checker did not derive again"

_GOOD, _BAD, _PLAIN = "green", "bold red", ""


def summary(verdict: Verdict) -> Iterator[Line]:
    """Counting first, then horizon, certificates and the float32 replay, as far as asked for."""
    tally = verdict.tally
    checked = (
        f"All {number(tally.strings)} strings up to length {tally.max_length} checked, "
        f"as {number(tally.vectors)} count vectors"
    )
    if verdict.correct:
        yield _GOOD, f"{checked}: none is wrong."
    else:
        yield _BAD, f"{checked}: {_how_many(verdict)}."
        if tally.several:
            yield from _side("wrong strings", tally.errors[0], verdict.wrong)
        else:
            yield from _side("false positives", tally.false_positives, verdict.false_positive)
            yield from _side("false negatives", tally.false_negatives, verdict.false_negative)
        if tally.undecided.total_vectors:
            yield _BAD, _undecided(verdict)
    known = verdict.certificate.horizon if verdict.certificate else verdict.horizon
    if known is not None:
        yield from horizon_lines(known)
    if verdict.certificate is not None:
        yield from _certificate(verdict.certificate)
    yield _PLAIN, "These are statements about real numbers, the float32 weights taken as exact."
    if verdict.float32_horizon is not None:
        yield _PLAIN, verdict.float32_horizon.sentence()
    if verdict.replays:
        yield from _replays(verdict.replays)


def _how_many(verdict: Verdict) -> str:
    tally = verdict.tally
    wrong = sum(side.total_strings for side in tally.errors)
    open_ = tally.undecided.total_strings
    if not wrong:
        return f"none is found wrong, but {number(open_)} are undecided"
    more = f", {number(open_)} more undecided" if open_ else ""
    first = f"; the shortest is {verdict.shortest.string}" if verdict.shortest else ""
    return f"{number(wrong)} are wrong ({share(wrong, tally.strings)} of all){more}{first}"


def _undecided(verdict: Verdict) -> str:
    """Never called right, never called wrong, and it is said why."""
    tally = verdict.tally
    said = (
        f"  {number(tally.undecided.total_vectors)} vectors are undecided, the first "
        f"{verdict.undecided}: their logit cannot be told from zero"
    )
    if not tally.out_of_budget:
        return f"{said}."
    worth = duration(EXACT_BUDGET / 1e6)
    return f"{said}. Exact arithmetic was stopped after {worth} of work; not all were tried."


def share(part: int, whole: int) -> str:
    """0.0312, or a power of ten where float64 ends."""
    if part * 10**300 > whole:
        return f"{part / whole:.3g}"
    return f"about 1e{floor(log10(part) - log10(whole) + 0.5)}"


def _side(name: str, side: Side, first: Counterexample | None) -> Iterator[Line]:
    if first is None:
        yield _GOOD, f"  no {name}."
        return
    yield (
        _PLAIN,
        f"  {number(side.total_strings)} {name} ({number(side.total_vectors)} count vectors), "
        f"the first {first.string} (length {first.length}, {first.mistake}).",
    )


def horizon_lines(known: Horizon) -> Iterator[Line]:
    """`proved` is said of what the checker derived again, and of nothing else."""
    if known.infinite:
        yield _GOOD, "Horizon: infinite. Proved: no string of any length is wrong."
    elif known.length is None:
        yield _PLAIN, f"Horizon: {_at_least(known)}; no error found up to {known.limit:,}."
    else:
        yield _PLAIN, f"{_first_error(known, known.length)}."
    for face in known.by_letters:
        if face.shortest is not None:
            kind = "error" if known.several else face.shortest.kind.replace("_", " ")
            yield _PLAIN, f"  over exactly {face.letters}: first {kind} {face.shortest.string}"


def _first_error(known: Horizon, length: int) -> str:
    first = known.shortest.string if known.shortest else "?"
    if known.proved and not length:
        return f"Horizon: 0. Proved: {first}, a single letter, is already wrong"
    if known.proved:
        return (
            f"Horizon: {length:,}. Proved: every string up to there is right; the first error is "
            f"{first}"
        )
    if known.settled and not known.checked:
        return f"Horizon: {length:,}, {_SEARCHED}; the first error is {first}"
    return f"Horizon: at most {length:,}, since {first} is wrong; {_at_least(known)}"


def _at_least(known: Horizon) -> str:
    if not known.right_through:
        return "at least 0, nothing being proved right"
    return f"at least {known.right_through:,}, {'proved' if known.checked else _SEARCHED}"


def _certificate(certificate: Certificate) -> Iterator[Line]:
    for face in certificate.negative_faces:
        if face.holds_for_all_lengths:
            bound = "" if face.max_logit is None else f", logit at most {face.max_logit:.4g}"
            yield _GOOD, f"  over exactly {face.letters}: no false positive of any length{bound}"
        elif face.holds_for_all_lengths is None:
            yield _BAD, f"  over exactly {face.letters}: undecided; tried {face.tried}"
    if certificate.finite:
        yield _PLAIN, "  the horizon is proved finite."
    elif not certificate.horizon.infinite:
        yield (
            _BAD,
            f"  whether the horizon is finite is undecided: no error up to "
            f"{certificate.horizon.limit:,} letters, no limit that excludes one, no tail bound.",
        )
    yield _PLAIN, f"  {len(certificate.proved)} statements checked again in exact arithmetic."


def _replays(replays: tuple[Replay, ...]) -> Iterator[Line]:
    differing = [one for one in replays if not one.also_wrong]
    yield (
        _PLAIN,
        f"The float32 model gets {len(replays) - len(differing)} of these {len(replays)} "
        f"counterexamples wrong too.",
    )
    for one in differing:
        yield _PLAIN, f"  it differs on {one.string}: float32 logit {one.logit:+.4g}"
