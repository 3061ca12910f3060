"""What the float32 model says, whatever the order of its sums.

`rounding.py` bounds how far a computed logit can be from the real one. So each string is

    right in float32       the real logit is on the right side by more than that
    wrong in float32       on the wrong side by more than that
    depends on rounding    anything else: it may be either

and `float32_horizon` is the length up to which all are right, found by the search of `horizon` with
that much room asked for. Like the counts of `verify` it rests on float64 error bounds;
`certify(model, float32="tokens")` has the checker derive it, with a rounding bound of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UsageError
from tsc_interp.output.display import Displayed
from tsc_interp.verification.classes import AnyFaces, ClassFaces, faces_of
from tsc_interp.verification.exact import checkpoint_of
from tsc_interp.verification.faces import Face, count_box_bounds
from tsc_interp.verification.horizons import DEFAULT_LIMIT, check_reach
from tsc_interp.verification.intervals import Array
from tsc_interp.verification.labels import (
    all_faces,
    class_of_face,
    classes_of,
    face_label,
    full_counts,
    label_range,
)
from tsc_interp.verification.rounding import Form, Rounding
from tsc_interp.verification.search import (
    RIGHT,
    WRONG,
    FaceSearch,
    Flags,
    Integers,
    first_failure,
    margin_bounds,
)

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
    """The real logit of that string (of several classes its margin), and how far float32 can be
    from it."""
    proved: bool = False
    """Whether the independent checker derived all this; False where it was not asked."""

    def _facts(self) -> list[str]:
        first = [] if self.first is None else [f"{self.first}: {self.certainty}"]
        return [f"safe through {self.safe_through}", *first]

    def _lines(self) -> list[tuple[str, str]]:
        return [("", self.sentence())]

    def sentence(self) -> str:
        how = "as tokens" if self.form == "tokens" else "compressed"
        start = (
            f"In float32 ({how}, any order of sums) every string up to length "
            f"{self.safe_through:,} is right{', proved' if self.proved else ''}"
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
            "proved": self.proved,
        }


@dataclass(frozen=True)
class _Judge:
    """Right is: right in float32 whatever the order. What is not is wrong, or may be."""

    faces: AnyFaces
    rounding: Rounding
    form: Form

    def label(self, letters: tuple[int, ...]) -> int | None:
        if isinstance(self.faces, ClassFaces):
            return class_of_face(self.faces.config, letters)
        return face_label(self.faces.config, letters)

    def corners(self, letters: tuple[int, ...], vectors: Integers) -> Integers:
        room, safe = self._room(vectors.sum(-1)), np.zeros(len(vectors), dtype=bool)
        labels = classes_of(self.faces.config, letters, vectors)
        for label in np.unique(labels).tolist():
            of_class = labels == label
            face, sign = asked(self.faces, letters, label)
            logits, error = face.logits(vectors[of_class].astype(float))
            beyond, slack = sign * logits - room[of_class], np.maximum(error, 0.0)
            safe[of_class] = beyond > slack
            # Too close for float64, on either side of what rounding can do.
            for i in np.flatnonzero(of_class)[~(np.abs(beyond) > slack)]:
                counts = full_counts(self.faces.config, letters, vectors[i])
                safe[i] = _certainty(self.faces, counts, float(room[i])) == "right"
        return np.where(safe, RIGHT, WRONG)

    def right(self, letters: tuple[int, ...], low: Integers, high: Integers) -> Flags:
        room = self._room(high.sum(-1))
        if isinstance(self.faces, ClassFaces):
            return np.asarray(margin_bounds(self.faces, letters, low, high)[0] > room)
        least, most = count_box_bounds(self.faces[letters], low.astype(float), high.astype(float))
        surely, maybe = label_range(self.faces.config, letters, low, high)
        return np.asarray((surely & (least > room)) | (~maybe & (most <= -room)))

    def exact_left(self) -> int:
        return 1 << 60

    def _room(self, lengths: Integers) -> Array:
        return np.array([self.rounding.bound(int(n), self.form) for n in lengths.tolist()])


def asked(faces: AnyFaces, letters: tuple[int, ...], label: int) -> tuple[Face, float]:
    """What has to be above zero for this label: the logit with a sign, or the class's margin."""
    if isinstance(faces, ClassFaces):
        return faces.margin(letters, label), 1.0
    return faces[letters], 1.0 if label else -1.0


