"""Certificates: what is proved about a classifier for every length, as a file anyone can check.

`certify` searches in float64, and asks the trusted base what holds (`prover.py`): only what it
derives is in the result. So a slip in the search can cost a proof, but cannot invent one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import comb
from typing import Any

import numpy as np

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.output.display import BAD, GOOD, PLAIN, Displayed, Grid, Line
from tsc_interp.output.numbers import counted
from tsc_interp.telling import say
from tsc_interp.trusted.trees import Box
from tsc_interp.verification.count_model import CountModel, Form, checkpoint_of
from tsc_interp.verification.documents import require_own_rule, rule_of, write_certificate
from tsc_interp.verification.float32 import search_float32
from tsc_interp.verification.horizon_result import Counterexample, Float32Horizon, Horizon
from tsc_interp.verification.labels import full_counts, support_name
from tsc_interp.verification.proved import Proved
from tsc_interp.verification.prover import Prover
from tsc_interp.verification.search.search import (
    BOXES,
    SupportSearch,
    search_support,
    search_supports,
)
from tsc_interp.verification.summaries import (
    DEFAULT_LIMIT,
    as_checked,
    check_reach,
    counterexample,
    summarise,
)

CHECKER_SECONDS = 600.0
"""Of the trusted base."""
_FLOAT32_BOXES = 100_000
_FEW_CUTS = 200
_MOST_LISTED = 20_000
"""Count vectors of one set of letters whose labels a document writes out."""


@dataclass(frozen=True)
class SupportProof:
    """One set of letters whose strings all have label 0: proved right at every length, or not."""

    letters: str
    holds_for_all_lengths: bool | None
    """True proved, False with a witness, None undecided."""
    witness: Counterexample | None
    tried: str
    """How it was decided, or what was tried in vain."""

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "witness": self.witness.to_dict() if self.witness else None}


@dataclass(frozen=True, repr=False)
class Certificate(Displayed):
    """A certificate: a document that `check` verifies, and the claims that it proves.

    Attributes:
        document: The certificate as JSON; `save()` writes it.
        checked: The checker's result.
        horizon: The horizon, as far as it is proved.
        negative_supports: The sets of letters whose strings have label 0, and the result for each.
        float32: The result for the float32 model, if it was requested.

    Example:
        >>> import tsc_interp as tsc
        >>> certificate = tsc.certify("generalization-errors", limit=100)
        >>> certificate.proved[-2:]
        ('the horizon is 66', 'no false positive of any length over a, b, c, ac')
    """

    document: dict[str, Any]
    checked: Proved
    horizon: Horizon
    negative_supports: tuple[SupportProof, ...]
    float32: Float32Horizon | None = None

    @property
    def proved(self) -> tuple[str, ...]:
        """The claims that the checker confirmed, as sentences."""
        return self.checked.sentences

    @property
    def finite(self) -> bool:
        """Whether the horizon is proved finite, by a wrong string or by the limit argument."""
        return self.checked.finite

    def lines(self) -> Iterator[Line]:
        """Return the claims proved besides the horizon, as sentences."""
        for support in self.negative_supports:
            if support.holds_for_all_lengths:
                yield GOOD, f"  over exactly {support.letters}: no false positive of any length"
            elif support.holds_for_all_lengths is None:
                yield BAD, f"  over exactly {support.letters}: undecided; tried {support.tried}"
        if self.finite:
            yield PLAIN, "  the horizon is proved finite."
        elif not self.horizon.infinite:
            yield (
                BAD,
                f"  whether the horizon is finite is undecided: no error up to "
                f"{self.horizon.limit:,} letters, no limit that excludes one, no tail bound.",
            )
        again = counted(len(self.proved), "statement")
        yield PLAIN, f"  {again} derived by the trusted base."

    def _facts(self) -> list[str]:
        return [*self.horizon._facts(), f"{counted(len(self.proved), 'statement')} proved"]

    def _grids(self) -> list[Grid]:
        return self.horizon._grids()

    def _lines(self) -> list[tuple[str, str]]:
        return [("proved", sentence) for sentence in self.proved]

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the document. A file is replaced if it is a certificate, or with `force`."""
        write_certificate(path, self.document, force=force)


