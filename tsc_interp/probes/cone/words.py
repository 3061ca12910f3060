"""What the cone probe found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from tsc_interp.probes.cone.result import ConeResult, NegativeSet
from tsc_interp.probes.wording import joined
from tsc_interp.results.base import Cell, Finding, Severity


def findings(result: ConeResult) -> tuple[Finding, ...]:
    sets = result.sets
    if not sets:
        return (Finding.of("No set of letters is negative by itself."),)
    statements = [_crossing(case) for case in sets if case.crosses and not _explained(case, sets)]
    quiet = [case for case in sets if not case.crosses]
    if quiet:
        statements.append(_quiet(quiet, everything=len(quiet) == len(sets)))
    return tuple(statements)


def _explained(case: NegativeSet, sets: Sequence[NegativeSet]) -> bool:
    """A smaller set that crosses with a string as short says it all."""
    return any(
        other.crosses and set(other.letters) < set(case.letters)
        and (other.length or 0) <= (case.length or 0)
        for other in sets
    )  # fmt: skip


def _named(case: NegativeSet) -> str:
    return joined([f"`{letter}`" for letter in case.letters])


def _crossing(case: NegativeSet) -> Finding:
    reach = f"the logit reaches {case.max_logit:+.4f}"
    where = f" at {case.written_mixture()}" if len(case.letters) > 1 else ""
    numbers: dict[str, Cell] = {"largest logit": case.max_logit, "length": case.length}
    if case.length is None:
        text = (
            f"Real-valued mixtures of {_named(case)} can be false positives ({reach}{where}), but "
            "no such string with up to a billion of each letter was found."
        )
        return Finding.of(text, numbers, "warning")
    exact = case.length <= case.searched_to
    kind = "shortest" if exact else "shortest found"
    text = (
        f"Strings of {_named(case)} alone can be false positives: {reach}{where}. The {kind} is "
        f"`{case.shortest}` ({case.length:,} letter{'s' * (case.length > 1)})"
    )
    if not exact:
        text += f"; every such string up to length {case.searched_to:,} was evaluated and is right"
    if case.latent:
        text += f". Test strings of up to {case.visible} letters do not reveal it"
    severity: Severity = "warning" if case.latent else "failure"
    return Finding.of(text + ".", numbers, severity, string=case.shortest)


def _quiet(sets: Sequence[NegativeSet], everything: bool) -> Finding:
    """The sets that stay negative, the closest to crossing first."""
    closest = sorted(sets, key=lambda case: -case.max_logit)
    shown = ", ".join(f"{_named(case)} {case.max_logit:+.4f}" for case in closest[:4])
    more = f" and {len(closest) - 4} more below" if len(closest) > 4 else ""
    start = "No mixture of letters that should give a no reaches a yes" if everything else (
        "No mixture of the other sets reaches a yes")  # fmt: skip
    how = "" if all(case.dense for case in sets) else " (searched from many starts, not densely)"
    text = f"{start}{how}. The largest logits: {shown}{more}."
    return Finding.of(text, {case.letters: case.max_logit for case in closest[:4]}, "good")
