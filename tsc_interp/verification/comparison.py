"""`tsc.diff(a, b)`: all there is to say about where two classifiers answer differently.

Counted exactly up to a length (differences.py), the first difference searched for far beyond it
(agreement.py), and what is claimed of every length put to a checker of its own
(agreement_checker.py). Only what that checker derived is called proved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError
from tsc_interp.files import write_output
from tsc_interp.output.display import Displayed
from tsc_interp.output.numbers import number
from tsc_interp.verification.agreement import TwoModels, agree_at_all_ratios, agree_beyond
from tsc_interp.verification.agreement_checker import SCHEMA, Agreement, AgreementChecker
from tsc_interp.verification.box_claims import CertificateError
from tsc_interp.verification.certificates import PER_BOX, boxes_of
from tsc_interp.verification.checker import digest
from tsc_interp.verification.cutting import Box, halves
from tsc_interp.verification.differences import Answers, Difference, check_same_letters, reach
from tsc_interp.verification.exact import checkpoint_of
from tsc_interp.verification.faces import Faces
from tsc_interp.verification.horizons import check_reach
from tsc_interp.verification.identity import exact_form, has_form
from tsc_interp.verification.labels import all_faces, face_name
from tsc_interp.verification.search import FaceSearch, first_failure

Claim = dict[str, Any]
DEFAULT_LIMIT = 10**6
PATIENCE = 60_000_000
"""For the claims that are put to the checker: a minute's worth of its estimated work."""
_FINER_BOXES = 20_000


