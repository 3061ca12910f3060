"""Pairs of strings worth comparing, found around the strings that are given.

First, for a string the model gets wrong: the wrong string, and the longest of its kind, with fewer
of its most frequent letter (or, where length must stay, with one letter replaced), that it gets
right. Then two strings that differ in one letter and in their label, both answered right where such
a pair is found near a wrong string or near the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.inputs import Floats, as_array

Found = tuple[str, str, str]
"""Clean, corrupted, and why."""
_MOST_SHORTENED = 512
_APART = 1e-3


def find_pairs(
    model: Any, config: ClassifierConfig, strings: list[str], *, same_length: bool
) -> list[Found]:
    """At most two: a wrong string and a right one of its label, and two labels one letter apart."""
    known = _Answers(model, config)
    strings = [s for s in dict.fromkeys(strings) if not same_length or known.readable(s)]
    known.add(strings)
    pairs: list[Found] = []
    around: list[str] = []
    for wrong in (s for s in strings if not known.right(s)):
        right = _right_of_its_kind(known, wrong, same_length)
        if right is not None:
            why = "the corrupted one is wrong, the clean one has the same label and is right"
            pairs.append((right, wrong, why))
            around.append(right)
            break
    # What the rule names, or else all letters: no given string may be near the other label.
    needs = config.task.needs or config.alphabet.letters
    often = [config.alphabet.canonical(f"{needs[0]}{{{k}}}") for k in range(1, 17)]
    labels = _label_pair(known, [*around, *strings, needs, *often], strings, same_length)
    if labels is None and not pairs:
        raise UnsupportedError(
            "no two strings one letter apart were found that differ in their label and their "
            "logit; name a pair: pairs=[(clean, corrupted)]"
        )
    return pairs if labels is None else [*pairs, labels]


class _Answers:
    """Labels and logits of strings, each asked for once."""

    def __init__(self, model: Any, config: ClassifierConfig) -> None:
        self.model, self.config = model, config
        self.logits: dict[str, float] = {}
        self.labels: dict[str, bool] = {}

    def readable(self, string: str) -> bool:
        """Whether it can be written out for this model; by position, 100 letters are plenty."""
        length = int(self.config.alphabet.counts(string).sum())
        return length < min(100, self.config.n_positions or 100)

    def add(self, strings: list[str]) -> None:
        import torch

        new = [s for s in dict.fromkeys(strings) if s not in self.logits]
        if not new:
            return
        with torch.no_grad():
            logits: Floats = as_array(self.model(new))
        labels = self.config.classes(new)
        self.logits |= dict(zip(new, logits.tolist(), strict=True))
        self.labels |= dict(zip(new, labels.tolist(), strict=True))

    def right(self, string: str) -> bool:
        return (self.logits[string] > 0) == self.labels[string]

    def gap(self, string: str, other: str) -> float:
        return abs(self.logits[string] - self.logits[other])


def _right_of_its_kind(known: _Answers, wrong: str, same_length: bool) -> str | None:
    """The nearest string of the same label that is answered right."""
    alphabet = known.config.alphabet
    if same_length:
        near = list(_replaced(known, wrong))
    else:
        counts = alphabet.counts(wrong)
        most = int(counts.argmax())
        fewer = np.unique(np.geomspace(1, counts[most], _MOST_SHORTENED).astype(int))[:-1]
        if counts[most] <= _MOST_SHORTENED:
            fewer = np.arange(1, counts[most])
        near = []
        for count in fewer[::-1].tolist():
            shorter = counts.copy()
            shorter[most] = count
            near.append(alphabet.write(shorter))
    known.add(near)
    for string in near:
        same = known.labels[string] == known.labels[wrong]
        if same and known.right(string) and known.gap(string, wrong) > _APART:
            return string
    return None


def _label_pair(
    known: _Answers, seeds: list[str], given: list[str], same_length: bool
) -> Found | None:
    """Clean is the string with the positive label."""
    best: tuple[float, Found] | None = None
    for seed in dict.fromkeys(seeds):
        if same_length and not known.readable(seed):
            continue
        near = list(_replaced(known, seed) if same_length else _one_letter_apart(known, seed))
        near.sort(key=lambda string: string not in given)  # stable: given strings first
        known.add([seed, *near])
        for other in near:
            if known.labels[other] == known.labels[seed]:
                continue
            clean, corrupted = (seed, other) if known.labels[seed] else (other, seed)
            right = known.right(seed) and known.right(other)
            gap = known.gap(seed, other)
            why = "one letter apart, with different labels"
            if right and gap > _APART:
                return clean, corrupted, f"{why}, both answered right"
            if gap > max(_APART, best[0] if best else 0.0):
                best = gap, (clean, corrupted, why)
    return None if best is None else best[1]


def _one_letter_apart(known: _Answers, string: str) -> Iterator[str]:
    """By counts: one letter replaced, then one more, then one less."""
    alphabet = known.config.alphabet
    counts = alphabet.counts(string)
    units = np.eye(alphabet.size, dtype=np.int64)
    moves = [add - take for take in units for add in units if (add != take).any()]
    for move in [*moves, *units, *-units]:
        changed = counts + move
        if changed.min() >= 0 and changed.any():
            yield alphabet.write(changed)


def _replaced(known: _Answers, string: str) -> Iterator[str]:
    """By place: one letter replaced, everything else where it was."""
    alphabet = known.config.alphabet
    letters = alphabet.expand(string)
    for at, old in enumerate(letters):
        for new in alphabet.letters:
            if new != old:
                yield alphabet.canonical(letters[:at] + new + letters[at + 1 :])
