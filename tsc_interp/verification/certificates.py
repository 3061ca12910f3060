"""Certificates: what is proved about a classifier for every length, as a file anyone can check.

`certify` searches in float64, writes what it found as claims with their boxes, and lets the
independent checker (checker/check.py, exact arithmetic) derive each of them again: only what passes
is in the result. So a slip in the search can cost a proof, but cannot invent one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError
from tsc_interp.output.display import BAD, GOOD, PLAIN, Displayed, Line
from tsc_interp.output.numbers import counted
from tsc_interp.telling import say
from tsc_interp.verification.bounds.exact import checkpoint_of
from tsc_interp.verification.bounds.labels import support_name
from tsc_interp.verification.bounds.rounding import Form
from tsc_interp.verification.bounds.supports import Supports
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.check import CERTIFICATE, Checker
from tsc_interp.verification.checker.claims import Proved
from tsc_interp.verification.checker.files import write_certificate
from tsc_interp.verification.float32 import search_float32
from tsc_interp.verification.horizon_result import Counterexample, Float32Horizon, Horizon
from tsc_interp.verification.keeper import SIGN_ONLY, Claim, Keeper, up_to_claim
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
"""For the claims that are given to the checker, as estimated."""
_FEW_BOXES = 200
_FLOAT32_BOXES = 100_000


@dataclass(frozen=True)
class SupportProof:
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
                bound = support.max_logit
                most = "" if bound is None else f", logit at most {bound:.4g}"
                yield (
                    GOOD,
                    f"  over exactly {support.letters}: no false positive of any length{most}",
                )
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
        yield PLAIN, f"  {again} checked again in exact arithmetic."

    def _facts(self) -> list[str]:
        return [*self.horizon._facts(), f"{counted(len(self.proved), 'statement')} proved"]

    def _picture(self) -> str:
        return self.horizon._picture()

    def _lines(self) -> list[tuple[str, str]]:
        return [("proved", sentence) for sentence in self.proved]

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the document. A file is replaced if it is a certificate, or with `force`."""
        write_certificate(path, self.document, CERTIFICATE, force=force)


is_certificate = CERTIFICATE.is_start_of


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
    check_reach(limit, boxes, seconds)
    supports = Supports(checkpoint_of(model))
    searches = search_supports(supports, limit, boxes, seconds=seconds)
    return certify_searches(supports, searches, limit, seconds, float32)


def certify_searches(
    supports: Supports,
    searches: Sequence[SupportSearch],
    limit: int,
    seconds: float = CHECKER_SECONDS,
    float32: Form | None = None,
) -> Certificate:
    """The certificate that follows from searches already made."""
    try:
        checker = Checker(supports.checkpoint)
    except CertificateError as error:
        raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
    return _Builder(supports, searches, limit, checker, seconds).build(float32)


