"""Certificates: what is proved about a classifier for every length, as a file anyone can check.

`certify` searches in float64, writes what it found as claims with their boxes, and lets the
independent checker (checker.py, exact arithmetic) derive each of them again: only what passes is in
the result. So a slip in the search can cost a proof, but cannot invent one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.files import write_output
from tsc_interp.output.display import Displayed
from tsc_interp.verification.box_claims import CertificateError
from tsc_interp.verification.checker import Checker, digest, schema_of
from tsc_interp.verification.checker_claims import Proved
from tsc_interp.verification.classes import AnyFaces, ClassFaces, faces_of
from tsc_interp.verification.cutting import Vector, halves
from tsc_interp.verification.exact import checkpoint_of
from tsc_interp.verification.faces import Face
from tsc_interp.verification.float32 import Float32Horizon, search_float32
from tsc_interp.verification.horizons import (
    DEFAULT_LIMIT,
    Counterexample,
    Horizon,
    as_checked,
    check_reach,
    counterexample,
    summarise,
)
from tsc_interp.verification.labels import face_name
from tsc_interp.verification.proofs import AllLengths, finer, prove_all_lengths, tail_bounds
from tsc_interp.verification.rounding import Form
from tsc_interp.verification.search import FaceSearch, search_face, search_faces

Claim = dict[str, Any]

PATIENCE = 600_000_000
"""For the claims that are put to the checker, in microseconds of its estimated work: ten minutes.

Estimated, not timed, so a certificate is the same on every machine. A claim that would cost more
than what is left is not made."""
_MOST_FINER = 100_000
PER_BOX = 5
"""A box takes the checker so many times what one logit takes in exact arithmetic, measured."""
_FEW_BOXES = 200
_FINER_BOXES = 20_000
_FLOAT32_BOXES = 100_000


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


@dataclass(frozen=True, repr=False)
class Certificate(Displayed):
    """The document, and what the checker derived from it: nothing here rests on the search."""

    document: dict[str, Any]
    checked: Proved
    horizon: Horizon
    negative_faces: tuple[FaceProof, ...]
    float32: Float32Horizon | None = None
    """What holds in float32, where that was asked for."""

    @property
    def proved(self) -> tuple[str, ...]:
        return self.checked.sentences

    @property
    def finite(self) -> bool:
        """Whether the horizon is proved finite: an error is exhibited, or the limit argument."""
        return self.checked.finite

    def _facts(self) -> list[str]:
        return [*self.horizon._facts(), f"{len(self.proved)} statements proved"]

    def _lines(self) -> list[tuple[str, str]]:
        return [("proved", sentence) for sentence in self.proved]

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the document; a file that is there must be a certificate, or `force` be given."""
        content = (json.dumps(self.document) + "\n").encode()
        write_output(Path(path), content, is_certificate, force=force)


def is_certificate(start: bytes) -> bool:
    """Whether a file that starts so is a certificate of ours."""
    return b'"tsc-interp/certificate/' in start[:100]


