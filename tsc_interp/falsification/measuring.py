"""How often a model is wrong: on inputs drawn by chance, by class, by length, and by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from tsc_interp.errors import UsageError
from tsc_interp.falsification.question import Question
from tsc_interp.falsification.result import Rate
from tsc_interp.falsification.searching import Search
from tsc_interp.frames.frame import Frame, Letters

SAMPLE = 20_000
PER_PLACE = 200
_MOST_CLASSES, _ENOUGH = 60, 20
Draw = Callable[[np.random.Generator, int], Letters]


def sampled(search: Search, draw: Draw | None) -> tuple[Rate, list[Rate], list[Rate]]:
    """The error rate of inputs drawn by chance, and its parts by class and by length.

    Args:
        search: Whose question is asked, and which keeps what is found.
        draw: Token rows from random numbers and a count; by default every input of the frame is
            equally likely.
    """
    frame, rng = search.question.frame, search.rng
    drawn = "drawn uniformly from the frame" if draw is None else "drawn by the function given"
    classes: Counter[str] = Counter()
    wrong_classes: Counter[str] = Counter()
    lengths: dict[int, list[int]] = {}
    batches = _uniform(frame, rng) if draw is None else _letters(frame, draw(rng, SAMPLE))
    for letters in batches:
        answers = search.examine("drawn by chance", letters)
        tally = lengths.setdefault(letters.shape[1], [0, 0])
        tally[0] += int(answers.wrong.sum())
        tally[1] += int(answers.known.sum())
        if answers.labels.shape[1] == 1:
            answers = answers.at(answers.known)
            for label, wrong in zip(answers.labels[:, 0].tolist(), answers.wrong, strict=True):
                classes[f"class {label}"] += 1
                wrong_classes[f"class {label}"] += bool(wrong)
    total = Rate(
        of=f"inputs {drawn}",
        wrong=sum(wrong for wrong, _ in lengths.values()),
        tried=sum(tried for _, tried in lengths.values()),
    )
    names = sorted(classes, key=lambda name: int(name.split()[1]))[:_MOST_CLASSES]
    by_class = [Rate(of=name, wrong=wrong_classes[name], tried=classes[name]) for name in names]
    by_length = [
        Rate(of=f"{n} letters", wrong=wrong, tried=tried)
        for n, (wrong, tried) in sorted(lengths.items())
    ]
    return total, by_class if len(by_class) > 1 else [], by_length if len(by_length) > 1 else []


def _uniform(frame: Frame, rng: np.random.Generator) -> list[Letters]:
    drawn = frame.draw_lengths(SAMPLE, rng)
    return [
        batch
        for n, count in drawn.items()
        for batch in np.array_split(frame.sample(count, rng, n), max(1, count // 5000))
    ]


def _letters(frame: Frame, rows: object) -> list[Letters]:
    """Letters of token rows that a user's function gave, by length."""
    by_length: dict[int, list[tuple[int, ...]]] = {}
    for row in np.asarray(rows).tolist():
        letters = frame.letters_of(row)
        if letters is None:
            raise UsageError(f"the function drew {row[:24]}, which is no input of the frame")
        by_length.setdefault(len(letters), []).append(letters)
    return [np.array(words, dtype=np.int64) for _, words in sorted(by_length.items())]


def by_place(search: Search) -> list[Rate]:
    """One letter changed at a place so that the label changes: how often the answer is wrong.

    Where the label compares places in pairs, as a palindrome does, pairs are named.
    """
    question = search.question
    n = max((n for n, _ in search.bases), default=0)
    if n < 2:
        return []
    tried, wrong = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    pairs = False
    for (length, _), words in sorted(search.bases.items()):
        if length != n:
            continue
        # The most varied ones: in a constant, changes are seen or missed for other reasons.
        words = sorted(words, key=lambda word: -len(set(word)))[: max(len(words) // 2, 1)]
        letters, place = search.flipped(words, PER_PLACE * n)
        if not len(letters):
            continue
        answers = search.examine("one letter changed", letters)
        np.add.at(tried, place, 1)
        np.add.at(wrong, place, answers.wrong)
        pairs = pairs or _in_pairs(question, letters, place, words)
    if pairs:
        return [
            Rate(
                of=f"pair {i + 1} (places {i + 1} and {n - i})",
                wrong=int(wrong[i] + wrong[n - 1 - i]),
                tried=int(tried[i] + tried[n - 1 - i]),
            )
            for i in range(n // 2)
        ]
    return [
        Rate(of=f"place {i + 1}", wrong=int(wrong[i]), tried=int(tried[i]))
        for i in range(n)
        if tried[i]
    ]


def _in_pairs(
    question: Question, letters: Letters, place: Letters, words: list[tuple[int, ...]]
) -> bool:
    """Whether the label compares mirrored places: one change breaks it, both together do not."""
    frame, n = question.frame, letters.shape[1]
    before = question.labels(frame.rows(np.array(words, dtype=np.int64)))
    if frame.distinct or len(set(frame.letters[:n])) > 1 or (before != before[0]).any():
        return False
    mended, at = letters.copy(), np.arange(len(letters))
    mended[at, n - 1 - place] = letters[at, place]
    after = question.labels(frame.rows(mended))
    return len(after) >= _ENOUGH and bool((after == before[0]).all())
