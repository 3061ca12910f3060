"""What the cone probe found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from tsc_interp.probes.cone.result import ConeResult, NegativeSet
from tsc_interp.probes.wording import joined
from tsc_interp.results.base import Cell, Finding


def findings(result: ConeResult) -> tuple[Finding, ...]:
    sets = result.sets
    if not sets:
        return (Finding.of("No set of letters is negative by itself."),)
    statements = [_crossing(one) for one in sets if one.crosses and not _explained(one, sets)]
    quiet = [one for one in sets if not one.crosses]
    if quiet:
        statements.append(_quiet(quiet, everything=len(quiet) == len(sets)))
    return tuple(statements)


def _explained(one: NegativeSet, sets: Sequence[NegativeSet]) -> bool:
    """A smaller set that crosses with a string as short says it all."""
    return any(
        other.crosses and set(other.letters) < set(one.letters)
        and (other.length or 0) <= (one.length or 0)
        for other in sets
    )  # fmt: skip


def _named(one: NegativeSet) -> str:
    return joined([f"`{letter}`" for letter in one.letters])


def _crossing(one: NegativeSet) -> Finding:
    reach = f"the logit reaches {one.max_logit:+.4f}"
    where = f" at {one.written_mixture()}" if len(one.letters) > 1 else ""
    numbers: dict[str, Cell] = {"largest logit": one.max_logit, "length": one.length}
    if one.length is None:
        text = (
            f"Real-valued mixtures of {_named(one)} can be false positives ({reach}{where}), but "
            "no such string with up to a billion of each letter was found."
        )
        return Finding.of(text, numbers, "warning")
    exact = one.length <= one.searched_to
    kind = "shortest" if exact else "shortest found"
    text = (
        f"Strings of {_named(one)} alone can be false positives: {reach}{where}. The {kind} is "
        f"`{one.shortest}` ({one.length:,} letter{'s' * (one.length > 1)})"
    )
    if not exact:
        text += f"; every such string up to length {one.searched_to:,} was evaluated and is right"
    if one.latent:
        text += f". Test strings of up to {one.visible} letters do not reveal it"
    return Finding.of(text + ".", numbers, "warning" if one.latent else "failure")


def _quiet(sets: Sequence[NegativeSet], everything: bool) -> Finding:
    """The sets that stay negative, the closest to crossing first."""
    closest = sorted(sets, key=lambda one: -one.max_logit)
    shown = ", ".join(f"{_named(one)} {one.max_logit:+.4f}" for one in closest[:4])
    more = f" and {len(closest) - 4} more below" if len(closest) > 4 else ""
    start = "No mixture of letters that should give a no reaches a yes" if everything else (
        "No mixture of the other sets reaches a yes")  # fmt: skip
    how = "" if all(one.dense for one in sets) else " (searched from many starts, not densely)"
    text = f"{start}{how}. The largest logits: {shown}{more}."
    return Finding.of(text, {one.letters: one.max_logit for one in closest[:4]}, "good")
