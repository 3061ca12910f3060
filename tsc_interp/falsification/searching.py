"""The search for a wrong input, and its way to a simple one.

Every decision is made after a fixed number of inputs, never after a number of seconds, so equal
seeds give equal hits as long as time does not run out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tsc_interp.enumeration.deciding import OutOfTime
from tsc_interp.falsification.families import Rng, inputs, neighbours
from tsc_interp.falsification.question import Answers, Question
from tsc_interp.frames.frame import Frame, Letters
from tsc_interp.telling import Progress

Word = tuple[int, ...]

LISTED = 20_000
"""All inputs of the shortest lengths are tried, as far as they are no more than these."""
PER_FAMILY = 2_000
LENGTHS = 8
"""Lengths at which families are tried, spread over those the frame has."""
CLIMBERS, STEPS = 64, 32
_KEPT = 256


@dataclass
class Search:
    """What has been tried and found so far."""

    question: Question
    rng: Rng
    progress: Progress
    kept: float = 0.0
    """Seconds before the end that are kept for what follows, once something is found."""
    families: dict[str, list[int]] = field(default_factory=dict)
    """Inputs tried and wrong answers, by kind of input."""
    hits: set[Word] = field(default_factory=set)
    near: dict[Word, float] = field(default_factory=dict)
    bases: dict[tuple[int, int], list[Word]] = field(default_factory=dict)
    """Right inputs by length and (first) label, to change one letter in."""

    def examine(self, name: str, letters: Letters) -> Answers:
        """Ask the model about inputs of one length, and keep the hits and the near misses."""
        if self.hits and self.question.clock() > self.question.deadline - self.kept:
            raise OutOfTime
        answers = self.question.ask(letters)
        counted = self.families.setdefault(name, [0, 0])
        counted[0] += int(answers.known.sum())
        counted[1] += int(answers.wrong.sum())
        wrong = letters[answers.wrong]
        simplest = wrong[simplest_rows(self.question.frame, wrong, _KEPT)]
        self.hits |= set(map(tuple, simplest.tolist()))
        right = answers.at(answers.known & ~answers.wrong)
        for i in np.argsort(right.margins, kind="stable")[:CLIMBERS]:
            self.near[tuple(right.letters[i].tolist())] = float(right.margins[i])
        self.near = dict(sorted(self.near.items(), key=lambda item: item[1])[:CLIMBERS])
        self._keep_bases(right)
        return answers

    def _keep_bases(self, right: Answers, per_label: int = 32) -> None:
        n = right.letters.shape[1]
        for label in np.unique(right.labels[:, 0]).tolist():
            if label < 0:
                continue
            bases = self.bases.setdefault((n, label), [])
            rows = np.flatnonzero(right.labels[:, 0] == label)
            if len(bases) < 8 * per_label:
                chosen = self.rng.permutation(rows)[:per_label]
                bases += [tuple(word) for word in right.letters[chosen].tolist()]

    # -- what is tried -------------------------------------------------------------------------

    def systematic(self) -> None:
        """All short inputs, the families, and one letter changed in what was answered right."""
        frame = self.question.frame
        listed = 0
        for n in frame.lengths:
            listed += frame.count(n)
            if listed > LISTED:
                break
            for letters in frame.every(n):
                self.examine("all of the shortest", letters)
        lengths = spread(frame, LENGTHS)
        most = max(PER_FAMILY // len(lengths), 500)
        for n in lengths:
            self.progress(f"families of {n} letters")
            for name, letters in inputs(frame, n, most, self.rng):
                self.examine(name, letters)
        self.near_misses()

    def near_misses(self) -> None:
        """One letter changed so that the label changes."""
        self.progress("near misses")
        for key in sorted(self.bases):
            letters, _ = self.flipped(self.bases[key], PER_FAMILY)
            if len(letters):
                self.examine("near misses", letters)

    def flipped(self, words: list[Word], most: int) -> tuple[Letters, Letters]:
        """Inputs with one letter changed and another label than before, and the place changed."""
        if not words:
            return np.empty((0, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
        frame, base = self.question.frame, np.array(words, dtype=np.int64)
        letters, row, place = neighbours(frame, base, most, self.rng)
        if not len(letters):
            return letters, place
        before = self.question.labels(frame.rows(base))[row]
        labels = self.question.labels(frame.rows(letters))
        changed = self.question.known(labels) & (labels != before).any(axis=1)
        return letters[changed], place[changed]

    def climb(self, most: int) -> None:
        """Change letters of nearly wrong and of random inputs as long as margins fall.

        Args:
            most: Inputs to try; the search ends at the first hit or near this number.
        """
        frame, start = self.question.frame, self.question.tried
        for n, words in self._starts():
            letters = np.array(words, dtype=np.int64)
            margins = self.question.ask(letters).margins
            stale = np.zeros(len(letters), dtype=np.int64)
            share = most // max(len(spread(frame, LENGTHS)), 1)
            began = self.question.tried
            while self.question.tried - began < share and not self.hits:
                self.progress(f"search: {self.question.tried - start:,} of {most:,} inputs")
                owner = np.repeat(np.arange(len(letters)), STEPS)
                steps = self._moved(letters[owner])
                answers = self.examine("coordinate search", steps)
                table = answers.margins.reshape(len(letters), STEPS)
                best = table.argmin(axis=1)
                least = table[np.arange(len(letters)), best]
                better = least < margins
                letters[better] = steps.reshape(len(letters), STEPS, n)[better, best[better]]
                margins = np.where(better, least, margins)
                stale = np.where(better, 0, stale + 1)
                lost = stale > 8
                if lost.any():
                    letters[lost] = frame.sample(int(lost.sum()), self.rng, n)
                    margins[lost], stale[lost] = np.inf, 0
            if self.hits:
                return

    def _starts(self) -> Iterator[tuple[int, list[Word]]]:
        """For each length, the inputs nearest to a wrong answer, and random ones."""
        frame = self.question.frame
        for n in reversed(spread(frame, LENGTHS)):
            near = [word for word in self.near if len(word) == n][: CLIMBERS // 2]
            drawn = frame.sample(CLIMBERS - len(near), self.rng, n).tolist()
            yield n, [*near, *map(tuple, drawn)]

    def _moved(self, letters: Letters) -> Letters:
        """Every row with one letter changed; every other row with two."""
        frame, moved = self.question.frame, letters.copy()
        for turn in range(2):
            rows = np.arange(turn, len(moved), turn + 1)
            place = self.rng.integers(0, letters.shape[1], size=len(rows))
            other_place = self.rng.integers(0, letters.shape[1], size=len(rows))
            if frame.distinct:
                own = moved[rows, place].copy()
                moved[rows, place], moved[rows, other_place] = moved[rows, other_place], own
            if not frame.distinct or turn == 0:
                drawn = frame.sample(len(rows), self.rng, letters.shape[1])
                new = drawn[np.arange(len(rows)), place]
                free = ~(moved[rows] == new[:, None]).any(axis=1) | (not frame.distinct)
                moved[rows[free], place[free]] = new[free]
        return frame.settled(moved)

    # -- the simplest --------------------------------------------------------------------------

    def shrink(self, word: Word) -> Word:
        """A simplest wrong input near this one: no candidate below is both wrong and simpler."""
        frame, best = self.question.frame, word
        for _ in range(200):
            key = simplicity(frame, best)
            simpler = sorted(
                {
                    candidate
                    for changed in _candidates(frame, best)
                    if (candidate := _settled(frame, changed)) is not None
                    and simplicity(frame, candidate) < key
                },
                key=lambda candidate: simplicity(frame, candidate),
            )
            wrong_word = next(self._wrong(simpler), None)
            if wrong_word is None:
                break
            best = wrong_word
        return best

    def _wrong(self, words: list[Word]) -> Iterator[Word]:
        """Those of the words, in their order, that are answered wrong."""
        for start in range(0, len(words), 512):
            batch = words[start : start + 512]
            for n in dict.fromkeys(map(len, batch)):
                own = [word for word in batch if len(word) == n]
                answers = self.examine("shrinking", np.array(own, dtype=np.int64))
                yield from (own[i] for i in np.flatnonzero(answers.wrong))


def spread(frame: Frame, most: int) -> list[int]:
    """Some of the lengths, the shortest and the longest among them."""
    lengths = frame.lengths
    at = np.unique(np.linspace(0, len(lengths) - 1, most).round().astype(int))
    return [lengths[i] for i in at]


def simplicity(frame: Frame, word: Word) -> tuple[object, ...]:
    """Smaller is simpler: fewer letters, fewer different ones, fewer runs, then the first.

    Where tokens stand between the letters, as in 0500+0500, fewer letters other than the first of
    their place instead of fewer runs.
    """
    numbers = [frame.letters[place].index(letter) for place, letter in enumerate(word)]
    changes = sum(map(bool, numbers)) if frame.between else sum(a != b for a, b in pairwise(word))
    return len(word), len(set(word)), changes, tuple(numbers)


def simplest_rows(frame: Frame, letters: Letters, most: int) -> Letters:
    """The rows of the simplest few of many inputs of one length, by the order of `simplicity`."""
    numbers = np.empty_like(letters)
    for place, own in enumerate(letters.T):
        known = np.array(frame.letters[place])
        order = known.argsort()
        numbers[:, place] = order[np.searchsorted(known, own, sorter=order)]
    changes = numbers if frame.between else np.diff(letters, axis=1)
    runs = (changes != 0).sum(axis=1)
    different = (np.diff(np.sort(letters, axis=1), axis=1) != 0).sum(axis=1)
    return np.lexsort((*numbers.T[::-1], runs, different))[:most]


def _candidates(frame: Frame, word: Word) -> Iterator[Word]:
    """Ways to make an input simpler: drop a letter, merge letters, change one or two places."""
    n = len(word)
    if n - 1 in frame.lengths:
        shorter = {word[:i] + word[i + 1 :] for i in range(n)}
        if n - 2 in frame.lengths:  # a pair, as brackets come in
            shorter |= {word[:i] + word[i + 1 : j] + word[j + 1 :]
                        for j in range(n) for i in range(j)}  # fmt: skip
        yield from (cut for cut in shorter if all(c in frame.letters[i] for i, c in enumerate(cut)))
    if frame.distinct:
        for i in range(n):
            yield from (
                (*word[:i], c, *word[i + 1 :]) for c in frame.letters[i] if c not in word
            )  # fmt: skip
        for i in range(n):
            for j in range(i):
                yield (*word[:j], word[i], *word[j + 1 : i], word[j], *word[i + 1 :])
        return
    lowest = {letter for letters in frame.letters[:n] for letter in letters[:4]}
    useful = sorted({*word, *lowest})
    for old in sorted(set(word)):
        for new in useful:
            yield _allowed(frame, tuple(new if letter == old else letter for letter in word), word)
    for i in range(n):
        yield from (_allowed(frame, (*word[:i], c, *word[i + 1 :]), word) for c in useful)
        for j in range(i):
            for c in useful[:8]:
                yield _allowed(
                    frame, (*word[:j], c, *word[j + 1 : i], c, *word[i + 1 :]), word
                )  # fmt: skip


def _settled(frame: Frame, word: Word) -> Word | None:
    """The input with the letters that places repeat, or None where letters may not be so."""
    if not frame.equal:
        return word
    letters = frame.settled(np.array([word]))
    return tuple(letters[0].tolist()) if frame.allows(letters)[0] else None


def _allowed(frame: Frame, changed: Word, word: Word) -> Word:
    """The changed input, with the old letter where the new one may not stand."""
    return tuple(
        new if new in frame.letters[i] else old
        for i, (new, old) in enumerate(zip(changed, word, strict=True))
    )
