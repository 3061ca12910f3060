"""What the float32 model says, whatever the order of its sums.

`rounding.py` bounds how far a computed logit can be from the real one. So each string is

    right in float32       the real logit is on the right side by more than that
    wrong in float32       on the wrong side by more than that
    depends on rounding    anything else: it may be either

and `float32_horizon` is the length up to which all are right, found by the search of `horizon` with
that much room asked for. Like the counts of `verify` it rests on float64 error bounds; the checker
of certificates does not know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UsageError
from tsc_interp.output.display import Displayed
from tsc_interp.verification.exact import checkpoint_of
from tsc_interp.verification.faces import Faces, count_box_bounds
from tsc_interp.verification.horizons import DEFAULT_LIMIT, check_reach
from tsc_interp.verification.intervals import Array
from tsc_interp.verification.labels import (
    all_faces,
    face_label,
    full_counts,
    label_range,
    labels_of,
)
from tsc_interp.verification.rounding import Form, Rounding
from tsc_interp.verification.search import RIGHT, WRONG, Flags, Integers, first_failure

Certainty = Literal["right", "wrong", "depends on rounding"]


@dataclass(frozen=True, repr=False)
class Float32Horizon(Displayed):
    """Up to which length every string is right in float32, whatever the order of sums."""

    safe_through: int
    limit: int
    form: Form
    settled: bool
    first: str | None
    """The shortest string that is not right for certain, in the order of search.py."""
    certainty: Certainty | None
    """What is known of it: wrong whatever the order, or it depends on rounding."""
    logit: float | None
    bound: float | None
    """The real logit of that string, and how far float32 can be from it."""

    def _facts(self) -> list[str]:
        first = [] if self.first is None else [f"{self.first}: {self.certainty}"]
        return [f"safe through {self.safe_through}", *first]

    def _lines(self) -> list[tuple[str, str]]:
        return [("", self.sentence())]

    def sentence(self) -> str:
        how = "as tokens" if self.form == "tokens" else "compressed"
        start = (
            f"In float32 ({how}, any order of sums) every string up to length "
            f"{self.safe_through:,} is right"
        )
        if self.first is None:
            return f"{start}, as far as was searched."
        if self.certainty == "wrong":
            return f"{start}; {self.first} is wrong whatever the order."
        return (
            f"{start}; {self.first} depends on rounding (logit {self.logit:+.3g}, "
            f"float32 within {self.bound:.2g})."
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "safe_through": self.safe_through,
            "limit": self.limit,
            "form": self.form,
            "settled": self.settled,
            "first": self.first,
            "certainty": self.certainty,
            "logit": self.logit,
            "bound": self.bound,
        }


@dataclass(frozen=True)
class _Judge:
    """Right is: right in float32 whatever the order."""

    faces: Faces
    rounding: Rounding
    form: Form

    def label(self, letters: tuple[int, ...]) -> bool | None:
        return face_label(self.faces.config, letters)

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        logits, error = self.faces[letters].logits(vectors.astype(float))
        room = self._room(vectors.sum(-1)) + np.maximum(error, 0.0)
        labels = labels_of(self.faces.config, letters, vectors)
        safe = np.where(labels, logits > room, logits <= -room)
        return np.where(safe, RIGHT, WRONG)

    def right(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Flags:
        least, most = count_box_bounds(self.faces[letters], low.astype(float), high.astype(float))
        surely, maybe = label_range(self.faces.config, letters, low, high)
        room = self._room(high.sum(-1))
        return np.asarray((surely & (least > room)) | (~maybe & (most <= -room)))

    def exact_left(self) -> int:
        return 1 << 60

    def _room(self, lengths: Integers) -> Array:
        return np.array([self.rounding.bound(int(n), self.form) for n in lengths.tolist()])


def float32_horizon(
    model: ModelLike, *, limit: int = DEFAULT_LIMIT, form: Form = "tokens", budget: int = 100_000
) -> Float32Horizon:
    """The length up to which the float32 model is right, whatever the order of its sums.

    `form` is how strings are given: as tokens, one by one, or compressed (letter counts). Bounds
    are float64, like those of `verify`; they do not go through the checker.
    """
    check_reach(limit, budget)
    if form not in ("tokens", "compressed"):
        raise UsageError(f"the form is 'tokens' or 'compressed', got {form!r}")
    checkpoint = checkpoint_of(model)
    faces, rounding = Faces(checkpoint), Rounding(checkpoint)
    judge = _Judge(faces, rounding, form)
    config, searches, reach = checkpoint.config, [], limit
    for letters in reversed(all_faces(config)):  # what fails first is usually made of all letters
        searches.append(first_failure(judge, letters, reach, budget))
        if searches[-1].counterexample is not None:
            reach = min(reach, sum(searches[-1].counterexample))
    through = min(search.right_through for search in searches)
    failing = [s for s in searches if s.counterexample is not None]
    if not failing:
        return Float32Horizon(through, limit, form, through == limit, None, None, None, None)
    first = min(
        (full_counts(config, s.letters, np.array(s.counterexample)) for s in failing),
        key=lambda counts: (counts.sum(), tuple(-counts)),
    )
    logit, room = faces.exact.rounded(first.tolist()), rounding.bound(int(first.sum()), form)
    return Float32Horizon(
        safe_through=through,
        limit=limit,
        form=form,
        settled=through == int(first.sum()) - 1,
        first=config.alphabet.write(first),
        certainty=certainty(logit, bool(config.task.labels(first)), room),
        logit=logit,
        bound=room,
    )


def certainty(logit: float, label: bool, bound: float) -> Certainty:
    """What a real logit (rounded to float64) says of the float32 answer, this bound given."""
    room = bound * (1 + 1e-9) + abs(logit) * 1e-15
    if logit > room:
        return "right" if label else "wrong"
    if logit <= -room and room > 0:
        return "wrong" if label else "right"
    return "depends on rounding"