@dataclass(frozen=True)
class Float32Search:
    """The first string of each set of letters that is not right for certain."""

    faces: AnyFaces
    rounding: Rounding
    form: Form
    limit: int
    searches: list[FaceSearch]

    def summary(self) -> Float32Horizon:
        limit, form, config = self.limit, self.form, self.faces.config
        through = min(search.right_through for search in self.searches)
        failing = [s for s in self.searches if s.counterexample is not None]
        if not failing:
            return Float32Horizon(through, limit, form, through == limit, None, None, None, None)
        first = min(
            (full_counts(config, s.letters, np.array(s.counterexample)) for s in failing),
            key=lambda counts: (counts.sum(), tuple(-counts)),
        )
        room = self.rounding.bound(int(first.sum()), form)
        return Float32Horizon(
            safe_through=through,
            limit=limit,
            form=form,
            settled=through == int(first.sum()) - 1,
            first=config.alphabet.write(first),
            certainty=_certainty(self.faces, first, room),
            logit=_logit(self.faces, first),
            bound=room,
        )


def search_float32(checkpoint: Checkpoint, limit: int, form: Form, budget: int) -> Float32Search:
    """Every set of letters, up to the shortest string found that is not right for certain."""
    if form not in ("tokens", "compressed"):
        raise UsageError(f"the form is 'tokens' or 'compressed', got {form!r}")
    faces, rounding = faces_of(checkpoint), Rounding(checkpoint)
    judge, searches, reach = _Judge(faces, rounding, form), [], limit
    # What fails first is usually made of all letters.
    for letters in reversed(all_faces(checkpoint.config)):
        searches.append(first_failure(judge, letters, reach, budget))
        if searches[-1].counterexample is not None:
            reach = min(reach, sum(searches[-1].counterexample))
    return Float32Search(faces, rounding, form, limit, searches)


def float32_horizon(
    model: ModelLike, *, limit: int = DEFAULT_LIMIT, form: Form = "tokens", budget: int = 100_000
) -> Float32Horizon:
    """The length up to which the float32 model is right, whatever the order of its sums.

    `form` is how strings are given: as tokens, one by one, or compressed (letter counts). Bounds
    are float64, like those of `verify`; `certify(model, float32=form)` goes through the checker.
    """
    check_reach(limit, budget)
    return search_float32(checkpoint_of(model), limit, form, budget).summary()


@dataclass(frozen=True)
class Float32Answer:
    """What is known of one string in float32."""

    string: str
    certainty: Certainty
    label: int
    logit: float
    """Over the reals; of several classes the right one's margin."""
    bound: float
    """How far float32 can be from it."""


def float32_answers(
    model: ModelLike, strings: str | Sequence[str], *, form: Form = "tokens"
) -> tuple[Float32Answer, ...]:
    """Of each string: right in float32 whatever the order of sums, wrong, or it may be either."""
    checkpoint = checkpoint_of(model)
    config, faces, rounding = checkpoint.config, faces_of(checkpoint), Rounding(checkpoint)
    found = []
    for string in [strings] if isinstance(strings, str) else strings:
        counts = config.alphabet.counts(string)
        room = rounding.bound(int(counts.sum()), form)
        known, label = _certainty(faces, counts, room), int(config.task.classes(counts))
        found.append(Float32Answer(string, known, label, _logit(faces, counts), room))
    return tuple(found)


def _certainty(faces: AnyFaces, counts: Integers, room: float) -> Certainty:
    label = True if isinstance(faces, ClassFaces) else bool(faces.config.task.labels(counts))
    return certainty(_logit(faces, counts), label, room)


def _logit(faces: AnyFaces, counts: Integers) -> float:
    """The real logit, or of several classes the right one's margin."""
    if isinstance(faces, ClassFaces):
        return faces.exact.margin(counts.tolist(), int(faces.config.task.classes(counts)))
    return faces.exact.rounded(counts.tolist())


def certainty(logit: float, label: bool, bound: float) -> Certainty:
    """What a real logit (rounded to float64) says of the float32 answer, this bound given."""
    room = bound * (1 + 1e-9) + abs(logit) * 1e-15
    if logit > room:
        return "right" if label else "wrong"
    if logit <= -room and room > 0:
        return "wrong" if label else "right"
    return "depends on rounding"