class _Builder:
    """Turns searches into claims, keeping those that the checker can derive."""

    def __init__(
        self,
        supports: Supports,
        searches: Sequence[SupportSearch],
        limit: int,
        checker: Checker,
        seconds: float,
    ) -> None:
        self.supports, self.searches, self.limit = supports, searches, limit
        self.config, self.checker = supports.config, checker
        self.searched = summarise(supports, searches, limit)
        alphabet, cost = self.config.alphabet, supports.exact.cost
        self.keeper: Keeper[Proved] = Keeper(checker, alphabet, "right", cost, seconds)

    def build(self, float32: Form | None) -> Certificate:
        keeper = self.keeper
        for number, search in enumerate(self.searches):
            say(f"certificate: {number:,} of {len(self.searches):,} sets of letters")
            if search.label is not None and search.counterexample is None:
                self._for_all_lengths(search, search.label)
        for search in self.searches:
            if search.counterexample is not None:
                error = counterexample(self.supports, search.letters, search.counterexample)
                keeper.keep(wrong_claim(error))
        for search in self.searches:
            letters = support_name(self.config, search.letters)
            if letters not in keeper.always and letters not in keeper.tails:
                self._right_up_to(letters, search)
        if self.searched.shortest is None:
            self._limit()
        return self._finish(None if float32 is None else self._in_float32(float32))

    def _for_all_lengths(self, search: SupportSearch, label: int) -> None:
        margin = self.supports.margin(search.letters, label)
        self.keeper.keep_always(
            support_name(self.config, search.letters),
            margin,
            search.verified_length,
            partial(search_support, self.supports, search.letters),
            self._stated(label),
        )

    def _stated(self, label: int) -> Callable[[float], float]:
        """How a bound on a margin is written: of class 0 of two, as one on the logit."""
        if label or self.supports.multiclass:
            return lambda margin: margin
        return lambda margin: -margin if margin > SIGN_ONLY else 0.0

    def _right_up_to(self, letters: str, search: SupportSearch) -> None:
        """As far as the search went; if that is much to check, or too much, to the horizon."""
        horizon = self.searched.verified_length
        for length in dict.fromkeys((search.verified_length, horizon)):
            claim = self.keeper.up_to(letters, length, search.boxes)
            if length < len(letters) or (length > horizon and len(claim["boxes"]) > _FEW_BOXES):
                continue
            if self.keeper.keep_boxes(claim, partial(self.checker.is_right, search.letters)):
                return

    def _limit(self) -> None:
        """Plain softmax errs beyond reach if two labels share a limit that is not zero."""
        for small in self.searches:
            for large in self.searches:
                if len(small.letters) == 1 and set(small.letters) < set(large.letters):
                    letter = support_name(self.config, small.letters)
                    letters = support_name(self.config, large.letters)
                    if self.keeper.keep({"kind": "limit", "letter": letter, "letters": letters}):
                        return

    def _in_float32(self, form: Form) -> Float32Horizon:
        """What holds in float32 too, for strings given in this form, as the search has it."""
        length = self.searched.length
        reach = self.limit if length is None else max(length + 1, 1)
        horizon, searches = search_float32(self.supports.checkpoint, reach, form, _FLOAT32_BOXES)
        safe, proved = horizon.safe_through, True
        for search in searches:
            letters = support_name(self.config, search.letters)
            claim = up_to_claim("float32_right_up_to", letters, safe, search.boxes)
            if safe >= len(letters):
                shown = partial(self.checker.is_safe, form, safe, search.letters)
                self.keeper.keep_boxes({**claim, "form": form}, shown)
        if horizon.first is not None and horizon.certainty == "wrong":
            counts = self.config.alphabet.counts(horizon.first).tolist()
            error = counterexample(self.supports, tuple(range(len(counts))), counts)
            claim = {**wrong_claim(error), "kind": "float32_wrong", "form": form}
            proved = self.keeper.keep(claim)
        return replace(horizon, proved=proved)

    # -- the document --------------------------------------------------------------------------

    def _finish(self, float32: Float32Horizon | None) -> Certificate:
        """The document says what follows from its claims, as the checker derives them again."""
        claims, checked = self.keeper.finished()
        negative = tuple(
            self._support_proof(search, checked.negative_supports)
            for search in self.searches
            if search.label == 0 and not self.supports.multiclass
        )
        if float32 is not None:
            derived = checked.float32.get(float32.form)
            through = 0 if derived is None else derived.safe_through
            proved = float32.proved and derived is not None and through == float32.safe_through
            float32 = replace(float32, safe_through=through, proved=proved)
        document = self.checker.sealed(claims, checked)
        return Certificate(document, checked, as_checked(self.searched, checked), negative, float32)

    def _support_proof(
        self, search: SupportSearch, verdicts: Mapping[str, bool | None]
    ) -> SupportProof:
        letters = support_name(self.config, search.letters)
        counts, always, bound = search.counterexample, self.keeper.always.get(letters), None
        witness = None if counts is None else counterexample(self.supports, search.letters, counts)
        tried = f"branch and bound to length {self.limit}, then over all ratios"
        if always is not None:
            bound, tried = self._stated(0)(always.least_margin), f"{always.boxes} boxes of ratios"
        elif letters in self.keeper.tails:
            start = self.keeper.tails[letters]
            tried = f"every string below {start} letters, and a tail bound beyond"
        elif witness is not None:
            tried = f"branch and bound, {search.examined} boxes"
        return SupportProof(letters, verdicts[letters], witness, bound, tried)


def wrong_claim(error: Counterexample) -> Claim:
    """That a string is wrong; of more than two classes with the one that is answered."""
    answered = {"answer": error.answer} if error.multiclass else {}
    return {"kind": "wrong", "string": error.string, **answered}