def certify(
    model: ModelLike,
    *,
    limit: int = DEFAULT_LIMIT,
    budget: int = 200_000,
    float32: Form | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Certificate:
    """Everything that can be proved at every length, checked in exact arithmetic.

    `model` is a hooked model, a checkpoint, a bundled name, a path, or a run; or, with `reading`, a
    model of TransformerLens (see `from_transformer_lens`). `limit` is how long a first error may
    be. With `float32`, the form strings are given in ('tokens' or 'compressed'), the certificate
    also says up to which length the float32 model is right, whatever the order of its sums.
    """
    check_reach(limit, budget)
    faces = faces_of(checkpoint_of(model, reading))
    return certify_searches(faces, search_faces(faces, limit, budget), limit, float32=float32)


def certify_searches(
    faces: AnyFaces,
    searches: Sequence[FaceSearch],
    limit: int,
    patience: int = PATIENCE,
    float32: Form | None = None,
) -> Certificate:
    """The certificate that follows from searches already made; see `PATIENCE`."""
    try:
        checker = Checker(faces.checkpoint)
    except CertificateError as error:
        raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
    return _Builder(faces, searches, limit, checker, patience).build(float32)


class _Builder:
    """Turns searches into claims, keeping those that the checker can derive."""

    def __init__(
        self,
        faces: AnyFaces,
        searches: Sequence[FaceSearch],
        limit: int,
        checker: Checker,
        patience: int = PATIENCE,
    ) -> None:
        self.faces, self.searches, self.limit = faces, searches, limit
        self.left = patience
        self.config, self.checker = faces.config, checker
        self.found = summarise(faces, searches, limit)
        self.claims: list[Claim] = []
        self.tails: dict[str, int] = {}
        self.always: dict[str, AllLengths] = {}

    def build(self, float32: Form | None = None) -> Certificate:
        for search in self.searches:
            if search.label is not None and search.counterexample is None:
                self._for_all_lengths(search)
        for search in self.searches:
            if search.counterexample is not None:
                found = counterexample(self.faces, search.letters, search.counterexample)
                self._keep(wrong_claim(found))
        for search in self.searches:
            letters = face_name(self.config, search.letters)
            if letters not in self.always and letters not in self.tails:
                self._right_up_to(letters, search)
        if self.found.shortest is None:
            self._limit()
        return self._finish(None if float32 is None else self._in_float32(float32))

    def _in_float32(self, form: Form) -> Float32Horizon:
        """What holds in float32 too, for strings given in this form, as the search has it."""
        length = self.found.length
        reach = self.limit if length is None else max(length + 1, 1)
        known = search_float32(self.faces.checkpoint, reach, form, _FLOAT32_BOXES)
        summary, wrong = known.summary(), True
        for search in known.searches:
            letters = face_name(self.config, search.letters)
            claim = up_to_claim(letters, summary.safe_through, search)
            claim |= {"kind": "float32_right_up_to", "form": form}
            if summary.safe_through >= len(letters):
                _ = self._keep(claim) or self._keep_finer(claim, search)
        if summary.first is not None and summary.certainty == "wrong":
            counts = self.config.alphabet.counts(summary.first).tolist()
            found = counterexample(self.faces, tuple(range(len(counts))), counts)
            wrong = self._keep({**wrong_claim(found), "kind": "float32_wrong", "form": form})
        return replace(summary, proved=wrong)

    def _keep(self, *claims: Claim) -> bool:
        """Keep claims that the checker can derive, each on its own, while patience lasts."""
        if not self._affordable(sum(boxes_of(claim) * self._cost(claim) for claim in claims)):
            return False
        try:
            self.checker.derive(claims)
        except CertificateError:
            return False
        self.claims += claims
        return True

    def _affordable(self, work: int) -> bool:
        """Whether patience lasts for this, in microseconds; if so it is spent."""
        if work > self.left:
            return False
        self.left -= work
        return True

    def _cost(self, claim: Claim) -> int:
        """About what one box of a claim takes the checker, in microseconds."""
        return self.faces.exact.cost(len(claim.get("letters", "a"))) * PER_BOX

    def _for_all_lengths(self, search: FaceSearch) -> None:
        letters = face_name(self.config, search.letters)
        face, label = self._asked(search)
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
                shorter = []
                if start > len(letters):
                    short = search_face(self.faces, search.letters, start - 1)
                    shorter.append(up_to_claim(letters, start - 1, short))
                if self._keep(*shorter, tail):
                    self.tails[letters] = start
                    return
            start *= 2

    def _asked(self, search: FaceSearch) -> tuple[Face, bool]:
        """What is bounded, and whether it has to be above zero: a class's margin always has."""
        if isinstance(self.faces, ClassFaces):
            return self.faces.margin(search.letters, search.label or 0), True
        return self.faces[search.letters], bool(search.label)

    def _at_all_ratios(self, letters: str, label: bool, proof: AllLengths | None) -> None:
        """First with the bound that was found, then with just its sign, then with finer boxes."""
        for _ in range(3 if proof else 0):
            assert proof is not None
            boxes = sum(len(chart.low) for chart in proof.charts)
            if boxes * self.faces.exact.cost(len(letters)) * PER_BOX > self.left:
                return
            # Room for the radii of the checker's balls, which have 30 bits.
            room = abs(proof.extreme_logit) * (-1e-6 if label else 1e-6)
            for bound in (proof.extreme_logit + room, 1e-9 if label else 0.0):
                attempt = replace(proof, extreme_logit=bound)
                if self._keep(_always_claim(self.config, letters, attempt)):
                    self.always[letters] = attempt
                    return
            if boxes * 2 ** len(letters) > _MOST_FINER:
                return
            proof = finer(proof)

    def _right_up_to(self, letters: str, search: FaceSearch) -> None:
        """As far as the search went; if that is much to check, or too much, to the horizon."""
        horizon = self.found.right_through
        for length in dict.fromkeys((search.right_through, horizon)):
            claim = up_to_claim(letters, length, search)
            if length < len(letters) or (length > horizon and len(claim["boxes"]) > _FEW_BOXES):
                continue
            if self._keep(claim) or self._keep_finer(claim, search):
                return

    def _keep_finer(self, claim: Claim, search: FaceSearch) -> bool:
        """Cut boxes until the checker's bounds, looser for deep models, can prove them too."""
        boxes: list[list[list[int]]] = []
        waiting = [(tuple(low), tuple(high)) for low, high in claim["boxes"]]
        while waiting and len(boxes) + len(waiting) < _FINER_BOXES:
            low, high = waiting.pop()
            if sum(low) > claim["length"]:
                continue
            if not self._affordable(self.faces.exact.cost(len(search.letters)) * PER_BOX):
                return False
            if self._shown(claim, search, low, high):
                boxes.append([list(low), list(high)])
            elif low == high:
                return False
            else:
                waiting += halves(low, high)
        return not waiting and self._keep({**claim, "boxes": boxes})

    def _shown(self, claim: Claim, search: FaceSearch, low: Vector, high: Vector) -> bool:
        """Whether the checker shows of a box what the claim says of it."""
        if "form" not in claim:
            return self.checker.is_right(search.letters, low, high)
        return self.checker.is_safe(claim["form"], claim["length"], search.letters, low, high)

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

    def _finish(self, float32: Float32Horizon | None) -> Certificate:
        """The document says what follows from its claims, as the checker derives them again."""
        claims = json.loads(json.dumps(self.claims))  # as it will be read: JSON has no tuples
        checked = self.checker.derive(claims)
        document = {
            "schema": schema_of(checked),
            "weight_hash": self.checker.weight_hash,
            "claims": claims,
            "conclusion": checked.conclusion(),
        }
        document["digest"] = digest(document)
        negative = tuple(
            self._face_proof(search, checked.negative_faces)
            for search in self.searches
            if search.label is not None and not search.label and not self.found.several
        )
        if float32 is not None:
            derived = checked.float32.get(float32.form)
            through = 0 if derived is None else derived.safe_through
            proved = float32.proved and derived is not None and through == float32.safe_through
            float32 = replace(float32, safe_through=through, proved=proved)
        return Certificate(document, checked, as_checked(self.found, checked), negative, float32)

    def _face_proof(self, search: FaceSearch, verdicts: Mapping[str, bool | None]) -> FaceProof:
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


def boxes_of(claim: Claim) -> int:
    """How many boxes a claim has the checker bound."""
    charts = claim.get("charts", ())
    return sum(len(chart["boxes"]) for chart in charts) + len(claim.get("boxes", ()))


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


def wrong_claim(found: Counterexample) -> Claim:
    """Of several classes with the one that is answered."""
    answered = {"answer": found.answer} if found.several else {}
    return {"kind": "wrong", "string": found.string, **answered}


def up_to_claim(letters: str, length: int, search: FaceSearch) -> Claim:
    boxes = []
    for low, high in search.boxes:
        slack = length - sum(low)
        if slack >= 0:
            # Larger counts make the string too long; a smaller box is easier to prove.
            boxes.append([list(low), [min(b, a + slack) for a, b in zip(low, high, strict=True)]])
    return {"kind": "right_up_to", "letters": letters, "length": length, "boxes": boxes}
