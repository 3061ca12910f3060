"""Strings as people write them, and as the model reads them: run lengths, counts, tokens.

Notation: a letter, optionally followed by a repeat in braces. `ab{100}c{55}` is one `a`, a hundred
`b`s and fifty-five `c`s. The rules, all of them:

- letters are the first `n_letters` of `a`-`z`, `A`-`Z`, the Greek `α`-`ω` and then, for the tokens
  of large vocabularies, the Hangul `가`-`힣`; nothing else is, not even white space;
- `{k}` repeats the single letter before it, so there is nothing to nest and nothing to group:
  `{` may only follow a letter, and `a{2}{3}` is an error;
- k is a whole number from 1 to 10^9, digits only; `a{1}` is `a`, leading zeros are accepted;
- the empty string is an error: with `CLS` not attended to it leaves attention nothing to look at;
- at most 10^9 of one letter in a string: counts stay exact in float64 and in int64.

Writing is canonical: a string of at most four letters is written out (`aac`); in a longer one runs
of two or more carry braces (`b{2}c{152}`). Parsing keeps runs and never expands them; only `expand`
and `tokens` build the long form, and they refuse more than `MAX_TOKENS` characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import ConfigError, StringError

CLS = 0
PAD = 1
FIRST_LETTER = 2
_HANGUL = "".join(map(chr, range(0xAC00, 0xD7A4)))
"""Letters behind the first 76; people give names of their own to so many tokens."""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZαβγδεζηθικλμνξοπρστυφχψω" + _HANGUL
MAX_LETTERS = len(LETTERS)
_ONE = "[a-zA-Zα-ρσ-ω가-힣]"
LETTERS_PATTERN = f"^{_ONE}$"
"""Of an option that is one letter."""
MAX_REPEAT = 10**9
MAX_TOKENS = 10**6
WRITTEN_OUT = 4

_RUN = re.compile(rf"({_ONE})(?:\{{([0-9]+)\}})?")

Counts = NDArray[np.int64]
Run = tuple[str, int]


def as_strings(given: str | Iterable[str]) -> list[str]:
    """A single string wherever a list of them is taken."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, Iterable):
        strings = list(given)
        if all(isinstance(string, str) for string in strings):
            return strings
    raise StringError(given, None, "it is neither a string nor a list of strings", "pass one")