def certify_counts(
    model: ModelLike,
    *,
    limit: int = DEFAULT_LIMIT,
    seconds: float = CHECKER_SECONDS,
    boxes: int = BOXES,
    float32: Form | None = None,
) -> Certificate:
    """Everything that can be proved at every length, checked in exact arithmetic.

    Args:
        model: One that reads counts of letters.
        limit: How long a first error may be.
        seconds: For the search, and again for the checker, as estimated.
        boxes: How many boxes are examined per set of letters.
        float32: The form strings are given in: the certificate also says up to which length the
            float32 model is right, whatever the order of its sums.
    """
    check_reach(limit, boxes)
    counted = CountModel(checkpoint_of(model))
    searches = search_supports(counted, limit, boxes, seconds=seconds, sure=False)
    return certify_searches(counted, searches, limit, seconds, float32)


def certify_searches(
    model: CountModel,
    searches: Sequence[SupportSearch],
    limit: int,
    seconds: float = CHECKER_SECONDS,
    float32: Form | None = None,
    *,
    horizon_only: bool = False,
) -> Certificate:
    """The certificate that follows from searches already made.

    Args:
        model: The model.
        searches: What was found for each set of letters.
        limit: How far it was searched.
        seconds: How long proving may take.
        float32: The form in which the float32 model is given strings, if it is asked about.
        horizon_only: Prove the first error of all and what is shorter, and nothing beyond.

    Raises:
        UnsupportedError: The trusted base does not know this kind of model.
    """
    builder = _Builder(model, searches, limit, seconds, float32)
    made = builder.build(horizon_only)
    if builder.missed:
        # Float64 guessed wrongly, too close to a tie: this time what is searched is shown.
        searches = [
            search_support(model, search.letters, limit) if search.letters in builder.missed
            else search
            for search in searches
        ]  # fmt: skip
        made = _Builder(model, searches, limit, seconds, float32).build(horizon_only)
    return made


