"""`tsc.verify`: everything a classifier gets wrong up to a length, as exact integers.

The claim is about the real numbers: the weights are the float32 values, exactly, and the arithmetic
is that of the reals. `wrong` means that the sign of the logit disagrees with the label; a logit of
exactly zero counts as negative. With several outputs, it means that the index of the largest (of
equal ones the lowest) is not the string's class. Claims about the float32 model are kept apart:
`float32_horizon`, and what it says of the counterexamples, under `replays`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from flint import fmpz

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.checkpoints.resolve import HoldsWeights, ModelLike
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.output.display import Displayed
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.verification import certificates, horizons
from tsc_interp.verification.classes import AnyFaces, faces_of
from tsc_interp.verification.costs import MANY_VECTORS, Plan, accept, plan
from tsc_interp.verification.enumeration import enumerate_counts
from tsc_interp.verification.exact import checkpoint_of
from tsc_interp.verification.float32 import Float32Horizon, float32_horizon
from tsc_interp.verification.regions import count_regions, forecast
from tsc_interp.verification.replay import Replay, replay_all
from tsc_interp.verification.rounding import Form
from tsc_interp.verification.tally import Side, Tally

Method = Literal["auto", "enumeration", "regions", "both"]
Progress = Callable[[int], None]

_EXACT_IN_JSON = 2**53
CLAIM = (
    "real numbers: float32 weights taken as exact; counts: each sign decided in float64 with an "
    "error bound, or in ball arithmetic where that is not enough; derived again by the independent "
    "checker: what is under 'certified', and a horizon that says proved"
)


@dataclass(frozen=True, repr=False)
class Verdict(Displayed):
    """What is wrong up to `tally.max_length`, and whatever else was asked."""

    source: str
    weight_hash: str
    tally: Tally
    false_positive: horizons.Counterexample | None
    """The shortest; see verification/search.py for the order that breaks ties."""
    false_negative: horizons.Counterexample | None
    undecided: str | None
    horizon: horizons.Horizon | None = None
    float32_horizon: Float32Horizon | None = None
    """Up to which length the float32 model is right, whatever the order of its sums."""
    certificate: certificates.Certificate | None = None
    replays: tuple[Replay, ...] | None = None
    wrong: horizons.Counterexample | None = None
    """Of several classes the shortest error; then the two above are None."""

    @property
    def correct(self) -> bool:
        """No string up to this length is wrong, and none is undecided."""
        return not any(side.total_vectors for side in self.tally.sides)

    @property
    def accuracy(self) -> Fraction:
        return Fraction(self._right_strings, self.tally.strings)

    @property
    def _right_strings(self) -> int:
        return self.tally.strings - sum(side.total_strings for side in self.tally.sides)

    @property
    def shortest(self) -> horizons.Counterexample | None:
        return min(self._firsts, key=lambda one: one.order, default=None)

    @property
    def _firsts(self) -> list[horizons.Counterexample]:
        firsts = (self.false_positive, self.false_negative, self.wrong)
        return [one for one in firsts if one is not None]

    @property
    def counterexamples(self) -> tuple[horizons.Counterexample, ...]:
        """All that were exhibited, each once, shortest first."""
        known = self.certificate.horizon if self.certificate else self.horizon
        faces = () if known is None else tuple(face.shortest for face in known.by_letters)
        found = {*self._firsts, *(one for one in faces if one is not None)}
        return tuple(sorted(found, key=lambda one: one.order))

    def _facts(self) -> list[str]:
        first = f", the shortest {self.shortest.string}" if self.shortest else ""
        found = "nothing wrong" if self.correct else f"wrong or undecided strings{first}"
        return [self.source, f"{found} up to length {self.tally.max_length}"]

    def _lines(self) -> list[tuple[str, str]]:
        from tsc_interp.verification.words import summary

        return [("", sentence.strip()) for _, sentence in summary(self)]

    def to_dict(self) -> dict[str, Any]:
        """The JSON document, without its schema field; integers beyond 2^53 are strings."""
        tally = self.tally
        known = self.certificate.horizon if self.certificate else self.horizon
        return {
            "checkpoint": self.source,
            "weight_hash": self.weight_hash,
            "claim": CLAIM,
            "max_length": tally.max_length,
            "method": tally.method,
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
            "horizon": known.to_dict() if known else None,
            "float32_horizon": self.float32_horizon.to_dict() if self.float32_horizon else None,
            "negative_faces": [face.to_dict() for face in self.certificate.negative_faces]
            if self.certificate
            else None,
            "certified": list(self.certificate.proved) if self.certificate else None,
            "float32": None if self.replays is None else _float32(self.replays),
        }

    def _sides(self) -> dict[str, Any]:
        firsts = [self.wrong] if self.tally.several else [self.false_positive, self.false_negative]
        shown = [*map(_written, firsts), self.undecided]
        sides = zip(self.tally.names, self.tally.sides, shown, strict=True)
        return {name: _side(side, shortest) for name, side, shortest in sides}


def verify(
    model: ModelLike,
    max_length: int = TEST_LENGTH,
    *,
    method: Method = "auto",
    horizon: bool = False,
    certify: bool = False,
    float32: Form | None = None,
    replay: bool | None = None,
    reading: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
) -> Verdict:
    """Count every misclassified string of at most `max_length` letters, exactly.

    `model` is a hooked model, a checkpoint, a bundled name, a path, or a run; or, with `reading`, a
    model of TransformerLens (see `from_transformer_lens`). `horizon` and `certify` add those
    answers, `float32` (a form of strings) what the certificate says of the float32 model.
    `replay` puts the counterexamples to the float32 model; by default when a hooked model is given.
    `progress` is told how many count vectors more have been decided, and `announce` what a long
    count will take, before it starts.
    """
    checkpoint = checkpoint_of(model, reading)
    faces = faces_of(checkpoint)
    planned = _planned(faces, max_length, method)
    if announce is not None and planned.is_long:
        announce(planned.sentence())
    tally = _count(faces, max_length, planned.method, progress)
    if float32 is not None and not certify:
        raise UsageError("float32 says what a certificate claims besides, so it needs certify")
    certificate = certificates.certify(checkpoint, float32=float32) if certify else None
    known = certificate.horizon if certificate else None
    known = known or (horizons.horizon(checkpoint) if horizon else None)
    firsts = [_first(faces, side) for side in tally.errors]
    verdict = Verdict(
        source=checkpoint.source,
        weight_hash=checkpoint.weight_hash(),
        tally=tally,
        false_positive=None if tally.several else firsts[0],
        false_negative=None if tally.several else firsts[1],
        wrong=firsts[0] if tally.several else None,
        undecided=_string(faces, tally.undecided),
        horizon=known,
        float32_horizon=_in_float32(checkpoint, known, certificate),
        certificate=certificate,
    )
    if replay or (replay is None and isinstance(model, HoldsWeights)):
        verdict = replace(verdict, replays=replay_all(checkpoint, verdict.counterexamples))
    return verdict


def _in_float32(
    checkpoint: Checkpoint,
    known: horizons.Horizon | None,
    certificate: certificates.Certificate | None,
) -> Float32Horizon | None:
    """As far as the real model is right; None for models whose rounding is not bounded."""
    if known is None or (certificate is not None and certificate.float32 is not None):
        return None if certificate is None else certificate.float32
    reach = known.limit if known.length is None else known.length + 1
    with suppress(UnsupportedError):
        return float32_horizon(checkpoint, limit=max(reach, 1))
    return None


def _planned(faces: AnyFaces, max_length: int, method: Method) -> Plan:
    if type(max_length) is not int or max_length < 1:
        raise UsageError(f"max_length is a whole number from 1, got {max_length!r}")
    if method not in get_args(Method):
        raise UsageError(f"the method is one of {', '.join(get_args(Method))}; got {method!r}")
    planned = plan(faces.config, max_length, method)
    if planned.method == "regions" and planned.vectors > MANY_VECTORS:
        return accept(planned, forecast(faces, max_length), max_length)
    return planned


def _count(faces: AnyFaces, max_length: int, method: str, progress: Progress | None) -> Tally:
    if method == "enumeration":
        return enumerate_counts(faces, max_length, progress)
    tally = count_regions(faces, max_length, progress)
    if method == "both":
        again = enumerate_counts(faces_of(faces.checkpoint), max_length)
        if tally.out_of_budget or again.out_of_budget:
            raise UnsupportedError(
                "the two methods cannot be compared: so many logits are too close to zero that "
                "neither could decide them all; use one method, which reports the undecided ones"
            )
        if not tally.same_counts(again):
            raise TscError(
                "enumeration and regions disagree; this is a bug in tsc-interp, please report it"
            )
    return tally


def _first(faces: AnyFaces, side: Side) -> horizons.Counterexample | None:
    if side.shortest is None:
        return None
    return horizons.counterexample(faces, tuple(range(len(side.shortest))), side.shortest)


def _string(faces: AnyFaces, side: Side) -> str | None:
    return None if side.shortest is None else faces.config.alphabet.write(side.shortest)


def json_integer(value: int) -> int | str:
    """JSON numbers are exact up to 2^53 for most readers; larger integers become strings."""
    # fmpz writes any number of digits; int refuses beyond 4300.
    return value if abs(value) <= _EXACT_IN_JSON else str(fmpz(value))


def _written(found: horizons.Counterexample | None) -> dict[str, Any] | None:
    return found.to_dict() if found else None


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
        "replayed": [one.to_dict() for one in replays],
        "all_also_wrong": all(one.also_wrong for one in replays),
    }
