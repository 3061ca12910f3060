"""What changed from one model to another, in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from tsc_interp.report.card import ModelCard


def apart(names: Sequence[str]) -> list[str]:
    """Names without the words they begin with alike, and without backticks, which mean code."""
    words = [name.replace("`", "'").split() for name in names]
    same = 0
    while all(len(name) > same + 1 and name[same] == words[0][same] for name in words):
        same += 1
    return [" ".join(name[same:]) for name in words]


def changes(first: ModelCard, second: ModelCard, names: Sequence[str]) -> str:
    """What is different in the second model: its settings, its errors, how far it is right."""
    told = [_settings(first, second)]
    results = [*_tested(first, second), *_reached(first, second)]
    if results:
        told.append(f"From {names[0]} to {names[1]}, {' and '.join(results)}.")
    return " ".join(told)


def _settings(first: ModelCard, second: ModelCard) -> str:
    if first.weight_hash == second.weight_hash:
        return "The two have the same weights."
    options = dict.fromkeys([*first.config, *second.config])
    differing = [
        f"{option} ({first.config.get(option)} and {second.config.get(option)})"
        for option in options
        if first.config.get(option) != second.config.get(option)
    ]
    if not differing:
        return "The two have the same configuration and different weights."
    return f"They differ in {', '.join(differing)}."


def _tested(first: ModelCard, second: ModelCard) -> list[str]:
    if first.test is None or second.test is None or first.test.strings != second.test.strings:
        return []
    before, after = first.test.errors, second.test.errors
    many = f"the {first.test.strings:,} test strings"
    if before == after:
        return [f"errors on {many} stay {after:,}"]
    return [f"errors on {many} go from {before:,} to {after:,}"]


def _reached(first: ModelCard, second: ModelCard) -> list[str]:
    if first.reach is None or second.reach is None:
        return []
    before, after = first.reach.verified_length, second.reach.verified_length
    what = "the length up to which every string is proved right"
    if before == after:
        return [f"{what} stays {after:,}"]
    return [f"{what} goes from {before:,} to {after:,}"]