@dataclass(frozen=True)
class Alphabet:
    """The first `size` letters of `LETTERS`, with functions that read, count and write strings.

    Example:
        >>> Alphabet(3).counts("ab{66}").tolist()
        [1, 66, 0]
    """

    size: int = 3

    def __post_init__(self) -> None:
        if type(self.size) is not int or not 1 <= self.size <= MAX_LETTERS:
            raise ConfigError(
                f"an alphabet has 1 to {MAX_LETTERS} letters, a whole number; got {self.size!r}"
            )

    @property
    def letters(self) -> str:
        """The letters, in order."""
        return LETTERS[: self.size]

    @property
    def vocab_size(self) -> int:
        """The number of tokens: the letters, PAD and CLS."""
        return FIRST_LETTER + self.size

    @property
    def token_names(self) -> tuple[str, ...]:
        """What each token is called, in token order."""
        return ("CLS", "PAD", *self.letters)

    def index(self, letter: str) -> int:
        """The letter's place in a count vector."""
        index = self.letters.find(letter) if len(letter) == 1 else -1
        if index < 0:
            raise ConfigError(f"{letter!r} is not a letter of this alphabet ({self.letters})")
        return index

    # -- reading -----------------------------------------------------------------------------

    def runs(self, text: str) -> list[Run]:
        """The string as (letter, repeat) pairs, in order, neighbouring equal letters merged."""
        if not isinstance(text, str):
            raise StringError(
                text, None, f"a string was expected, not {type(text).__name__}", self._allowed
            )
        if not text:
            raise StringError(text, 0, "the string is empty", f"at least one of {self._allowed}")
        runs: list[Run] = []
        position = 0
        while position < len(text):
            match = _RUN.match(text, position)
            if match is None or match[1] not in self.letters:
                raise StringError(text, position, self._complaint(text, position), self._allowed)
            runs.append((match[1], self._repeat(text, match)))
            position = match.end()
        self._check_totals(text, runs)
        return [
            (letter, sum(repeat for _, repeat in group))
            for letter, group in groupby(runs, key=lambda run: run[0])
        ]

    def counts(self, text: str) -> Counts:
        """How many of each letter, without ever building the long form."""
        counts = np.zeros(self.size, dtype=np.int64)
        for letter, repeat in self.runs(text):
            counts[self.letters.index(letter)] += repeat
        return counts

    def count_matrix(self, texts: Iterable[str]) -> Counts:
        """One row of counts per string: `[string, letter]`."""
        rows = [self.counts(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.size), dtype=np.int64)

    def expand(self, text: str) -> str:
        """The long form, refused beyond `MAX_TOKENS` characters."""
        runs = self.runs(text)
        length = sum(repeat for _, repeat in runs)
        if length > MAX_TOKENS:
            raise StringError(
                text,
                None,
                f"{length} characters are too many to write out",
                f"at most {MAX_TOKENS}; counts have no such limit",
            )
        return "".join(letter * repeat for letter, repeat in runs)

    def tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """`CLS`, then the characters, then `PAD` to the longest: `[string, position]`."""
        if isinstance(texts, str):
            texts = [texts]
        long_forms = [self.expand(text) for text in texts]
        width = 1 + max(map(len, long_forms), default=0)
        tokens = np.full((len(long_forms), width), PAD, dtype=np.int64)
        tokens[:, 0] = CLS
        for row, long_form in zip(tokens, long_forms, strict=True):
            row[1 : 1 + len(long_form)] = [
                FIRST_LETTER + self.letters.index(letter) for letter in long_form
            ]
        return tokens

    # -- writing -----------------------------------------------------------------------------

    def write(self, counts: Sequence[int] | Counts) -> str:
        """The sorted string with these counts, in canonical run-length notation."""
        values = [int(count) for count in counts]
        if len(values) != self.size or min(values) < 0 or not any(values):
            raise StringError(
                values,
                None,
                "not the counts of a string",
                f"{self.size} non-negative whole numbers, one per letter, not all zero",
            )
        return _write_runs([run for run in zip(self.letters, values, strict=True) if run[1]])

    def canonical(self, text: str) -> str:
        """The same string, its order kept, in canonical notation: `aab{9}` becomes `a{2}b{9}`."""
        return _write_runs(self.runs(text))

    # -- errors ------------------------------------------------------------------------------

    @property
    def _allowed(self) -> str:
        if self.size == 1:
            return "the letter a, each with an optional repeat such as a{3}"
        return f"the letters a to {self.letters[-1]}, each with an optional repeat such as a{{3}}"

    def _complaint(self, text: str, position: int) -> str:
        character = text[position]
        if character == "{" and position == 0:
            return "a repeat needs a letter before it"
        if character == "{":
            return "a repeat has one whole number in braces, directly after its letter"
        return f"unexpected {character!r}"

    def _check_totals(self, text: str, runs: Sequence[Run]) -> None:
        """Runs are merged when a string is written, so what counts is their sum."""
        totals: Counter[str] = Counter()
        for letter, repeat in runs:
            totals[letter] += repeat
        worst, most = totals.most_common(1)[0]
        if most > MAX_REPEAT:
            raise StringError(
                text, None, f"more than {MAX_REPEAT} of {worst!r}", "each letter at most that often"
            )

    def _repeat(self, text: str, match: re.Match[str]) -> int:
        if match[2] is None:
            return 1
        digits = match[2].lstrip("0")
        # Compare lengths first: int() of a million digits is slow, and Python refuses it.
        if not digits or len(digits) > 10 or int(digits) > MAX_REPEAT:
            raise StringError(
                text,
                match.start(2),
                "the repeat is out of range",
                f"a repeat is a whole number from 1 to {MAX_REPEAT}",
            )
        return int(digits)


def _write_runs(runs: Sequence[Run]) -> str:
    if sum(repeat for _, repeat in runs) <= WRITTEN_OUT:
        return "".join(letter * repeat for letter, repeat in runs)
    return "".join(letter if repeat == 1 else f"{letter}{{{repeat}}}" for letter, repeat in runs)


def counts_of_tokens(tokens: NDArray[np.int64], n_letters: int) -> Counts:
    """How many of each letter a token matrix holds: `[string, letter]`."""
    letters = np.arange(FIRST_LETTER, FIRST_LETTER + n_letters)
    return np.asarray((tokens[:, :, None] == letters).sum(axis=1), dtype=np.int64)


def letters_of_tokens(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Letters by index in their order, -1 where there is none: `[string, position]`.

    CLS in front is left out; where a row has it elsewhere, behind the letters, it is a -1 too.
    """
    if tokens.shape[1] and (tokens[:, 0] == CLS).all():
        tokens = tokens[:, 1:]
    return np.where(tokens >= FIRST_LETTER, tokens - FIRST_LETTER, -1)
