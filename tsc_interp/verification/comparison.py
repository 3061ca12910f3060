"""`tsc.diff(a, b)`: all there is to say about where two classifiers answer differently.

Differences are counted exactly up to a length (counting/differences.py). The first one is searched
for far beyond it (search/agreement.py), and what is claimed of every length is asked of the trusted
base (prover.py). Only what that derived is called proved.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError
from tsc_interp.output.display import Displayed
from tsc_interp.output.numbers import number
from tsc_interp.telling import Progress, say
from tsc_interp.trusted.trees import Box
from tsc_interp.verification.count_model import CountModel, checkpoint_of
from tsc_interp.verification.counting.differences import Difference, compare
from tsc_interp.verification.counting.tally import Vector, order
from tsc_interp.verification.documents import write_certificate
from tsc_interp.verification.identity import exact_form, has_form
from tsc_interp.verification.labels import all_supports, full_counts, support_name
from tsc_interp.verification.proved import Agreement
from tsc_interp.verification.prover import Prover
from tsc_interp.verification.search.search import SupportSearch, first_failure
from tsc_interp.verification.search.ways import TwoModels
from tsc_interp.verification.summaries import DEFAULT_LIMIT, check_reach

CHECKER_SECONDS = 60.0
"""Of the trusted base."""


@dataclass(frozen=True, repr=False)
class Diff(Displayed):
    """The strings on which two classifiers answer differently."""

    first: str
    second: str
    counted: Difference
    """Every string up to a length."""
    proved: Agreement
    """What the trusted base derived about every length."""
    by_letters: Mapping[str, str | None]
    """Per set of letters, the first string they answer differently, if one was found."""
    document: dict[str, Any]
    """The certificate."""
    identical: tuple[str, ...] = ()
    """Sets of letters on which the logits are shown to be one function, in exact fractions."""

    @property
    def shortest(self) -> str | None:
        """The shortest string that they answer differently, as far as the search went."""
        return next(iter(self.proved.differ), None)

    @property
    def same(self) -> bool:
        """Whether they are proved, or shown, to answer every string of every length alike."""
        through = self.proved.through
        return all(end is None or letters in self.identical for letters, end in through.items())

    def sentences(self) -> list[str]:
        """Return the result as sentences."""
        lines = [self.counted.sentence(self.first, self.second)]
        if self.same:
            how = (
                "proved"
                if self.proved.everywhere
                else ("shown: their logits are the same function")
            )
            lines.append(f"They answer every string of every length alike, {how}.")
        elif self.proved.first_difference is not None:
            lines.append(
                f"They agree on every string of up to {self.proved.first_difference - 1:,} "
                f"letters, proved; the first they answer differently is `{self.shortest}`."
            )
        else:
            through = self.proved.agree_through or 0
            later = f" `{self.shortest}` is answered differently." if self.shortest else ""
            lines.append(
                f"They agree on every string of up to {through:,} letters, proved.{later} "
                "Beyond that nothing is proved."
            )
        always = [letters for letters, end in self.proved.through.items() if end is None]
        if always and not self.same:
            lines.append(f"At every length they agree on strings over exactly {', '.join(always)}.")
        return lines

    def _facts(self) -> list[str]:
        return [
            f"{number(self.counted.differing)} strings up to {self.counted.max_length} differ",
            "the same at every length" if self.same else f"first {self.shortest}",
        ]

    def _lines(self) -> list[tuple[str, str]]:
        return [("", sentence) for sentence in self.sentences()]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {
            "first": self.first,
            "second": self.second,
            "counted": self.counted.to_dict(),
            "shortest": self.shortest,
            "by_letters": dict(self.by_letters),
            "identical": list(self.identical),
            "proved": list(self.proved.sentences),
            **self.proved.conclusion(),
        }

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the certificate."""
        write_certificate(path, self.document, force=force)


@overload
def diff(
    first: ModelLike,
    second: ModelLike,
    *,
    max_length: int | None = ...,
    limit: int = ...,
    seconds: float = ...,
    boxes: int = ...,
    prove: Literal[True] = ...,
    progress: Progress | bool | None = ...,
) -> Diff: ...


@overload
def diff(
    first: ModelLike,
    second: ModelLike,
    *,
    max_length: int | None = ...,
    limit: int = ...,
    seconds: float = ...,
    boxes: int = ...,
    prove: Literal[False],
    progress: Progress | bool | None = ...,
) -> Difference: ...


