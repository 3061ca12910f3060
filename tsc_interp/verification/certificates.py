"""Certificates: what is proved about a classifier for every length, as a file anyone can check.

`certify` searches in float64, writes what it found as claims with their boxes, and lets the
independent checker (checker.py, exact arithmetic) derive each of them again: only what passes is in
the result. So a slip in the search can cost a proof, but cannot invent one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.files import write_output
from tsc_interp.verification.checker import SCHEMA, CertificateError, check, digest
from tsc_interp.verification.checker_model import BoxModel
from tsc_interp.verification.exact import checkpoint_of
from tsc_interp.verification.faces import Faces
from tsc_interp.verification.horizons import (
    DEFAULT_LIMIT,
    Counterexample,
    Horizon,
    counterexample,
    summarise,
)
from tsc_interp.verification.labels import face_name
from tsc_interp.verification.proofs import AllLengths, finer, prove_all_lengths, tail_bounds
from tsc_interp.verification.search import FaceSearch, halves, search_face, search_faces

Claim = dict[str, Any]

_FINER_BOXES = 20_000


@dataclass(frozen=True)
class FaceProof:
    """One set of letters whose strings all have label 0: proved right at every length, or not."""

    letters: str
    holds_for_all_lengths: bool | None
    """True proved, False with a witness, None undecided."""
    witness: Counterexample | None
    max_logit: float | None
    """An upper bound on the logit of all these strings, when they are proved right."""
    tried: str
    """How it was decided, or what was tried in vain."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "letters": self.letters,
            "holds_for_all_lengths": self.holds_for_all_lengths,
            "witness": self.witness.to_dict() if self.witness else None,
            "max_logit": self.max_logit,
            "tried": self.tried,
        }


