"""Reads the boxes of claims about one or two models, and checks that they leave nothing out.

A claim about every string up to a length is a list of boxes of counts, one about every length boxes
of ratios, one about all that is longer a tail. Here boxes are read, counted and checked to be well
formed and to cover what the claim says. Each kind of claim defines what must hold on a box
(claims.py: the model is right; agreement.py: two models answer alike).

Part of the checker (check.py): nothing here is taken from the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.checker.budget import require
from tsc_interp.verification.checker.coverage import covered
from tsc_interp.verification.checker.document import digest

MAX_BOXES = 500_000

Support = tuple[int, ...]
Claim = Mapping[str, Any]
Kinds = Mapping[str, tuple[Callable[[Claim], str], set[str]]]
"""By kind of claim: what derives it again and says it, and which fields it has."""
HoldsOnCounts = Callable[[Support, Sequence[int], Sequence[int]], None]
HoldsOnRatios = Callable[[Support, int, Sequence[float], Sequence[float]], None]
"""Raises `CertificateError` unless the claim is proved for all of a box; the letter whose column
is given weighs 1."""


class BoxClaims:
    """Claims in turn; for which sets of letters, and how far, they hold.

    Args:
        config: Of the model.
        pay: Called again and again; raises when time or memory is used up.
        bounded: Digests of claims whose boxes were bounded before. Whoever writes a certificate
            has each claim derived by itself and then all of them together; a document is checked
            without any such memory.
    """

    def __init__(
        self, config: ClassifierConfig, pay: Callable[..., None], bounded: set[str] | None = None
    ) -> None:
        self.config, self.pay, self.bounded = config, pay, bounded
        self.boxes = 0
        self.up_to: dict[str, int] = {}
        self.beyond: dict[str, int] = {}
        self.always: set[str] = set()

    def sentences(self, claims: Any, kinds: Kinds) -> Iterator[str]:
        """What each claim says, once it is derived again; `kinds` has its fields, too."""
        require(isinstance(claims, (list, tuple)), "claims are a list")
        for claim in claims:
            require(claim["kind"] in kinds, f"unknown kind of claim {claim['kind']!r}")
            derive, fields = kinds[claim["kind"]]
            expected = {"kind"} | fields
            require(set(claim) == expected, f"{claim['kind']} needs fields {sorted(fields)}")
            self.pay()
            yield derive(claim)

    def cover_lengths(
        self, claim: Claim, holds: HoldsOnCounts, into: dict[str, int] | None = None
    ) -> tuple[str, int]:
        """The letters and the length up to which a claim's boxes hold every string.

        What is known is kept `into` a mapping, by default the one of what holds over the reals.
        """
        letters, support = self.support(claim["letters"])
        length, boxes = whole(claim["length"]), self._counted(claim["boxes"])
        if not self._was_bounded(claim):
            self._cover_counts(letters, length, boxes, partial(holds, support))
            self._remember(claim)
        known = self.up_to if into is None else into
        known[letters] = max(length, known.get(letters, 0))
        return letters, length

    def _cover_counts(
        self,
        letters: str,
        length: int,
        raw_boxes: list[Any],
        holds: Callable[[Sequence[int], Sequence[int]], None],
    ) -> None:
        boxes = [([whole(n) for n in low], [whole(n) for n in high]) for low, high in raw_boxes]
        for low, high in boxes:
            require(len(low) == len(high) == len(letters), "a box with the wrong number of letters")
            require(all(1 <= a <= b for a, b in zip(low, high, strict=True)), "an empty box")
            require(sum(low) <= length, f"the box from {low} holds no string of the claim")
            holds(low, high)
        everything = ([1] * len(letters), [max(length - len(letters) + 2, 1)] * len(letters))
        halfopen = [(low, [end + 1 for end in high]) for low, high in boxes]
        complete = covered(everything, halfopen, length, self.pay)
        require(complete, f"{letters}: the boxes leave strings out")

    def cover_ratios(self, claim: Claim, holds: HoldsOnRatios) -> str:
        """The letters whose ratios, however long the string, a claim's charts hold."""
        letters, support = self.support(claim["letters"])
        charts = {chart["largest"]: chart for chart in claim["charts"]}
        require(sorted(charts) == sorted(letters), f"{letters}: one chart per letter is needed")
        require(len(charts) == len(claim["charts"]), f"{letters}: a chart is given twice")
        shaped = all(set(chart) == {"largest", "boxes"} for chart in claim["charts"])
        require(shaped, "a chart has largest and boxes")
        boxes = [self._counted(charts[letter]["boxes"]) for letter in letters]
        if not self._was_bounded(claim):
            for column in range(len(letters)):
                self._cover_chart(letters, boxes[column], partial(holds, support, column))
            self._remember(claim)
        self.always.add(letters)
        return letters

    def _cover_chart(
        self,
        letters: str,
        raw_boxes: list[Any],
        holds: Callable[[Sequence[float], Sequence[float]], None],
    ) -> None:
        free = len(letters) - 1 + int(self.config.attend_cls)
        boxes = [([*map(number, low)], [*map(number, high)]) for low, high in raw_boxes]
        for low, high in boxes:
            require(len(low) == len(high) == free, "a box with the wrong number of weights")
            require(all(0 <= a < b <= 1 for a, b in zip(low, high, strict=True)), "a bad box")
            holds(low, high)
        complete = covered(([0.0] * free, [1.0] * free), boxes, None, self.pay)
        require(complete, f"{letters}: the boxes leave ratios out")

    def _was_bounded(self, claim: Claim) -> bool:
        return self.bounded is not None and digest(claim) in self.bounded

    def _remember(self, claim: Claim) -> None:
        if self.bounded is not None:
            self.bounded.add(digest(claim))

    def from_length(self, letters: str, start: int) -> None:
        """Everything over these letters, from this length on, holds."""
        self.beyond[letters] = min(start, self.beyond.get(letters, start))

    def through(self) -> dict[str, int | None]:
        """Per set of letters the length up to which its strings hold; None is every length."""
        return {letters: self._through(letters) for letters in self.letter_sets()}

    def letter_sets(self) -> list[str]:
        known = self.config.alphabet.letters
        return ["".join(s) for k in range(1, len(known) + 1) for s in combinations(known, k)]

    def _through(self, letters: str) -> int | None:
        """Shorter strings than letters there are none; a tail must begin where a proof ends."""
        start = self.beyond.get(letters)
        known = max(self.up_to.get(letters, 0), len(letters) - 1)
        joined = start is not None and known >= start - 1
        return None if letters in self.always or joined else known

    def support(self, letters: Any) -> tuple[str, Support]:
        """A set of letters as a certificate names it, and their places in the alphabet."""
        known = self.config.alphabet.letters
        valid = isinstance(letters, str) and letters and sorted(set(letters)) == list(letters)
        require(bool(valid) and set(letters) <= set(known), f"{letters!r} is not a set of letters")
        return letters, tuple(known.index(letter) for letter in letters)

    def string(self, string: Any) -> tuple[str, Support, list[int]]:
        """A string as a certificate writes it: its letters, their places, how many of each."""
        alphabet = self.config.alphabet
        counts = [int(count) for count in alphabet.counts(string)]
        require(
            alphabet.write(counts) == string,
            f"{string!r} is not written as a sorted run-length string",
        )
        support = tuple(i for i, count in enumerate(counts) if count)
        return "".join(alphabet.letters[i] for i in support), support, [counts[i] for i in support]

    def _counted(self, boxes: Any) -> list[Any]:
        require(isinstance(boxes, list), "boxes are a list")
        self.boxes += len(boxes)
        require(self.boxes <= MAX_BOXES, f"more than {MAX_BOXES:,} boxes are too many to check")
        return list(boxes)


def whole(value: Any) -> int:
    require(type(value) is int and 0 <= value <= 10**12, f"{value!r} is not a whole number")
    return int(value)


def number(value: Any) -> float:
    require(type(value) in (int, float) and abs(value) < 1e300, f"{value!r} is not a number")
    return float(value)
