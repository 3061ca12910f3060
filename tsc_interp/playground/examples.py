"""Strings worth trying first, by task: both answers, close calls, and long ones."""

from __future__ import annotations

from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import AtLeast, ContainsAll, Majority, Parity

# The source report's running examples, for its own task.
_REPORT = ["aac", "baac", "ab{100}", "ab{100}c{55}", "b{2}c{152}", "abc{1000000}"]


def examples(config: ClassifierConfig) -> list[str]:
    """Up to six strings in canonical notation, yes and no wherever the alphabet has both."""
    task, letters = config.task, config.alphabet.letters
    other = next((letter for letter in letters if letter not in task.needs), "")
    if isinstance(task, ContainsAll):
        report = task.letters == "ab" and other == "c"
        strings = _REPORT if report else _contains_all(task.letters, other)
    elif isinstance(task, AtLeast):
        strings = _at_least(task, other)
    elif isinstance(task, Majority):
        strings = _majority(task, other)
    elif isinstance(task, Parity):
        strings = _parity(task, other)
    else:
        strings = [letters[0], letters, f"{letters}{letters[-1]}{{9}}"]
    return list(dict.fromkeys(config.alphabet.canonical(text) for text in strings if text))


def _contains_all(needed: str, other: str) -> list[str]:
    short = needed[:-1] + other
    long = f"{other or needed[-1]}{{100}}"
    strings = [short, needed, f"{needed}{long}", f"{short}{long}" if short else ""]
    return [*strings, f"{needed[0]}{{1000000}}{needed[1:]}"]


def _at_least(task: AtLeast, other: str) -> list[str]:
    enough, short = f"{task.letter}{{{task.k}}}", f"{task.letter}{{{task.k - 1}}}" * (task.k > 1)
    strings = [f"{short}{other}", enough]
    if other:
        strings += [
            f"{enough}{other}{{100}}",
            f"{short}{other}{{100}}",
            f"{enough}{other}{{1000000}}",
        ]
    return [*strings, f"{task.letter}{{1000000}}"]


def _majority(task: Majority, other: str) -> list[str]:
    letter = task.letter
    if not other:
        return [letter, f"{letter}{{100}}"]
    strings = [f"{letter}{other}", f"{letter}{{2}}{other}", f"{letter}{{51}}{other}{{49}}"]
    return [*strings, f"{letter}{{50}}{other}{{50}}", f"{letter}{{1000000}}{other}{{999999}}"]


def _parity(task: Parity, other: str) -> list[str]:
    letter, rest = task.letter, f"{other}{{100}}" if other else ""
    strings = [letter, f"{letter}{{2}}", f"{letter}{{99}}{other}", f"{letter}{{100}}{other}"]
    return [*strings, f"{letter}{{1000001}}{rest}", other]
