"""What was counted, in plain words, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from tsc_interp.output.display import BAD, GOOD, PLAIN, Line
from tsc_interp.output.numbers import number, share
from tsc_interp.verification.counting.costs import EXACT_BUDGET, duration
from tsc_interp.verification.counting.tally import Side, Tally
from tsc_interp.verification.horizon_result import Counterexample


def counting_lines(
    tally: Tally, firsts: Sequence[Counterexample | None], undecided: str | None
) -> Iterator[Line]:
    """What was counted, with the first string of each kind of error, and the first undecided."""
    checked = (
        f"All {number(tally.strings)} strings up to length {tally.max_length} checked, "
        f"as {number(tally.vectors)} count vectors"
    )
    if not any(side.total_vectors for side in tally.sides):
        yield GOOD, f"{checked}: none is wrong."
        return
    yield BAD, f"{checked}: {_how_many(tally, firsts)}."
    for name, side, first in zip(tally.names, tally.errors, firsts, strict=False):
        yield _side("wrong strings" if tally.multiclass else name.replace("_", " "), side, first)
    if tally.undecided.total_vectors:
        yield BAD, _undecided(tally, undecided)


def _how_many(tally: Tally, firsts: Sequence[Counterexample | None]) -> str:
    wrong = sum(side.total_strings for side in tally.errors)
    open_ = tally.undecided.total_strings
    if not wrong:
        return f"none is found wrong, but {number(open_)} are undecided"
    more = f", {number(open_)} more undecided" if open_ else ""
    errors = sorted((error for error in firsts if error), key=lambda error: error.order)
    first = f"; the shortest is {errors[0].text}" if errors else ""
    return (
        f"{number(wrong)} are wrong ({share(Fraction(wrong, tally.strings))} of all){more}{first}"
    )


def _undecided(tally: Tally, first: str | None) -> str:
    """How many vectors are undecided, and why."""
    sentence = (
        f"  {number(tally.undecided.total_vectors)} vectors are undecided, the first "
        f"{first}: their logit cannot be told from zero"
    )
    if not tally.out_of_budget:
        return f"{sentence}."
    worth = duration(EXACT_BUDGET / 1e6)
    return f"{sentence}. Exact arithmetic was stopped after {worth} of work; not all were tried."


def _side(name: str, side: Side, first: Counterexample | None) -> Line:
    if first is None:
        return GOOD, f"  no {name}."
    return (
        PLAIN,
        f"  {number(side.total_strings)} {name} ({number(side.total_vectors)} count vectors), "
        f"the first {first.text} (length {first.length}, {first.mistake}).",
    )