@dataclass(frozen=True)
class Certificate:
    """The document, the sentences the checker derived from it, and the search behind it."""

    document: dict[str, Any]
    proved: tuple[str, ...]
    horizon: Horizon
    negative_faces: tuple[FaceProof, ...]
    finite: bool
    """Whether the horizon is proved finite (an error is exhibited, or the limit argument holds)."""

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the document; a file that is there must be a certificate, or `force` be given."""
        content = (json.dumps(self.document) + "\n").encode()
        write_output(Path(path), content, is_certificate, force=force)


def is_certificate(start: bytes) -> bool:
    """Whether a file that starts so is a certificate of ours."""
    return b'"tsc-interp/certificate/' in start[:100]


def certify(model: ModelLike, *, limit: int = DEFAULT_LIMIT, budget: int = 200_000) -> Certificate:
    """Everything that can be proved at every length, checked in exact arithmetic.

    `model` is a hooked model, a checkpoint, a bundled name, a path, or a run; `limit` is how long a
    first error may be.
    """
    faces = Faces(checkpoint_of(model))
    return certify_searches(faces, search_faces(faces, limit, budget), limit)


def certify_searches(faces: Faces, searches: Sequence[FaceSearch], limit: int) -> Certificate:
    """The certificate that follows from searches already made."""
    return _Builder(faces.checkpoint, faces, searches, limit).build()


def read_certificate(path: str | os.PathLike[str]) -> Any:
    try:
        return json.loads(Path(path).read_text())
    except OSError as error:
        raise UsageError(f"cannot read the certificate {path}: {error.strerror}") from None
    except ValueError as error:
        raise CertificateError(f"rejected: {path} is not JSON: {error}") from None


class _Builder:
    def __init__(
        self, checkpoint: Checkpoint, faces: Faces, searches: Sequence[FaceSearch], limit: int
    ) -> None:
        self.checkpoint, self.faces, self.searches = checkpoint, faces, searches
        self.config, self.limit = checkpoint.config, limit
        self.horizon = summarise(faces, searches, limit)
        self.claims: list[Claim] = []
        self.tails: dict[str, int] = {}
        self.always: dict[str, AllLengths] = {}

    def build(self) -> Certificate:
        for search in self.searches:
            if search.label is not None and search.counterexample is None:
                self._for_all_lengths(search)
        for search in self.searches:
            if search.counterexample is not None:
                found = counterexample(self.faces, search.letters, search.counterexample)
                self._keep({"kind": "wrong", "string": found.string})
        length = self.horizon.length if self.horizon.proved else None
        if length is not None and not self._covers(length):
            length = None
        if self.horizon.shortest is None:
            self._limit()
        return self._finish(length)

    def _keep(self, *claims: Claim) -> bool:
        """Keep claims that the checker can derive, each on its own."""
        document = self._sealed(list(claims), None)
        try:
            check(document, self.checkpoint)
        except CertificateError:
            return False
        self.claims += claims
        return True

    def _for_all_lengths(self, search: FaceSearch) -> None:
        letters = face_name(self.config, search.letters)
        face, label = self.faces[search.letters], bool(search.label)
        if not face.log_n:
            self._at_all_ratios(letters, label, prove_all_lengths(face, label))
            return
        start = 2
        while start <= search.right_through:
            bounds = tail_bounds(face, start)
            if bounds is None:
                return
            if bounds[0][0] > 0 if label else bounds[1][0] <= 0:
                tail = {"kind": "right_beyond", "letters": letters, "length": start}
                short = search_face(self.faces, search.letters, start - 1)
                if self._keep(_up_to_claim(letters, start - 1, short), tail):
                    self.tails[letters] = start
                    return
            start *= 2

    def _at_all_ratios(self, letters: str, label: bool, proof: AllLengths | None) -> None:
        """First with the bound that was found, then with just its sign, then with finer boxes."""
        for _ in range(3 if proof else 0):
            assert proof is not None
            # Room for the radii of the checker's balls, which have 30 bits.
            room = abs(proof.extreme_logit) * (-1e-6 if label else 1e-6)
            for bound in (proof.extreme_logit + room, 1e-9 if label else 0.0):
                attempt = replace(proof, extreme_logit=bound)
                if self._keep(_always_claim(self.config, letters, attempt)):
                    self.always[letters] = attempt
                    return
            proof = finer(proof)

    def _covers(self, length: int) -> bool:
        """Claims that every set of letters is right up to the horizon."""
        for search in self.searches:
            letters = face_name(self.config, search.letters)
            if len(letters) > length or letters in self.always:
                continue
            if search.label is None:
                return False
            claim = _up_to_claim(letters, length, search)
            if not self._keep(claim) and not self._keep_finer(claim, search):
                return False
        return True

    def _keep_finer(self, claim: Claim, search: FaceSearch) -> bool:
        """Cut boxes until the checker's bounds, looser for deep models, can prove them too."""
        model = BoxModel(self.checkpoint)
        boxes: list[list[list[int]]] = []
        waiting = [(tuple(low), tuple(high)) for low, high in claim["boxes"]]
        while waiting and len(boxes) + len(waiting) < _FINER_BOXES:
            low, high = waiting.pop()
            if sum(low) > claim["length"]:
                continue
            least, most = model.count_box(search.letters, low, high)
            if least > 0 if search.label else most <= 0:
                boxes.append([list(low), list(high)])
            elif low == high:
                return False
            else:
                waiting += halves(low, high)
        return not waiting and self._keep({**claim, "boxes": boxes})

    def _limit(self) -> None:
        """Without an error in reach, plain softmax still has one: two labels share a limit."""
        for small in self.searches:
            for large in self.searches:
                if len(small.letters) == 1 and set(small.letters) < set(large.letters):
                    letter = face_name(self.config, small.letters)
                    letters = face_name(self.config, large.letters)
                    if self._keep({"kind": "limit", "letter": letter, "letters": letters}):
                        return

    # -- the document --------------------------------------------------------------------------

    def _sealed(self, claims: list[Claim], length: int | None) -> dict[str, Any]:
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "weight_hash": self.checkpoint.weight_hash(),
            "claims": claims,
            "conclusion": self._conclusion(claims, length),
        }
        # As it will be read: JSON has no tuples.
        document = json.loads(json.dumps(document))
        return {**document, "digest": digest(document)}

    def _conclusion(self, claims: list[Claim], length: int | None) -> dict[str, Any]:
        by_kind = {
            kind: {claim.get("letters"): claim for claim in claims if claim["kind"] == kind}
            for kind in ("right_at_all_lengths", "right_beyond", "right_up_to")
        }
        wrong = [claim["string"] for claim in claims if claim["kind"] == "wrong"]

        def always(letters: str) -> bool:
            beyond = by_kind["right_beyond"].get(letters)
            up_to = by_kind["right_up_to"].get(letters, {"length": 0})
            tail = beyond is not None and up_to["length"] >= beyond["length"] - 1
            return letters in by_kind["right_at_all_lengths"] or tail

        negative: dict[str, bool | None] = {}
        for search in self.searches:
            if search.label is False:
                letters = face_name(self.config, search.letters)
                has_error = any(set(filter(str.isalpha, s)) == set(letters) for s in wrong)
                negative[letters] = False if has_error else (True if always(letters) else None)
        return {
            "horizon": length,
            "infinite": all(always(face_name(self.config, s.letters)) for s in self.searches),
            "finite": bool(wrong) or any(claim["kind"] == "limit" for claim in claims),
            "negative_faces": negative,
        }

    def _finish(self, length: int | None) -> Certificate:
        document = self._sealed(self.claims, length)
        proved = check(document, self.checkpoint)
        conclusion = document["conclusion"]
        known = self.horizon
        infinite = bool(conclusion["infinite"])
        horizon = replace(known, infinite=infinite, proved=infinite or known.proved)
        negative = tuple(
            self._face_proof(search, conclusion["negative_faces"])
            for search in self.searches
            if search.label is False
        )
        return Certificate(document, tuple(proved), horizon, negative, bool(conclusion["finite"]))

    def _face_proof(self, search: FaceSearch, verdicts: dict[str, bool | None]) -> FaceProof:
        letters = face_name(self.config, search.letters)
        holds = verdicts[letters]
        found = search.counterexample
        witness = None if found is None else counterexample(self.faces, search.letters, found)
        bound, tried = None, f"branch and bound to length {self.limit}, then over all ratios"
        if letters in self.always:
            bound = self.always[letters].extreme_logit
            boxes = sum(len(chart.low) for chart in self.always[letters].charts)
            tried = f"{boxes} boxes of ratios"
        elif letters in self.tails:
            tried = f"every string below {self.tails[letters]} letters, and a tail bound beyond"
        elif witness is not None:
            tried = f"branch and bound, {search.examined} boxes"
        return FaceProof(letters, holds, witness, bound, tried)


def _always_claim(config: ClassifierConfig, letters: str, proof: AllLengths) -> Claim:
    return {
        "kind": "right_at_all_lengths",
        "letters": letters,
        "bound": proof.extreme_logit,
        "charts": [
            {
                "largest": config.alphabet.letters[chart.largest],
                "boxes": [[list(a), list(b)] for a, b in zip(chart.low, chart.high, strict=True)],
            }
            for chart in proof.charts
        ],
    }


def _up_to_claim(letters: str, length: int, search: FaceSearch) -> Claim:
    boxes = []
    for low, high in search.boxes:
        slack = length - sum(low)
        if slack >= 0:
            # Larger counts make the string too long; a smaller box is easier to prove.
            boxes.append([list(low), [min(b, a + slack) for a, b in zip(low, high, strict=True)]])
    return {"kind": "right_up_to", "letters": letters, "length": length, "boxes": boxes}
