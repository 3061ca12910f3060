"""The horizon: the largest length up to which a classifier makes no error at all.

    tsc.horizon(model)                 -> Horizon
    tsc.horizon(model).length          -> 2166 for the walk-through model
    tsc.horizon(model).shortest        -> its first error, ab c{2165}

Claims are about the model over the real numbers, with its float32 weights taken as exact; `replay`
asks the float32 model about each counterexample, which is a separate claim.
The order that makes "the shortest" unique is stated in `search.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.output.display import Displayed
from tsc_interp.strings import MAX_REPEAT
from tsc_interp.verification.checker_claims import Proved
from tsc_interp.verification.classes import AnyFaces, ClassFaces, faces_of
from tsc_interp.verification.exact import checkpoint_of
from tsc_interp.verification.labels import face_name
from tsc_interp.verification.search import FaceSearch, search_faces

DEFAULT_LIMIT = 10**6
PATIENCE = 20_000_000
"""For what is put to the checker, in microseconds of its work; `certify` has more."""


@dataclass(frozen=True)
class Counterexample:
    """A string the model gets wrong, with the real-number logit rounded to float64.

    Of several classes, `label` is the right one and `logit` its margin: its output minus the
    largest other one.
    """

    string: str
    length: int
    counts: tuple[int, ...]
    label: int
    logit: float
    several: bool = False
    """Whether there are more than two classes."""
    answer: int | None = None
    """Of several classes the one the model gives; None if it could not be told."""

    @property
    def kind(self) -> str:
        if self.several:
            return "wrong"
        return "false_negative" if self.label else "false_positive"

    @property
    def mistake(self) -> str:
        """What is wrong, in words."""
        if self.several:
            answer = "another" if self.answer is None else str(self.answer)
            return f"class {self.label}, answered {answer}, margin {self.logit:+.4g}"
        return f"logit {self.logit:+.4g}"

    @property
    def order(self) -> tuple[int, tuple[int, ...]]:
        """Sorts by length, then alphabetically by the sorted string."""
        return self.length, tuple(-count for count in self.counts)

    def to_dict(self) -> dict[str, Any]:
        told = {**asdict(self), "counts": list(self.counts), "kind": self.kind}
        if self.several:
            told["margin"] = told.pop("logit")
        else:
            del told["answer"]
        del told["several"]
        return told


@dataclass(frozen=True)
class FaceHorizon:
    """The same for the strings over exactly one set of letters."""

    letters: str
    label: int | None
    shortest: Counterexample | None
    right_through: int
    settled: bool
    proved: bool
    boxes: int

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "shortest": self.shortest.to_dict() if self.shortest else None}


@dataclass(frozen=True, repr=False)
class Horizon(Displayed):
    """`length` is None when no error was found: then see `infinite` and `right_through`.

    `settled` is what the float64 search says of its own answer: nothing was left open. `proved` is
    what the independent checker says, after deriving it again in exact arithmetic; it is False
    where the checker was not asked.
    """

    length: int | None
    infinite: bool
    settled: bool
    proved: bool
    right_through: int
    limit: int
    by_letters: tuple[FaceHorizon, ...]
    checked: bool = False
    """Whether all this was cut down to what the checker derived: then it may be called proved."""
    several: bool = False
    """Whether there are more than two classes: then nothing is falsely positive or negative."""

    @property
    def shortest(self) -> Counterexample | None:
        return _first(self.by_letters, None)

    @property
    def shortest_false_positive(self) -> Counterexample | None:
        return None if self.several else _first(self.by_letters, 0)

    @property
    def shortest_false_negative(self) -> Counterexample | None:
        return None if self.several else _first(self.by_letters, 1)

    def _facts(self) -> list[str]:
        length = "infinite" if self.infinite else self.length
        first = [f"first error {self.shortest.string}"] if self.shortest else []
        return [f"length {length}", f"right through {self.right_through}", *first]

    def _lines(self) -> list[tuple[str, str]]:
        from tsc_interp.verification.words import horizon_lines

        return [("", sentence.strip()) for _, sentence in horizon_lines(self)]

    def to_dict(self) -> dict[str, Any]:
        def written(found: Counterexample | None) -> dict[str, Any] | None:
            return found.to_dict() if found else None

        told = {
            "length": self.length,
            "infinite": self.infinite,
            "settled": self.settled,
            "proved": self.proved,
            "right_through": self.right_through,
            "limit": self.limit,
            "shortest_counterexample": written(self.shortest),
        }
        if not self.several:
            told["shortest_false_positive"] = written(self.shortest_false_positive)
            told["shortest_false_negative"] = written(self.shortest_false_negative)
        return {**told, "by_letters": [face.to_dict() for face in self.by_letters]}


def horizon(
    model: ModelLike,
    *,
    limit: int = DEFAULT_LIMIT,
    budget: int = 200_000,
    prove: bool = True,
    reading: Mapping[str, Any] | None = None,
) -> Horizon:
    """Search every set of letters for its first error among strings of at most `limit` letters.

    `model` is a hooked model, a checkpoint, a bundled name, a path, or a run; or, with `reading`, a
    model of TransformerLens (see `from_transformer_lens`). `budget` bounds the
    boxes examined per set of letters; all of them together stop after about ten minutes' worth,
    exact decisions after two seconds' worth per set, and a set after 64 logits that cannot be told
    from zero (search.py). When any of these runs out, `settled` is False and `right_through` still
    holds. What the search finds goes through the checker of certificates, which alone makes it
    `proved`, as far as that takes about twenty seconds' worth of work (`certify` goes further);
    `prove=False` skips that, for many models at once.
    """
    check_reach(limit, budget)
    faces = faces_of(checkpoint_of(model, reading))
    searches = search_faces(faces, limit, budget)
    if prove:
        from tsc_interp.verification.certificates import certify_searches

        # A model too large for the checker is searched all the same, and nothing called proved.
        with suppress(UnsupportedError):
            return certify_searches(faces, searches, limit, PATIENCE).horizon
    return summarise(faces, searches, limit)


def check_reach(limit: object, budget: object) -> None:
    if type(limit) is not int or not 1 <= limit <= MAX_REPEAT:
        raise UsageError(
            f"the limit of a horizon is a length from 1 to {MAX_REPEAT}, got {limit!r}"
        )
    if type(budget) is not int or budget < 1:
        raise UsageError(f"the budget of a horizon is a number of boxes from 1, got {budget!r}")


def summarise(faces: AnyFaces, searches: Sequence[FaceSearch], limit: int) -> Horizon:
    """What the search found; nothing of it is proved yet."""
    by_letters = tuple(_face_horizon(faces, search, limit) for search in searches)
    right_through = min(face.right_through for face in by_letters)
    first = _first(by_letters, None)
    length = None if first is None else first.length - 1
    settled = right_through == (limit if length is None else length)
    several = isinstance(faces, ClassFaces)
    return Horizon(length, False, settled, False, right_through, limit, by_letters, several=several)


def as_checked(found: Horizon, checked: Proved) -> Horizon:
    """The same with every statement cut down to what the checker derived."""
    by_letters = tuple(_face_as_checked(face, checked, found.limit) for face in found.by_letters)
    first = _first(by_letters, None)
    length = None if first is None else first.length - 1
    return replace(
        found,
        length=length,
        infinite=checked.infinite,
        proved=checked.infinite or (length is not None and checked.horizon == length),
        right_through=min(face.right_through for face in by_letters),
        by_letters=by_letters,
        checked=True,
    )


def _face_as_checked(face: FaceHorizon, checked: Proved, limit: int) -> FaceHorizon:
    end = checked.right_through[face.letters]
    through = limit if end is None else min(end, limit)
    known = face.shortest is not None and face.shortest.string in checked.wrong
    shortest = face.shortest if known else None
    expected = limit if shortest is None else shortest.length - 1
    return replace(face, shortest=shortest, right_through=through, proved=through == expected)


def counterexample(faces: AnyFaces, face: tuple[int, ...], counts: Sequence[int]) -> Counterexample:
    """A wrong vector of a face, written as a string with its logit and label."""
    config = faces.config
    full = [0] * config.n_letters
    for letter, count in zip(face, counts, strict=True):
        full[letter] = int(count)
    label = int(config.task.classes(np.array(full)))
    told = config.alphabet.write(full), sum(full), tuple(full), label
    if isinstance(faces, ClassFaces):
        exact = faces.exact
        return Counterexample(*told, exact.margin(full, label), True, exact.answer(full))
    return Counterexample(*told, faces.exact.rounded(full))


def _face_horizon(faces: AnyFaces, search: FaceSearch, limit: int) -> FaceHorizon:
    found = search.counterexample
    shortest = None if found is None else counterexample(faces, search.letters, found)
    expected = limit if shortest is None else shortest.length - 1
    return FaceHorizon(
        letters=face_name(faces.config, search.letters),
        label=None if search.label is None else int(search.label),
        shortest=shortest,
        right_through=search.right_through,
        settled=search.right_through == expected,
        proved=False,
        boxes=search.examined,
    )


def _first(faces: Sequence[FaceHorizon], label: int | None) -> Counterexample | None:
    found = [face.shortest for face in faces if face.shortest is not None]
    wanted = [one for one in found if label is None or one.label == label]
    return min(wanted, key=lambda one: one.order, default=None)
