"""Strings worth trying first, by task: both answers, close calls, and long ones."""

from __future__ import annotations

from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Parity

# The source report's running examples, for its own task.
_REPORT = ["aac", "baac", "ab{100}", "ab{100}c{55}", "b{2}c{152}", "abc{1000000}"]


def examples(config: ClassifierConfig) -> list[str]:
    """Up to six strings in canonical notation, yes and no wherever the alphabet has both."""
    task, letters = config.task, config.alphabet.letters
    other = next((letter for letter in letters if letter not in task.needs), "")
    hundred = f"{other}{{100}}" if other else ""
    if isinstance(task, ContainsAll):
        strings = _contains_all(task.letters, other)
    elif isinstance(task, AtLeast):
        x, k = task.letter, task.k
        enough, short = f"{x}{{{k}}}", f"{x}{{{k - 1}}}" if k > 1 else ""
        strings = [f"{short}{other}", enough]
        if other:
            strings += [f"{enough}{hundred}", f"{short}{hundred}", f"{enough}{other}{{1000000}}"]
        strings.append(f"{x}{{1000000}}")
    elif isinstance(task, Majority):
        x = task.letter
        strings = [x, f"{x}{{100}}"]
        if other:
            strings = [f"{x}{other}", f"{x}{{2}}{other}", f"{x}{{51}}{other}{{49}}"]
            strings += [f"{x}{{50}}{other}{{50}}", f"{x}{{1000000}}{other}{{999999}}"]
    elif isinstance(task, Parity):
        x = task.letter
        strings = [x, f"{x}{{2}}", f"{x}{{99}}{other}", f"{x}{{100}}{other}"]
        strings += [f"{x}{{1000001}}{hundred}", other]
    else:
        strings = [letters[0], letters, f"{letters}{letters[-1]}{{9}}"]
    return list(dict.fromkeys(config.alphabet.canonical(text) for text in strings if text))


def _contains_all(needed: str, other: str) -> list[str]:
    if needed == "ab" and other == "c":
        return _REPORT
    short = needed[:-1] + other
    long = f"{other or needed[-1]}{{100}}"
    strings = [short, needed, f"{needed}{long}", f"{short}{long}" if short else ""]
    return [*strings, f"{needed[0]}{{1000000}}{needed[1:]}"]
