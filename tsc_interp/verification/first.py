"""Only the first error of all, for many models: what a sweep asks of each.

`horizon` also finds the first error of every single set of letters, however far beyond the horizon
it lies. Here no search goes beyond the shortest error known so far, and the checker is given just
that error and what comes before it; so it takes a fraction of the time and says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.verification.box_claims import CertificateError
from tsc_interp.verification.certificates import certify_searches, up_to_claim, wrong_claim
from tsc_interp.verification.checker import Checker
from tsc_interp.verification.checker_claims import Proved
from tsc_interp.verification.classes import AnyFaces, faces_of
from tsc_interp.verification.exact import checkpoint_of
from tsc_interp.verification.horizons import (
    PATIENCE,
    Counterexample,
    Horizon,
    check_reach,
    counterexample,
)
from tsc_interp.verification.labels import face_name
from tsc_interp.verification.search import FaceSearch, search_faces


@dataclass(frozen=True)
class FirstError:
    """As in `Horizon`: the horizon, and the first error of all, if one was found."""

    length: int | None
    infinite: bool
    settled: bool
    proved: bool
    right_through: int
    shortest: Counterexample | None
    checked: bool = False
    """Whether all this is what the independent checker derived."""


def first_error(
    checkpoint: Checkpoint, *, limit: int, budget: int, prove: bool = True
) -> FirstError:
    """The horizon and the first error among strings of at most `limit` letters.

    Without `prove` the search's answer stands as it is found, except where it knows of no error:
    only the checker can say that there is none at any length.
    """
    check_reach(limit, budget)
    faces = faces_of(checkpoint_of(checkpoint))
    searches = search_faces(faces, limit, budget, first_only=True)
    found = _summary(faces, searches, limit)
    try:
        if found.shortest is None:
            return _in_full(faces, searches, limit) if found.settled or prove else found
        if not prove:
            return found
        checked = _derived(faces, searches, found.shortest, found.right_through)
        if checked is not None and checked.horizon == found.length:
            return _as_proved(found)
        return _in_full(faces, search_faces(faces, limit, budget), limit)
    except UnsupportedError:  # too large for the checker: nothing is called proved
        return found


def first_errors(
    checkpoints: Sequence[Checkpoint], *, limit: int, budget: int
) -> list[FirstError | None]:
    """The same of many models; None where the question cannot be asked."""
    found: list[FirstError | None] = []
    for checkpoint in checkpoints:
        with suppress(UnsupportedError):
            found.append(first_error(checkpoint, limit=limit, budget=budget))
            continue
        found.append(None)
    return found


def _summary(faces: AnyFaces, searches: Sequence[FaceSearch], limit: int) -> FirstError:
    errors = [
        counterexample(faces, search.letters, search.counterexample)
        for search in searches
        if search.counterexample is not None
    ]
    first = min(errors, key=lambda one: one.order, default=None)
    length = None if first is None else first.length - 1
    through = min(search.right_through for search in searches)
    settled = through == (limit if length is None else length)
    return FirstError(length, False, settled, False, through, first)


def _derived(
    faces: AnyFaces, searches: Sequence[FaceSearch], first: Counterexample, length: int
) -> Proved | None:
    """What the checker derives of the error, and of all shorter strings; None if it rejects."""
    claims = [wrong_claim(first)]
    claims += [
        up_to_claim(face_name(faces.config, search.letters), length, search)
        for search in searches
        if len(search.letters) <= length
    ]
    try:
        return Checker(faces.checkpoint).derive(claims)
    except CertificateError:
        return None


def _as_proved(found: FirstError) -> FirstError:
    return FirstError(
        found.length, False, found.settled, True, found.right_through, found.shortest, True
    )


def _in_full(faces: AnyFaces, searches: Sequence[FaceSearch], limit: int) -> FirstError:
    """By way of a whole certificate, which tries more: finer boxes, every length at once."""
    known: Horizon = certify_searches(faces, searches, limit, PATIENCE).horizon
    return FirstError(
        known.length, known.infinite, known.settled, known.proved, known.right_through,
        known.shortest, known.checked,
    )  # fmt: skip
