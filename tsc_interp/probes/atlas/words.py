"""What an atlas says, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from tsc_interp.probes.atlas.result import AtlasResult, LetterSet
from tsc_interp.results.base import Cell, Finding, Severity
from tsc_interp.source_report import TEST_LENGTH


def findings(result: AtlasResult) -> tuple[Finding, ...]:
    sets = result.sets
    return (_horizon(result), *_false_positives(sets), *_false_negatives(sets))


def _horizon(result: AtlasResult) -> Finding:
    numbers: dict[str, Cell] = {
        "horizon": result.horizon,
        "verified_length": result.verified_length,
    }
    if result.infinite:
        text = f"The model is proved right on every string of every length ({result.task})."
        return Finding.of(text, numbers, "good")
    first = result.shortest
    if first is None:
        text = (
            f"Every string of up to {result.verified_length:,} letters is right, and no error was "
            f"found up to {result.limit:,} letters."
        )
        return Finding.of(text, numbers, "good")
    if result.verified_length:
        start = f"Every string of up to {result.verified_length:,} letters is proved right;"
    else:
        start = "The model is wrong from the shortest strings on;"
    numbers |= {"first_length": first.length, "first_logit": first.logit}
    text = f"{start} the first error is `{first.first_error}`, a {first.kind}."
    return Finding.of(text, numbers, _severity(first))


def _false_positives(sets: Sequence[LetterSet]) -> list[Finding]:
    negative = [letter_set for letter_set in sets if letter_set.label == 0]
    failing = [letter_set for letter_set in negative if letter_set.kind == "false positive"]
    if not negative:
        return []
    if failing:
        shortest = min(failing, key=lambda letter_set: letter_set.length or 0)
        return [
            Finding.of(
                f"{len(failing)} of the {len(negative)} sets of letters whose answer is no "
                f"{'has' if len(failing) == 1 else 'have'} false positives; the shortest is "
                f"`{shortest.first_error}`.",
                {"sets": len(failing), "length": shortest.length},
                _severity(shortest),
            )
        ]
    proved = sum(letter_set.always_right for letter_set in negative)
    if proved == len(negative):
        text = f"No false positive of any length: proved for all {proved} negative sets of letters."
        return [Finding.of(text, {"sets": proved}, "good")]
    text = (
        f"No false positive was found; {proved} of {len(negative)} negative sets of letters are "
        f"proved free of them at every length."
    )
    return [Finding.of(text, {"sets": proved})]


def _false_negatives(sets: Sequence[LetterSet]) -> list[Finding]:
    failing = [letter_set for letter_set in sets if letter_set.kind == "false negative"]
    if not failing:
        return []
    listed = ", ".join(f"`{letter_set.first_error}`" for letter_set in failing[:4])
    more = f" and {len(failing) - 4} more sets" if len(failing) > 4 else ""
    shortest = min(failing, key=lambda letter_set: letter_set.length or 0)
    return [
        Finding.of(
            f"The shortest false negatives, one for each set of letters: {listed}{more}.",
            {"sets": len(failing), "length": shortest.length},
            _severity(shortest),
        )
    ]


def _severity(failing: LetterSet) -> Severity:
    return "failure" if failing.length is not None and failing.length <= TEST_LENGTH else "warning"
