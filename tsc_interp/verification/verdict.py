"""`tsc.verify`: everything a classifier gets wrong up to a length, as exact integers.

The claim is about the real numbers: the weights are the float32 values, exactly, and the arithmetic
is that of the reals. `wrong` means that the sign of the logit disagrees with the label; a logit of
exactly zero counts as negative. With more outputs, it means that the index of the largest (of equal
ones the lowest) is not the string's class. Claims about the float32 model are kept apart:
`float32_horizon`, and what it says of the counterexamples, under `replays`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError
from tsc_interp.output.display import PLAIN, Displayed, Grid, Line
from tsc_interp.output.numbers import Share, number
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.verification import certificates, horizons
from tsc_interp.verification.count_model import CountModel, Form, checkpoint_of
from tsc_interp.verification.counting.regions import count_regions, plan
from tsc_interp.verification.counting.tally import Side, Tally, json_integer, not_right
from tsc_interp.verification.float32 import float32_horizon
from tsc_interp.verification.horizon_result import Counterexample, Float32Horizon, Horizon
from tsc_interp.verification.replay import Replay, replay_all, replay_lines
from tsc_interp.verification.summaries import counterexample
from tsc_interp.verification.words import counting_lines

Progress = Callable[[int], None]

CLAIM = (
    "real numbers: float32 weights taken as exact; counts: each sign decided in float64 with an "
    "error bound, or in ball arithmetic where that is not enough; derived again by the independent "
    "checker: what is under 'certified', and a horizon that says proved"
)


@dataclass(frozen=True, repr=False)
class Verdict(Displayed):
    """The exact numbers of right, wrong and undecided strings up to a length.

    Attributes:
        source: The model's name.
        weight_hash: The hash of its configuration and weights.
        tally: The counts, length by length.
        false_positive: The shortest false positive; `search/search.py` says which of several.
        false_negative: The shortest false negative.
        undecided: The shortest string that could not be decided.
        horizon: The horizon, if it was requested.
        float32_horizon: The length up to which the float32 model is right, whatever the order of
            its sums, if the horizon or float32 was requested.
        certificate: The certificate, if it was requested.
        replays: The float32 model's answers to the counterexamples.
        wrong: The shortest error, if there are more than two classes; then `false_positive` and
            `false_negative` are None.

    Example:
        >>> import tsc_interp as tsc
        >>> tsc.verify("generalization-errors", 70)
        <Verdict: generalization-errors, of 3.75·10³³ strings up to length 70 4,003,334 are wrong
        (the first ab{66})>
    """

    source: str
    weight_hash: str
    tally: Tally
    false_positive: Counterexample | None
    false_negative: Counterexample | None
    undecided: str | None
    horizon: Horizon | None = None
    float32_horizon: Float32Horizon | None = None
    certificate: certificates.Certificate | None = None
    replays: tuple[Replay, ...] | None = None
    wrong: Counterexample | None = None

    @property
    def correct(self) -> bool:
        """Whether no string up to this length is wrong or undecided."""
        return not any(side.total_vectors for side in self.tally.sides)

    @property
    def accuracy(self) -> Share:
        """The exact fraction of strings that are right."""
        return Share(self._right_strings, self.tally.strings)

    @property
    def error_rate(self) -> Share:
        """The exact fraction of strings that are wrong: 8.04·10⁻³⁴, where `accuracy` is near 1."""
        wrong = sum(side.total_strings for side in self.tally.errors)
        return Share(wrong, self.tally.strings)

    @property
    def _right_strings(self) -> int:
        return self.tally.strings - sum(side.total_strings for side in self.tally.sides)

    @property
    def shortest(self) -> Counterexample | None:
        """The shortest wrong string, or None."""
        return min(filter(None, self._firsts), key=lambda error: error.order, default=None)

    @property
    def _firsts(self) -> list[Counterexample | None]:
        """The first string of each kind of error, as the tally lists them."""
        return [self.wrong] if self.tally.multiclass else [self.false_positive, self.false_negative]

    @property
    def _known(self) -> Horizon | None:
        return self.certificate.horizon if self.certificate else self.horizon

    @property
    def counterexamples(self) -> tuple[Counterexample, ...]:
        """All wrong strings that are named in the verdict, each once, the shortest first."""
        supports = () if self._known is None else self._known.by_letters
        errors = {*self._firsts, *(support.shortest for support in supports)}
        return tuple(sorted(filter(None, errors), key=lambda error: error.order))

    def _facts(self) -> list[str]:
        tally, first = self.tally, None if self.shortest is None else self.shortest.text
        wrong = sum(side.total_strings for side in tally.errors)
        summary = not_right(wrong, first, tally.undecided.total_strings, self.undecided)
        strings = f"of {number(tally.strings)} strings up to length {tally.max_length}"
        return [self.source, f"{strings} {summary}"]

    def _lines(self) -> list[tuple[str, str]]:
        return [("", sentence.strip()) for _, sentence in self.lines()]

    def _grids(self) -> list[Grid]:
        """Where the errors are, by length."""
        sides = self.tally.sides
        rows: list[list[int | str]] = [
            [length, *(number(side.strings[length]) for side in sides)]
            for length in range(1, self.tally.max_length + 1)
            if any(side.vectors[length] for side in sides)
        ]
        columns = ["length", *(name.replace("_", " ") for name in self.tally.names)]
        by_length = [Grid("strings that are not right, by length", columns, rows)] if rows else []
        return by_length + (self._known._grids() if self._known else [])

    def lines(self) -> Iterator[Line]:
        """Return sentences: the counts, then whatever else was requested."""
        yield from counting_lines(self.tally, self._firsts, self.undecided)
        if self._known is not None:
            yield from self._known.lines()
        if self.certificate is not None:
            yield from self.certificate.lines()
        yield PLAIN, "These are statements about real numbers, the float32 weights taken as exact."
        if self.float32_horizon is not None:
            yield PLAIN, self.float32_horizon.sentence()
        if self.replays:
            yield from replay_lines(self.replays)

    @property
    def schema(self) -> str:
        """The name of the JSON document's schema."""
        return "verify-classes/2" if self.tally.multiclass else "verify/4"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document without its schema field; integers beyond 2^53 are strings."""
        tally = self.tally
        return {
            "checkpoint": self.source,
            "weight_hash": self.weight_hash,
            "claim": CLAIM,
            "max_length": tally.max_length,
            "method": "regions",
            "vectors": json_integer(tally.vectors),
            "strings": json_integer(tally.strings),
            **self._sides(),
            "undecided_out_of_budget": tally.out_of_budget,
            "accuracy": {
                "numerator": json_integer(self._right_strings),
                "denominator": json_integer(tally.strings),
            },
            "first_error_length": tally.first_error_length,
            "errors_by_length": _by_length(tally),
            "horizon": self._known.to_dict() if self._known else None,
            "float32_horizon": self.float32_horizon.to_dict() if self.float32_horizon else None,
            "negative_supports": [
                support.to_dict() for support in self.certificate.negative_supports
            ]
            if self.certificate
            else None,
            "certified": list(self.certificate.proved) if self.certificate else None,
            "float32": None if self.replays is None else _float32(self.replays),
        }

    def _sides(self) -> dict[str, Any]:
        shown = [*(first.to_dict() if first else None for first in self._firsts), self.undecided]
        sides = zip(self.tally.names, self.tally.sides, shown, strict=True)
        return {name: _side(side, shortest) for name, side, shortest in sides}


def verify_counts(
    model: ModelLike,
    max_length: int = TEST_LENGTH,
    *,
    horizon: bool = False,
    certify: bool = False,
    float32: Form | None = None,
    replay: bool = False,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
) -> Verdict:
    """Count every misclassified string of at most `max_length` letters; see `tsc.verify`."""
    checkpoint = checkpoint_of(model)
    counted = CountModel(checkpoint)
    planned = plan(counted, max_length)
    if announce is not None and planned is not None:
        announce(planned)
    tally = count_regions(counted, max_length, progress)
    certificate = certificates.certify_counts(checkpoint, float32=float32) if certify else None
    known = certificate.horizon if certificate else None
    known = known or (horizons.horizon(checkpoint) if horizon else None)
    firsts = [_first(counted, side) for side in tally.errors]
    verdict = Verdict(
        source=checkpoint.source,
        weight_hash=checkpoint.weight_hash(),
        tally=tally,
        false_positive=None if tally.multiclass else firsts[0],
        false_negative=None if tally.multiclass else firsts[1],
        wrong=firsts[0] if tally.multiclass else None,
        undecided=_string(counted, tally.undecided),
        horizon=known,
        float32_horizon=_in_float32(checkpoint, known, certificate, max_length, float32),
        certificate=certificate,
    )
    if replay:
        verdict = replace(verdict, replays=replay_all(checkpoint, verdict.counterexamples))
    return verdict


def _in_float32(
    checkpoint: Checkpoint,
    known: Horizon | None,
    certificate: certificates.Certificate | None,
    max_length: int,
    form: Form | None,
) -> Float32Horizon | None:
    """As far as the real model is right; None where nobody asked, and the rounding is unbounded."""
    if certificate is not None and certificate.float32 is not None:
        return certificate.float32
    if known is None:
        return None if form is None else float32_horizon(checkpoint, limit=max_length, form=form)
    reach = known.limit if known.length is None else known.length + 1
    try:
        return float32_horizon(checkpoint, limit=max(reach, 1), form=form or "tokens")
    except UnsupportedError:
        if form is None:
            return None
        raise


def _first(model: CountModel, side: Side) -> Counterexample | None:
    if side.shortest is None:
        return None
    return counterexample(model, tuple(range(len(side.shortest))), side.shortest)


def _string(model: CountModel, side: Side) -> str | None:
    return None if side.shortest is None else model.config.alphabet.write(side.shortest)


def _side(side: Side, shortest: Any) -> dict[str, Any]:
    return {
        "vectors": json_integer(side.total_vectors),
        "strings": json_integer(side.total_strings),
        "shortest": shortest,
    }


def _by_length(tally: Tally) -> list[dict[str, Any]]:
    """Only the lengths at which something is not right."""
    rows = []
    for length in range(1, tally.max_length + 1):
        if any(side.vectors[length] for side in tally.sides):
            counts = {
                name: {
                    "vectors": json_integer(side.vectors[length]),
                    "strings": json_integer(side.strings[length]),
                }
                for name, side in zip(tally.names, tally.sides, strict=True)
            }
            rows.append({"length": length, **counts})
    return rows


def _float32(replays: tuple[Replay, ...]) -> dict[str, Any]:
    return {
        "claim": "the float32 model, asked about each counterexample",
        "replayed": [replay.to_dict() for replay in replays],
        "all_also_wrong": all(replay.also_wrong for replay in replays),
    }
