"""What the circuits-weights probe found, in sentences."""

from __future__ import annotations

from tsc_interp.probes.circuits_weights.result import CircuitsWeightsResult
from tsc_interp.probes.wording import capital
from tsc_interp.results.base import Cell, Finding

MOST_TOLD = 4


def findings(result: CircuitsWeightsResult) -> tuple[Finding, ...]:
    return (*_compositions(result), *_copying(result), *_reads(result))


def _reads(result: CircuitsWeightsResult) -> list[Finding]:
    """Whether heads score by position or by token."""
    statements = []
    ranges = [
        (name, result.range_of(result.qk_position, i, h), result.range_of(result.qk_token, i, h))
        for i, h, name in result.heads
    ]
    ranges.sort(key=lambda head_ranges: -max(head_ranges[1:]))
    for name, place, token in ranges[:MOST_TOLD]:
        numbers: dict[str, Cell] = {"tokens": token}
        text = f"{capital(name)}'s scores differ by up to {token:.2f} from token to token"
        if result.qk_position is not None:
            text += f" and by up to {place:.2f} from position to position"
            numbers["positions"] = place
        statements.append(Finding.of(f"{text}.", numbers))
    return statements


def _copying(result: CircuitsWeightsResult) -> list[Finding]:
    if not result.copies:
        return []
    count = len(result.ov_token.labels["token"])
    copies = [(name, result.copied(i, h)) for i, h, name in result.heads]
    copies = [copy for copy in copies if copy[1] > count / 2 and count > 1]
    return [
        Finding.of(
            f"{capital(name)} copies: for {copied} of {count} tokens, attending to the token "
            "raises its own logit most.",
            {"copied": copied, "tokens": count},
        )
        for name, copied in sorted(copies, key=lambda copy: -copy[1])[:MOST_TOLD]
    ]


def _compositions(result: CircuitsWeightsResult) -> list[Finding]:
    if result.composition is None or result.chance is None:
        return []
    beyond = [pair for pair in result.pairs() if pair[3] > result.chance]
    total = len(result.pairs())
    text = (
        f"{len(beyond)} of {total} composition scores are larger than nine in ten of shuffled "
        f"weights ({result.chance:.3f})"
    )
    if beyond:
        readings = [f"{to} reads {source} by {by} ({score:.3f})"
                for by, source, to, score in beyond[:MOST_TOLD]]  # fmt: skip
        text += f"; the largest: {', '.join(readings)}"
    return [Finding.of(f"{text}.", {"beyond": len(beyond), "chance": result.chance})]
