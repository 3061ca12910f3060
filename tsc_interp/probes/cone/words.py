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
    statements = [
        _crossing(subset) for subset in sets if subset.crosses and not _explained(subset, sets)
    ]
    quiet = [subset for subset in sets if not subset.crosses]
    if quiet:
        statements.append(_quiet(quiet, everything=len(quiet) == len(sets)))
    return tuple(statements)


def _explained(subset: NegativeSet, sets: Sequence[NegativeSet]) -> bool:
    """A smaller set that crosses with a string as short says it all."""
    return any(
        other.crosses and set(other.letters) < set(subset.letters)
        and (other.length or 0) <= (subset.length or 0)
        for other in sets
    )  # fmt: skip


def _named(subset: NegativeSet) -> str:
    return joined([f"`{letter}`" for letter in subset.letters])


def _crossing(subset: NegativeSet) -> Finding:
    reach = f"the logit reaches {subset.max_logit:+.4f}"
    where = f" at {subset.written_mixture()}" if len(subset.letters) > 1 else ""
    numbers: dict[str, Cell] = {"largest logit": subset.max_logit, "length": subset.length}
    if subset.length is None:
        text = (
            f"Real-valued mixtures of {_named(subset)} can be false positives ({reach}{where}), "
            "but no such string with up to a billion of each letter was found."
        )
        return Finding.of(text, numbers, "warning")
    exact = subset.length <= subset.searched_to
    kind = "shortest" if exact else "shortest found"
    text = (
        f"Strings of {_named(subset)} alone can be false positives: {reach}{where}. The {kind} is "
        f"`{subset.shortest}` ({subset.length:,} letter{'s' * (subset.length > 1)})"
    )
    if not exact:
        text += (
            f"; every such string up to length {subset.searched_to:,} was evaluated and is right"
        )
    if subset.latent:
        text += f". Test strings of up to {subset.visible} letters do not reveal it"
    return Finding.of(text + ".", numbers, "warning" if subset.latent else "failure")


def _quiet(sets: Sequence[NegativeSet], everything: bool) -> Finding:
    """The sets that stay negative, the closest to crossing first."""
    closest = sorted(sets, key=lambda subset: -subset.max_logit)
    shown = ", ".join(f"{_named(subset)} {subset.max_logit:+.4f}" for subset in closest[:4])
    more = f" and {len(closest) - 4} more below" if len(closest) > 4 else ""
    start = "No mixture of letters that should give a no reaches a yes" if everything else (
        "No mixture of the other sets reaches a yes")  # fmt: skip
    how = (
        "" if all(subset.dense for subset in sets) else " (searched from many starts, not densely)"
    )
    text = f"{start}{how}. The largest logits: {shown}{more}."
    return Finding.of(text, {subset.letters: subset.max_logit for subset in closest[:4]}, "good")