class _Builder:
    """Turns searches into a proof."""

    def __init__(
        self, model: CountModel, searches: Sequence[SupportSearch], limit: int, seconds: float,
        float32: Form | None,
    ) -> None:  # fmt: skip
        self.model, self.searches, self.limit = model, searches, limit
        self.config, self.form = model.config, float32
        self.searched = summarise(model, searches, limit)
        language = {"counts": rule_of(self.config, self._inputs())}
        self.prover = Prover([model], language, float32, seconds)
        self.tails: dict[str, int] = {}
        self.missed: set[tuple[int, ...]] = set()
        """Sets of letters of which something was guessed that could not be derived."""

    def _inputs(self) -> list[tuple[int, ...]]:
        """Of a task that is a rule of one's own, the inputs whose labels a proof may need."""
        return listed_inputs(self.searches, self.config.n_letters)

    def build(self, horizon_only: bool = False) -> Certificate:
        """The proof, the certificate around it, and what it says."""
        prover, reach = self.prover, self.searched.verified_length
        first = self.searched.shortest
        for number, search in enumerate(self.searches):
            say(f"certificate: {number:,} of {len(self.searches):,} sets of letters")
            counts = search.counterexample
            if counts is not None and not (horizon_only and first and sum(counts) > first.length):
                full = full_counts(self.config, search.letters, np.array(counts)).tolist()
                answered = self._answer(counterexample(self.model, search.letters, counts))
                if answered is not None:
                    prover.single(full, answered)
        for search in self.searches:
            length = min(reach, search.verified_length) if horizon_only else search.verified_length
            always = not horizon_only and search.counterexample is None
            if always and search.label is not None and self._always(search, search.label):
                continue
            answer = partial(self._label, search.letters)
            for end in dict.fromkeys((length, reach)):
                if end > reach and len(search.cuts) > _FEW_CUTS:
                    continue  # much to prove, and nobody asked
                if prover.up_to(search.letters, end, answer, search.cuts, search.whole):
                    break
                if not search.sure and end >= len(search.letters):
                    self.missed.add(search.letters)
        if first is None:
            self._limit()
        return self._finish()

    def _label(self, letters: tuple[int, ...], box: Box) -> int | None:
        assert self.prover.rule is not None
        low, high = ([int(n) for n in end] for end in (box.low, box.high))
        return self.prover.rule.of_box(letters, low, high)

    def _answer(self, error: Counterexample) -> int | None:
        return error.answer if self.model.multiclass else 1 - int(error.label)

    def _always(self, search: SupportSearch, label: int) -> bool:
        """At every length: by ratios, or a tail and what comes before it."""
        if not self.config.log_n:
            return self.prover.ever(search.letters, label)
        start = 2
        while start <= search.verified_length:
            if self.prover.tail(search.letters, start, label):
                self.tails[support_name(self.config, search.letters)] = start
                if start <= len(search.letters):
                    return True
                shorter = search_support(self.model, search.letters, start - 1)
                answer = partial(self._label, search.letters)
                return self.prover.up_to(
                    search.letters, start - 1, answer, shorter.cuts, shorter.whole
                )
            start *= 2
        return False

    def _limit(self) -> None:
        """Plain softmax errs beyond reach if two labels share a limit that is not zero."""
        alone = {s.letters[0]: s.label for s in self.searches if len(s.letters) == 1}
        for search in self.searches:
            for letter in search.letters:
                labels = {alone.get(letter), search.label}
                apart = None not in labels and len(labels) > 1
                if apart and not self.config.log_n and self.prover.limit(letter):
                    return

    def _float32(self) -> Float32Horizon | None:
        """What holds in float32 too, for strings given in this form, as the search has it."""
        if self.form is None:
            return None
        length = self.searched.length
        reach = self.limit if length is None else max(length + 1, 1)
        horizon, searches = search_float32(self.model, reach, self.form, _FLOAT32_BOXES)
        proved = True
        for search in searches:
            if horizon.safe_through >= len(search.letters):
                proved &= self.prover.up_to(
                    search.letters, horizon.safe_through, partial(self._label, search.letters),
                    search.cuts, search.whole, float32=True,
                )  # fmt: skip
        if horizon.first is not None and horizon.certainty == "wrong":
            counts = self.config.alphabet.counts(horizon.first).tolist()
            error = counterexample(self.model, tuple(range(len(counts))), counts)
            answer = self._answer(error)
            proved &= answer is not None and self.prover.single(counts, answer, float32=True)
        return replace(horizon, proved=proved)

    def _finish(self) -> Certificate:
        float32 = self._float32()
        document = self.prover.document()
        require_own_rule(self.config, document["language"])
        checked = Proved.of(self.config, document)
        negative = tuple(
            self._support_proof(search, checked)
            for search in self.searches
            if search.label == 0 and not self.model.multiclass
        )
        if float32 is not None:
            derived = checked.float32[float32.form]
            proved = float32.proved and derived.safe_through == float32.safe_through
            float32 = replace(float32, safe_through=derived.safe_through, proved=proved)
        horizon = as_checked(self.searched, checked)
        return Certificate(document, checked, horizon, negative, float32)

    def _support_proof(self, search: SupportSearch, checked: Proved) -> SupportProof:
        letters, counts = support_name(self.config, search.letters), search.counterexample
        witness = None if counts is None else counterexample(self.model, search.letters, counts)
        tried = f"branch and bound to length {self.limit}, then over all ratios"
        if letters in self.tails:
            tried = f"every string below {self.tails[letters]} letters, and a tail bound beyond"
        elif checked.verified_length[letters] is None:
            tried = "boxes of ratios"
        elif witness is not None:
            tried = f"branch and bound, {search.examined} boxes"
        return SupportProof(letters, checked.negative_supports[letters], witness, tried)


def listed_inputs(searches: Sequence[SupportSearch], n_letters: int) -> list[tuple[int, ...]]:
    """The count vectors that are wrong, or about which nothing but a label of their own is known.

    Of sets of letters whose strings do not share a label, all vectors up to where the search came.
    """
    vectors = []
    for search in searches:
        known = [search.counterexample] if search.counterexample is not None else []
        reach = search.verified_length
        if search.label is None and comb(reach, len(search.letters)) <= _MOST_LISTED:
            every = product(range(1, reach + 1), repeat=len(search.letters))
            known += [counts for counts in every if sum(counts) <= reach]
        for counts in known:
            full = [0] * n_letters
            for letter, n in zip(search.letters, counts, strict=True):
                full[letter] = n
            vectors.append(tuple(full))
    return vectors
