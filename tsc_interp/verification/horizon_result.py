"""What `horizon` returns: counterexamples, the horizon of each set of letters, and of all.

Claims are about the model over the real numbers, with its float32 weights taken as exact; `replay`
asks the float32 model about each counterexample, which is a separate claim.
The order that makes "the shortest" unique is stated in search/search.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tsc_interp.output.display import GOOD, PLAIN, Displayed, Grid, Line
from tsc_interp.verification.count_model import Form

Certainty = Literal["right", "wrong", "depends on rounding"]
_SEARCHED = "by a search in float64 with error bounds that the checker did not derive again"


@dataclass(frozen=True, repr=False)
class Float32Horizon(Displayed):
    """The length up to which every string is right in float32, whatever the order of sums."""

    safe_through: int
    limit: int
    form: Form
    complete: bool
    first: str | None = None
    """The shortest string that is not right for certain, in the order of search.py."""
    certainty: Certainty | None = None
    """What is known of it: wrong whatever the order, or it depends on rounding."""
    logit: float | None = None
    bound: float | None = None
    """The real logit of that string (of more than two classes its margin), and how far float32 can
    be from it."""
    proved: bool = False
    """Whether the independent checker derived all this; False where it was not asked."""

    def _facts(self) -> list[str]:
        first = [] if self.first is None else [f"{self.first}: {self.certainty}"]
        return [f"safe through {self.safe_through}", *first]

    def _lines(self) -> list[tuple[str, str]]:
        return [("", self.sentence())]

    def sentence(self) -> str:
        """Return the claim as a sentence."""
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
        """Return the result as JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Counterexample:
    """A string that the model gets wrong, with its real-number logit rounded to float64.

    Of more than two classes, `label` is the right one and `logit` its margin: its output minus the
    largest other one.
    """

    string: str
    length: int
    counts: tuple[int, ...]
    label: int
    logit: float
    multiclass: bool = False
    """Whether there are more than two classes."""
    answer: int | None = None
    """Of more than two classes the one the model gives; None if that could not be decided."""
    text: str = ""
    """The string as people read it: in the model's own token names, where it has some."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text or self.string)

    @property
    def kind(self) -> str:
        """ "false positive", "false negative", or the classes of a multiclass error."""
        if self.multiclass:
            return "wrong"
        return "false_negative" if self.label else "false_positive"

    @property
    def mistake(self) -> str:
        """The error in words."""
        if self.multiclass:
            answer = "another" if self.answer is None else str(self.answer)
            return f"class {self.label}, answered {answer}, margin {self.logit:+.4g}"
        return f"logit {self.logit:+.4g}"

    @property
    def order(self) -> tuple[int, tuple[int, ...]]:
        """Sorts by length, then alphabetically by the sorted string."""
        return self.length, tuple(-count for count in self.counts)

    def to_dict(self) -> dict[str, Any]:
        """Return the counterexample as JSON types."""
        fields = {**asdict(self), "counts": list(self.counts), "kind": self.kind}
        if self.text == self.string:
            del fields["text"]
        if self.multiclass:
            fields["margin"] = fields.pop("logit")
        else:
            del fields["answer"]
        del fields["multiclass"]
        return fields


class _OldNames:
    """Deprecated names of `verified_length` and `complete`, read-only."""

    verified_length: int
    complete: bool

    @property
    def right_through(self) -> int:
        """Deprecated: `verified_length`."""
        return self.verified_length

    @property
    def settled(self) -> bool:
        """Deprecated: `complete`."""
        return self.complete


@dataclass(frozen=True)
class SupportHorizon(_OldNames):
    """The same for the strings over exactly one set of letters."""

    letters: str
    label: int | None
    shortest: Counterexample | None
    verified_length: int
    complete: bool
    proved: bool
    boxes: int

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "shortest": self.shortest.to_dict() if self.shortest else None}


@dataclass(frozen=True, repr=False)
class Horizon(_OldNames, Displayed):
    """The length up to which a model makes no error, and the first errors beyond it.

    Attributes:
        length: The horizon: no string up to this length is wrong, but a string one letter longer
            is. None if no error was found; then see `infinite` and `verified_length`.
        infinite: Whether every string of every length is proved right.
        complete: Whether the float64 search was exhaustive up to the limit.
        proved: Whether the checker confirmed the horizon in exact arithmetic; False if it was not
            run.
        verified_length: Every string up to this length is right.
        limit: The length up to which strings were searched.
        by_letters: The result for each set of letters.
        checked: Whether this result is limited to what the checker confirmed.
        multiclass: Whether there are more than two classes, so that errors are neither false
            positives nor false negatives.
        float32: The horizon of the float32 model, if it was requested.
        original_reads: The most letters that the original of an imported model accepts, if known.

    Example:
        >>> import tsc_interp as tsc
        >>> tsc.horizon("generalization-errors", limit=100)
        <Horizon: length 66, first error ab{66}>
    """

    length: int | None
    infinite: bool
    complete: bool
    proved: bool
    verified_length: int
    limit: int
    by_letters: tuple[SupportHorizon, ...]
    checked: bool = False
    multiclass: bool = False
    float32: Float32Horizon | None = None
    original_reads: int | None = None

    @property
    def original_accepts(self) -> bool | None:
        """Whether the original of an imported model accepts the first error; None if unknown."""
        if self.original_reads is None or self.shortest is None:
            return None
        return self.shortest.length <= self.original_reads

    @property
    def shortest(self) -> Counterexample | None:
        """The shortest wrong string, or None."""
        return first_of(self.by_letters)

    @property
    def shortest_false_positive(self) -> Counterexample | None:
        """The shortest wrong yes, or None."""
        return None if self.multiclass else first_of(self.by_letters, 0)

    @property
    def shortest_false_negative(self) -> Counterexample | None:
        """The shortest wrong no, or None."""
        return None if self.multiclass else first_of(self.by_letters, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON types."""

        def written(error: Counterexample | None) -> dict[str, Any] | None:
            return error.to_dict() if error else None

        fields = {
            "length": self.length,
            "infinite": self.infinite,
            "complete": self.complete,
            "proved": self.proved,
            "verified_length": self.verified_length,
            "limit": self.limit,
            "shortest_counterexample": written(self.shortest),
        }
        if not self.multiclass:
            fields["shortest_false_positive"] = written(self.shortest_false_positive)
            fields["shortest_false_negative"] = written(self.shortest_false_negative)
        if self.original_reads is not None:
            fields["original_reads"] = self.original_reads
            fields["original_accepts"] = self.original_accepts
        return {**fields, "by_letters": [support.to_dict() for support in self.by_letters]}

    # -- in words ------------------------------------------------------------------------------

    def _facts(self) -> list[str]:
        length = "infinite" if self.infinite else self.length
        first = [f"first error {self.shortest.text}"] if self.shortest else []
        known = [] if self.length is not None else [f"verified length {self.verified_length}"]
        return [f"length {length}", *known, *first]

    def _grids(self) -> list[Grid]:
        """How far each set of letters is right."""
        rows = [
            (
                support.letters,
                support.shortest.length - 1 if support.shortest else support.verified_length,
                support.shortest.text if support.shortest else None,
            )
            for support in self.by_letters
        ]
        columns = ("letters", "right up to length", "first error")
        return [Grid("By the letters that occur", columns, rows)] if rows else []

    def _lines(self) -> list[tuple[str, str]]:
        return [("", sentence.strip()) for _, sentence in self.lines()]

    def lines(self) -> Iterator[Line]:
        """Return sentences; only claims that the checker confirmed are called proved."""
        if self.infinite:
            yield GOOD, "Horizon: infinite. Proved: no string of any length is wrong."
        elif self.length is None:
            yield PLAIN, f"Horizon: {self._at_least()}; no error found up to {self.limit:,}."
        else:
            yield PLAIN, f"{self._first_error(self.length)}."
        if self.original_accepts is not None:
            does = "accepts it" if self.original_accepts else "does not accept a string as long"
            yield PLAIN, f"  The original reads up to {self.original_reads:,} letters: it {does}."
        elif self.original_reads is not None:
            yield PLAIN, f"  The original reads up to {self.original_reads:,} letters."
        for support in self.by_letters:
            if support.shortest is not None:
                kind = "error" if self.multiclass else support.shortest.kind.replace("_", " ")
                first = support.shortest.text
                yield PLAIN, f"  over exactly {support.letters}: first {kind} {first}"

    def _first_error(self, length: int) -> str:
        first = self.shortest.text if self.shortest else "?"
        if self.proved and not length:
            return f"Horizon: 0. Proved: {first}, a single letter, is already wrong"
        if self.proved:
            return (
                f"Horizon: {length:,}. Proved: every string up to there is right; the first error "
                f"is {first}"
            )
        if self.complete and not self.checked:
            return f"Horizon: {length:,}, {_SEARCHED}; the first error is {first}"
        return f"Horizon: at most {length:,}, since {first} is wrong; {self._at_least()}"

    def _at_least(self) -> str:
        if not self.verified_length:
            return "at least 0, nothing being proved right"
        return f"at least {self.verified_length:,}, {'proved' if self.checked else _SEARCHED}"


def first_of(supports: Sequence[SupportHorizon], label: int | None = None) -> Counterexample | None:
    """The first error of all sets of letters, or of the strings of one class."""
    errors = [support.shortest for support in supports if support.shortest is not None]
    wanted = [error for error in errors if label is None or error.label == label]
    return min(wanted, key=lambda error: error.order, default=None)
