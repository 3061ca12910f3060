"""The strings on which two classifiers answer differently, counted exactly up to a length.

    tsc.difference("walkthrough", "attend-cls")

Both models are evaluated on every count vector (float64 with error bounds, `arb` close to zero), so
this is a statement about real numbers, as `verify` makes them; nothing here is a certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

import numpy as np

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.verification.enumeration import PascalRows, positive_vectors, record
from tsc_interp.verification.exact import checkpoint_of
from tsc_interp.verification.faces import Faces
from tsc_interp.verification.labels import all_faces, labels_of
from tsc_interp.verification.search import RIGHT, UNDECIDED, corner_verdicts
from tsc_interp.verification.tally import Side
from tsc_interp.verification.words import number

DEFAULT_LENGTH = TEST_LENGTH
_MOST_VECTORS = 2_000_000


@dataclass(frozen=True)
class Difference:
    """How many strings the first calls positive and the second negative, and the other way."""

    max_length: int
    strings: int
    """All strings up to that length."""
    first_only: int
    """Strings that only the first model calls positive."""
    second_only: int
    undecided: int
    shortest_first_only: str | None
    shortest_second_only: str | None

    @property
    def differing(self) -> int:
        return self.first_only + self.second_only

    def sentence(self, first: str, second: str) -> str:
        reach = f"Of the {number(self.strings)} strings of up to {self.max_length} letters"
        if not self.differing:
            same = f"{reach}, {first} and {second} answer every one alike"
            return (
                f"{same}, but {number(self.undecided)} are undecided."
                if self.undecided
                else f"{same}."
            )
        sides = [
            f"{who} alone says yes to {number(many)} (the shortest: `{shortest}`)"
            for who, many, shortest in (
                (first, self.first_only, self.shortest_first_only),
                (second, self.second_only, self.shortest_second_only),
            )
            if many
        ]
        return f"{reach}, they answer {number(self.differing)} differently: {' and '.join(sides)}."

    def to_dict(self) -> dict[str, Any]:
        """Counts as strings of digits: they are exact, and larger than JSON's numbers."""
        whole = ("strings", "first_only", "second_only", "undecided")
        return {k: str(v) if k in whole else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Difference:
        whole = ("strings", "first_only", "second_only", "undecided")
        read: dict[str, Any] = {k: int(v) if k in whole else v for k, v in data.items()}
        return cls(**read)


def difference(first: ModelLike, second: ModelLike, max_length: int | None = None) -> Difference:
    """Every string of at most `max_length` letters on which two models answer differently.

    Without a length, 200, or less where that would be more than two million count vectors.
    """
    models = [Faces(checkpoint_of(model)) for model in (first, second)]
    letters = {faces.config.n_letters for faces in models}
    if len(letters) > 1:
        raise UnsupportedError(
            f"the two models read alphabets of {' and '.join(map(str, sorted(letters)))} letters; "
            "they can be compared only on strings that both can read"
        )
    (size,) = letters
    if max_length is None:
        max_length = next(
            (n for n in range(DEFAULT_LENGTH, 0, -1) if comb(n + size, size) <= _MOST_VECTORS), 1
        )
    if type(max_length) is not int or max_length < 1:
        raise UsageError(f"max_length is a whole number from 1, got {max_length!r}")
    if comb(max_length + size, size) > 50 * _MOST_VECTORS:
        raise UnsupportedError(
            f"{comb(max_length + size, size):,} count vectors are too many to compare one by one; "
            "choose a shorter length"
        )
    sides = [Side(max_length) for _ in range(3)]
    pascal = PascalRows()
    for face in all_faces(models[0].config, max_length):
        for vectors in positive_vectors(len(face), max_length):
            answers, sure = zip(*(_answers(faces, face, vectors) for faces in models), strict=True)
            decided = sure[0] & sure[1]
            members = (answers[0] & ~answers[1] & decided, ~answers[0] & answers[1] & decided)
            for side, member in zip(sides, (*members, ~decided), strict=True):
                record(models[0], face, vectors[member], side, pascal)
    written = [
        None if s.shortest is None else models[0].config.alphabet.write(s.shortest) for s in sides
    ]
    return Difference(
        max_length=max_length,
        strings=sum(size**n for n in range(1, max_length + 1)),
        first_only=sides[0].total_strings,
        second_only=sides[1].total_strings,
        undecided=sides[2].total_strings,
        shortest_first_only=written[0],
        shortest_second_only=written[1],
    )


def _answers(faces: Faces, face: tuple[int, ...], vectors: Any) -> tuple[Any, Any]:
    """Whether each vector is called positive, and whether that is known."""
    verdicts = corner_verdicts(faces, face, vectors)
    labels = labels_of(faces.config, face, vectors)
    return np.asarray(labels == (verdicts == RIGHT)), verdicts != UNDECIDED