@checked
def diff(
    first: ModelLike,
    second: ModelLike,
    *,
    max_length: int | None = None,
    limit: int = DEFAULT_LIMIT,
    seconds: float = CHECKER_SECONDS,
    boxes: int = 50_000,
    prove: bool = True,
    progress: Progress | bool | None = None,
) -> Diff | Difference:
    """Count the strings on which two models differ, find the first, and prove where they agree.

    Args:
        first: A hooked model, a checkpoint, a bundled name, a path, or a run.
        second: Another one.
        max_length: Every string up to this length is counted; by default 200, or less if that would
            take too long.
        limit: The length up to which the first difference is searched.
        seconds: The estimated time limit of the checker; a proof that would take longer is left
            out.
        boxes: The number of boxes to examine for each set of letters.
        prove: Whether to search and prove beyond `max_length`.
        progress: True prints the current step; a function is called with a few words about it.

    Returns:
        The counts, the first difference, and a certificate of the strings on which the two agree;
        with `prove=False` only the counts.

    Raises:
        UnsupportedError: The answer of one of the models depends on more than letter counts.
        UsageError: The two read different letters, or an option is out of range.

    Example:
        >>> found = diff("walkthrough", "generalization-errors", max_length=20, limit=100)
        >>> found.shortest, found.counted.differing
        ('ab{66}', 0)
        >>> diff("walkthrough", "attend-cls", max_length=20, prove=False).differing
        0
    """
    check_reach(limit, boxes)
    one, other = (CountModel(checkpoint_of(model)) for model in (first, second))
    say("counting the strings on which they differ")
    counted = compare(one, other, max_length)
    return _Comparison(one, other, limit, boxes, seconds).diff(counted) if prove else counted


class _Comparison:
    """The search for differences and the proofs of agreement, set of letters by set of letters."""

    def __init__(
        self, first: CountModel, second: CountModel, limit: int, boxes: int, seconds: float
    ) -> None:
        self.first, self.second, self.limit, self.boxes = first, second, limit, boxes
        if first.config.alphabet != second.config.alphabet:
            raise UnsupportedError("the two models read different alphabets")
        self.prover = Prover([first, second], None, None, seconds)
        self.ways, self.config = TwoModels(first, second), first.config
        self.by_letters: dict[str, str | None] = {}
        self.identical: list[str] = []

    def diff(self, counted: Difference) -> Diff:
        differing = [
            counts
            for letters in all_supports(self.config)
            if (counts := self._support(letters)) is not None
        ]
        for counts in sorted(differing, key=order):
            any(self.prover.single(counts, j, 1 - j) for j in (1, 0))
        document = self.prover.document()
        proved = Agreement.of(self.config, document)
        first, second = (model.checkpoint.source for model in (self.first, self.second))
        return Diff(
            first, second, counted, proved, self.by_letters, document, tuple(self.identical)
        )

    def _support(self, letters: tuple[int, ...]) -> Vector | None:
        """What is proved about one set of letters; the first vector answered differently."""
        name, differing = support_name(self.config, letters), None
        say(f"comparing strings over {name}")
        self.by_letters[name] = None
        if self._are_identical(letters):
            self.identical.append(name)
            self._at_every_length(letters)  # proved, too, where that is easy
            return None
        search = self._search(letters, self.limit)
        if search.counterexample is not None:
            counts = full_counts(self.config, letters, np.array(search.counterexample))
            differing = tuple(counts.tolist())
            self.by_letters[name] = self.config.alphabet.write(differing)
        elif self._at_every_length(letters):
            return None
        self._up_to(letters, search, search.verified_length)
        return differing

    def _are_identical(self, letters: tuple[int, ...]) -> bool:
        checkpoints = self.first.checkpoint, self.second.checkpoint
        if not all(map(has_form, checkpoints)):
            return False
        return exact_form(checkpoints[0], letters) == exact_form(checkpoints[1], letters)

    def _search(self, letters: tuple[int, ...], limit: int) -> SupportSearch:
        return first_failure(self.ways, letters, limit, self.boxes)

    def _up_to(self, letters: tuple[int, ...], search: SupportSearch, length: int) -> bool:
        """That both answer alike up to a length: with what the first one does at the low corner."""

        def answer(box: Box) -> int:
            return int(self.first.guess.answers(letters, np.array([box.low]))[0])

        return self.prover.up_to(letters, length, answer, search.cuts, search.whole)

    def _at_every_length(self, letters: tuple[int, ...]) -> bool:
        scaled = self.first.config.log_n, self.second.config.log_n
        if not any(scaled) and self.ways.see_the_same():
            return any(self.prover.ever(letters, j) for j in (1, 0))
        start = 2
        while all(scaled) and start <= self.limit:
            if any(self.prover.tail(letters, start, j) for j in (1, 0)):
                shorter = self._search(letters, start - 1)
                return start <= len(letters) or self._up_to(letters, shorter, start - 1)
            start *= 2
        return False
