"""A verdict in plain words, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Iterator
from math import log10

from tsc_interp.verification.certificates import Certificate
from tsc_interp.verification.horizons import Counterexample, Horizon
from tsc_interp.verification.replay import Replay
from tsc_interp.verification.tally import Side
from tsc_interp.verification.verdict import Verdict

Line = tuple[str, str]
"""A rich style and a sentence."""

_GOOD, _BAD, _PLAIN = "green", "bold red", ""


def number(value: int) -> str:
    """1,373,700 in full, 3.98e95 rounded."""
    if abs(value) < 10**12:
        return f"{value:,}"
    exponent = int(log10(value))
    unit = 10 ** (exponent - 2)
    hundredths = (value + unit // 2) // unit
    # log10 is rounded, and so are the digits: either may cross a power of ten.
    if hundredths >= 1000:
        hundredths, exponent = hundredths // 10, exponent + 1
    return f"{hundredths / 100:.2f}e{exponent}"


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
        wrong = tally.false_positives.total_strings + tally.false_negatives.total_strings
        share = float(1 - verdict.accuracy)
        first = f"; the shortest is {verdict.shortest.string}" if verdict.shortest else ""
        yield _BAD, f"{checked}: {number(wrong)} are wrong ({share:.3g} of all){first}."
        yield from _side("false positives", tally.false_positives, verdict.false_positive)
        yield from _side("false negatives", tally.false_negatives, verdict.false_negative)
        if tally.undecided.total_vectors:
            yield (
                _BAD,
                f"  {number(tally.undecided.total_vectors)} vectors are undecided, the first "
                f"{verdict.undecided}: their logit cannot be told from zero.",
            )
    known = verdict.certificate.horizon if verdict.certificate else verdict.horizon
    if known is not None:
        yield from horizon_lines(known)
    if verdict.certificate is not None:
        yield from _certificate(verdict.certificate)
    yield _PLAIN, "These are statements about real numbers, the float32 weights taken as exact."
    if verdict.replays:
        yield from _replays(verdict.replays)


def _side(name: str, side: Side, first: Counterexample | None) -> Iterator[Line]:
    if first is None:
        yield _GOOD, f"  no {name}."
        return
    yield (
        _PLAIN,
        f"  {number(side.total_strings)} {name} ({number(side.total_vectors)} count vectors), "
        f"the first {first.string} (length {first.length}, logit {first.logit:+.4g}).",
    )


def horizon_lines(known: Horizon) -> Iterator[Line]:
    if known.infinite:
        yield _GOOD, "Horizon: infinite. No string of any length is wrong."
    elif known.length is None:
        yield (
            _PLAIN,
            f"Horizon: beyond {known.right_through:,}; no error found up to {known.limit:,}.",
        )
    else:
        first = known.shortest.string if known.shortest else "?"
        if not known.proved:
            claim = (
                f"Horizon: at most {known.length:,}; proved right through {known.right_through:,}"
            )
        elif known.length:
            claim = f"Horizon: {known.length:,}. Every string up to there is right"
        else:
            claim = "Horizon: 0. Strings of a single letter are already wrong"
        yield _PLAIN, f"{claim}; the first error is {first}."
    for face in known.by_letters:
        if face.shortest is not None:
            kind = face.shortest.kind.replace("_", " ")
            yield _PLAIN, f"  over exactly {face.letters}: first {kind} {face.shortest.string}"


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