@dataclass(frozen=True, repr=False)
class Diff(Displayed):
    """Where two classifiers, in this order, answer differently."""

    first: str
    second: str
    counted: Difference
    """Every string up to a length."""
    proved: Agreement
    """What the checker derived about every length."""
    by_letters: Mapping[str, str | None]
    """Per set of letters, the first string they answer differently, if one was found."""
    document: dict[str, Any]
    """The certificate."""

    @property
    def shortest(self) -> str | None:
        """The shortest string they answer differently, as far as the search went."""
        found = self.document["claims"]
        strings = [claim["string"] for claim in found if claim["kind"] == "differ"]
        return strings[0] if strings else None

    @property
    def same(self) -> bool:
        """Whether they are proved to answer every string of every length alike."""
        return self.proved.everywhere

    def sentences(self) -> list[str]:
        told = [self.counted.sentence(self.first, self.second)]
        if self.same:
            told.append("They answer every string of every length alike, proved.")
        elif self.proved.first_difference is not None:
            told.append(
                f"They agree on every string of up to {self.proved.first_difference - 1:,} "
                f"letters, proved; the first they answer differently is `{self.shortest}`."
            )
        else:
            through = self.proved.agree_through or 0
            later = f" `{self.shortest}` is answered differently." if self.shortest else ""
            told.append(
                f"They agree on every string of up to {through:,} letters, proved.{later} "
                "Beyond that nothing is proved."
            )
        always = [letters for letters, end in self.proved.through.items() if end is None]
        if always and not self.same:
            told.append(f"At every length they agree on strings over exactly {', '.join(always)}.")
        return told

    def _facts(self) -> list[str]:
        return [
            f"{number(self.counted.differing)} strings up to {self.counted.max_length} differ",
            "the same at every length" if self.same else f"first {self.shortest}",
        ]

    def _lines(self) -> list[tuple[str, str]]:
        return [("", sentence) for sentence in self.sentences()]

    def to_dict(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "second": self.second,
            "counted": self.counted.to_dict(),
            "shortest": self.shortest,
            "by_letters": dict(self.by_letters),
            "proved": list(self.proved.sentences),
            **self.proved.conclusion(),
        }

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the certificate."""
        content = (json.dumps(self.document) + "\n").encode()
        write_output(Path(path), content, is_agreement, force=force)


def is_agreement(start: bytes) -> bool:
    """Whether a file that starts so is a certificate about two models."""
    return b'"tsc-interp/agreement/' in start[:100]


def diff(
    first: ModelLike,
    second: ModelLike,
    *,
    max_length: int | None = None,
    limit: int = DEFAULT_LIMIT,
    budget: int = 50_000,
    patience: int = PATIENCE,
) -> Diff:
    """The strings on which two models answer differently: counted, searched for, and proved.

    Each is a hooked model, a checkpoint, a bundled name, a path, or a run. `max_length` is how far
    every string is counted (200, or what is affordable), `limit` how far the first difference is
    searched for, `budget` the boxes examined per set of letters, `patience` the work put into the
    checker, in microseconds as certificates estimate it: what would take more is not claimed.
    """
    check_reach(limit, budget)
    one, other = (Faces(checkpoint_of(model)) for model in (first, second))
    check_same_letters(one, other)
    counted = Answers(one, reach(one.config.n_letters, max_length)).against(other)
    return Comparison(one, other, limit, budget, patience).diff(counted)


class Comparison:
    """The search for differences and the proofs of agreement, set of letters by set of letters."""

    def __init__(
        self, first: Faces, second: Faces, limit: int, budget: int, patience: int = PATIENCE
    ) -> None:
        self.first, self.second, self.limit, self.budget = first, second, limit, budget
        self.left = patience
        try:
            self.checker = AgreementChecker(first.checkpoint, second.checkpoint)
        except CertificateError as error:
            raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
        self.claims: list[Claim] = []
        self.differ: list[tuple[int, tuple[int, ...], str]] = []
        self.by_letters: dict[str, str | None] = {}

    def diff(self, counted: Difference) -> Diff:
        proved = self.run()
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "first": self.checker.hashes[0],
            "second": self.checker.hashes[1],
            "claims": json.loads(json.dumps(self.claims)),
            "conclusion": proved.conclusion(),
        }
        document["digest"] = digest(document)
        names = [faces.checkpoint.source for faces in (self.first, self.second)]
        return Diff(names[0], names[1], counted, proved, self.by_letters, document)

    def run(self) -> Agreement:
        for letters in all_faces(self.first.config):
            self._face(letters)
        self.differ.sort()
        found = [{"kind": "differ", "string": string} for *_, string in self.differ]
        self.claims = [*(one for one in found if self._holds(one)), *self.claims]
        return self.checker.derive(json.loads(json.dumps(self.claims)))

    def _face(self, letters: tuple[int, ...]) -> None:
        name = face_name(self.first.config, letters)
        self.by_letters[name] = None
        if self._identical(letters, name):
            return
        search = first_failure(TwoModels(self.first, self.second), letters, self.limit, self.budget)
        if search.counterexample is not None:
            full = [0] * self.first.config.n_letters
            for letter, count in zip(letters, search.counterexample, strict=True):
                full[letter] = count
            string = self.first.config.alphabet.write(full)
            self.by_letters[name] = string
            self.differ.append((sum(full), tuple(-n for n in full), string))
        elif self._at_every_length(letters, name):
            return
        self._up_to(name, search)

    def _identical(self, letters: tuple[int, ...], name: str) -> bool:
        both = (self.first.checkpoint, self.second.checkpoint)
        if not all(has_form(one) for one in both):
            return False
        if exact_form(both[0], letters) != exact_form(both[1], letters):
            return False
        return self._keep({"kind": "identical", "letters": name})

    def _at_every_length(self, letters: tuple[int, ...], name: str) -> bool:
        first, second = self.first[letters], self.second[letters]
        charts = agree_at_all_ratios(first, second)
        if charts is not None:
            alphabet = self.first.config.alphabet.letters
            written = [
                {
                    "largest": alphabet[chart.largest],
                    "boxes": [
                        [list(a), list(b)] for a, b in zip(chart.low, chart.high, strict=True)
                    ],
                }
                for chart in charts
            ]
            return self._keep({"kind": "agree_at_all_lengths", "letters": name, "charts": written})
        start = 2
        while first.log_n and second.log_n and start <= self.limit:
            if agree_beyond(first, second, start):
                judge = TwoModels(self.first, self.second)
                short = first_failure(judge, letters, start - 1, self.budget)
                tail = {"kind": "agree_beyond", "letters": name, "length": start}
                head = [_up_to_claim(name, start - 1, short.boxes)] if start > len(name) else []
                if self._keep(*head, tail):
                    return True
            start *= 2
        return False

    def _up_to(self, name: str, search: FaceSearch) -> None:
        if search.right_through < len(name):
            return
        claim = _up_to_claim(name, search.right_through, search.boxes)
        if not self._keep(claim):
            self._keep_finer(claim, search.letters)

    def _keep_finer(self, claim: Claim, letters: tuple[int, ...]) -> None:
        """Cut boxes until the checker's bounds, looser for deep models, can settle them too."""
        boxes: list[list[list[int]]] = []
        waiting = [(tuple(low), tuple(high)) for low, high in claim["boxes"]]
        models = self.checker.models
        while waiting and len(boxes) + len(waiting) < _FINER_BOXES:
            low, high = waiting.pop()
            if sum(low) > claim["length"]:
                continue
            self.left -= self._cost(len(letters))
            if self.left < 0:
                return
            if self.checker.alike([model.count_box(letters, low, high) for model in models]):
                boxes.append([list(low), list(high)])
            elif low == high:
                return
            else:
                waiting += halves(low, high)
        if not waiting:
            self._keep({**claim, "boxes": boxes})

    def _keep(self, *claims: Claim) -> bool:
        """Keep claims that the checker can derive, while patience lasts."""
        work = sum(boxes_of(claim) * self._cost(len(claim["letters"])) for claim in claims)
        if work > self.left:
            return False
        self.left -= work
        held = self._holds(*claims)
        if held:
            self.claims += claims
        return held

    def _cost(self, letters: int) -> int:
        """About what a box takes the checker, both models, in microseconds."""
        return sum(f.exact.cost(letters) for f in (self.first, self.second)) * PER_BOX

    def _holds(self, *claims: Claim) -> bool:
        try:
            self.checker.derive(json.loads(json.dumps(claims)))
        except CertificateError:
            return False
        return True


def _up_to_claim(name: str, length: int, found: Sequence[Box]) -> Claim:
    boxes = []
    for low, high in found:
        slack = length - sum(low)
        if slack >= 0:
            boxes.append([list(low), [min(b, a + slack) for a, b in zip(low, high, strict=True)]])
    return {"kind": "agree_up_to", "letters": name, "length": length, "boxes": boxes}
