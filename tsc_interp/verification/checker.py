"""An independent checker of certificates: exact arithmetic, no code shared with the search.

It believes nothing but the checkpoint. Every box of a certificate is bounded again here, in `arb`
balls, by the corner argument: over a box of weights a weighted mean is largest and smallest at
corners. It checks that the boxes cover what the claim says, that every logit lies on the right side
of zero, that every counterexample is one, and that the conclusion follows from the claims. What it
cannot re-derive it rejects, with the reason.

A certificate (schema `tsc-interp/certificate/1`) holds claims of these kinds:

    wrong               the model misclassifies this string
    right_up_to         every string over exactly these letters, up to this length, is right
    right_at_all_lengths   the same for every length: boxes of ratios, one chart per largest letter
    right_beyond        the same from this length on, by the tail bound (scores scaled by log n)
    limit               adding ever more of one letter drives the logits of two sets of letters
                        with different labels to one non-zero limit, so one of them fails
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.errors import TscError
from tsc_interp.verification.checker_model import BoxModel, Pair

Box = tuple[Sequence[float], Sequence[float]]

SCHEMA = "tsc-interp/certificate/1"


class CertificateError(TscError):
    """A certificate that is not accepted, with the reason."""

    exit_code = 3


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of everything but the digest itself."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check(document: Any, checkpoint: Checkpoint) -> list[str]:
    """What the certificate proves, a sentence each; `CertificateError` if anything fails."""
    try:
        return _Check(document, checkpoint).run()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, TscError) as error:
        if isinstance(error, CertificateError):
            raise
        raise CertificateError(f"malformed certificate: {type(error).__name__}: {error}") from None


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise CertificateError(f"rejected: {problem}")


class _Check:
    def __init__(self, document: Any, checkpoint: Checkpoint) -> None:
        _require(isinstance(document, dict), "a certificate is a JSON object")
        fields = {"schema", "weight_hash", "claims", "conclusion", "digest"}
        _require(set(document) == fields, f"a certificate has exactly the fields {sorted(fields)}")
        _require(document["schema"] == SCHEMA, f"the schema must be {SCHEMA!r}")
        _require(document["digest"] == digest(document), "the digest does not fit the content")
        _require(
            document["weight_hash"] == checkpoint.weight_hash(),
            "the certificate is about other weights or another configuration",
        )
        self.document, self.config = document, checkpoint.config
        self.model = BoxModel(checkpoint)
        self.wrong: list[str] = []
        self.up_to: dict[str, int] = {}
        self.always: set[str] = set()
        self.beyond: dict[str, int] = {}
        self.finite = False

    def run(self) -> list[str]:
        kinds = {
            "wrong": (self._wrong, {"string"}),
            "right_up_to": (self._right_up_to, {"letters", "length", "boxes"}),
            "right_at_all_lengths": (self._right_always, {"letters", "bound", "charts"}),
            "right_beyond": (self._right_beyond, {"letters", "length"}),
            "limit": (self._limit, {"letter", "letters"}),
        }
        proved = []
        for claim in self.document["claims"]:
            _require(claim["kind"] in kinds, f"unknown kind of claim {claim['kind']!r}")
            check_claim, fields = kinds[claim["kind"]]
            _require(
                set(claim) == {"kind"} | fields, f"{claim['kind']} needs fields {sorted(fields)}"
            )
            proved.append(check_claim(claim))
        return [*proved, *self._conclusion(self.document["conclusion"])]

    # -- claims ------------------------------------------------------------------------------

    def _wrong(self, claim: Mapping[str, Any]) -> str:
        counts = self.config.alphabet.counts(claim["string"])
        _require(
            self.config.alphabet.write(counts) == claim["string"],
            f"{claim['string']!r} is not written as a sorted run-length string",
        )
        label = bool(self.config.task.labels(counts))
        face = tuple(i for i, count in enumerate(counts) if count)
        sign = self.model.sign(face, [int(count) for count in counts if count])
        _require(sign == (-1 if label else 1), f"{claim['string']} is not proved misclassified")
        self.wrong.append(claim["string"])
        return f"{claim['string']} is a false {'negative' if label else 'positive'}"

    def _right_up_to(self, claim: Mapping[str, Any]) -> str:
        letters, face, label = self._face(claim["letters"])
        length = _whole(claim["length"])
        boxes = [
            ([_whole(n) for n in low], [_whole(n) for n in high]) for low, high in claim["boxes"]
        ]
        for low, high in boxes:
            _require(len(low) == len(high) == len(face), "a box with the wrong number of letters")
            _require(all(1 <= a <= b for a, b in zip(low, high, strict=True)), "an empty box")
            _require(sum(low) <= length, f"the box from {low} holds no string of the claim")
            side = self.model.count_box(face, low, high)
            _require(_is_right(side, label), f"{letters}: {low}..{high} is not proved right")
        whole = ([1] * len(face), [max(length - len(face) + 2, 1)] * len(face))
        halfopen = [(low, [end + 1 for end in high]) for low, high in boxes]
        _require(_covered(whole, halfopen, length), f"{letters}: the boxes leave strings out")
        self.up_to[letters] = length
        return f"every string over exactly {letters} up to length {length} is right"

    def _right_always(self, claim: Mapping[str, Any]) -> str:
        letters, face, label = self._face(claim["letters"])
        _require(not self.model.log_n, "ratios alone do not decide a model scaled by log n")
        charts = {chart["largest"]: chart for chart in claim["charts"]}
        _require(sorted(charts) == sorted(letters), f"{letters}: one chart per letter is needed")
        _require(len(charts) == len(claim["charts"]), f"{letters}: a chart is given twice")
        bound, free = _number(claim["bound"]), len(face) - 1 + int(self.config.attend_cls)
        worst = None
        for column, letter in enumerate(letters):
            _require(set(charts[letter]) == {"largest", "boxes"}, "a chart has largest and boxes")
            boxes = [([*map(_number, a)], [*map(_number, b)]) for a, b in charts[letter]["boxes"]]
            for low, high in boxes:
                _require(len(low) == len(high) == free, "a box with the wrong number of weights")
                _require(all(0 <= a < b <= 1 for a, b in zip(low, high, strict=True)), "a bad box")
                side = self.model.ratio_box(face, column, low, high)
                end = side[0] if label else side[1]
                worst = end if worst is None else (min if label else max)(worst, end)
            whole = ([0.0] * free, [1.0] * free)
            _require(_covered(whole, boxes, None), f"{letters}: the boxes leave ratios out")
        beaten = worst is not None and (worst >= bound if label else worst <= bound)
        _require(beaten, f"{letters}: the logit is not proved to stay beyond {bound}")
        _require(bound > 0 if label else bound <= 0, f"{letters}: the bound is on the wrong side")
        self.always.add(letters)
        side_name = "at least" if label else "at most"
        return f"every string over exactly {letters} is right: logit {side_name} {bound:.6g}"

    def _right_beyond(self, claim: Mapping[str, Any]) -> str:
        letters, face, label = self._face(claim["letters"])
        start = _whole(claim["length"])
        _require(self.model.log_n and start >= 2, "the tail bound needs scores scaled by log n")
        _require(
            _is_right(self.model.tail(face, start), label), f"{letters}: the tail is not proved"
        )
        self.beyond[letters] = start
        return f"every string over exactly {letters} of {start} letters or more is right"

    def _limit(self, claim: Mapping[str, Any]) -> str:
        letters, _, label = self._face(claim["letters"])
        single, face, other = self._face(claim["letter"])
        _require(not self.model.log_n, "the limit argument needs scores that do not grow")
        _require(single in letters and len(single) == 1, "the letter must be one of the letters")
        _require(label != other, "the two sets of letters must have different labels")
        low, high = self.model.limit(face)
        _require(bool(low > 0) or bool(high < 0), f"the limit for {single} may be zero")
        self.finite = True
        return (
            f"the logits of {single}^n and of strings over {letters} with ever more {single} share "
            f"a non-zero limit, so one of them is wrong: the horizon is finite"
        )

    def _face(self, letters: Any) -> tuple[str, tuple[int, ...], bool]:
        alphabet = self.config.alphabet.letters
        valid = isinstance(letters, str) and letters and sorted(set(letters)) == list(letters)
        _require(
            bool(valid) and set(letters) <= set(alphabet), f"{letters!r} is not a set of letters"
        )
        label = self.config.task.label_of_support(frozenset(letters))
        _require(label is not None, f"strings over {letters} do not share a label")
        return letters, tuple(alphabet.index(letter) for letter in letters), bool(label)

    # -- conclusion --------------------------------------------------------------------------

    def _conclusion(self, given: Mapping[str, Any]) -> list[str]:
        fields = {"horizon", "infinite", "finite", "negative_faces"}
        _require(set(given) == fields, f"a conclusion has exactly the fields {sorted(fields)}")
        alphabet = self.config.alphabet.letters
        faces = ["".join(f) for k in range(1, len(alphabet) + 1) for f in combinations(alphabet, k)]
        said = []
        horizon = given["horizon"]
        if horizon is not None:
            _whole(horizon)
            short = [f for f in faces if f not in self.always and self.up_to.get(f, 0) < horizon]
            _require(not [f for f in short if len(f) <= horizon], f"nothing covers {short}")
            lengths = [int(self.config.alphabet.counts(string).sum()) for string in self.wrong]
            _require(horizon + 1 in lengths, f"no error of length {horizon + 1} is proved")
            said.append(f"the horizon is {horizon}")
        always = {f for f in faces if f in self.always or self._tail_joins(f)}
        infinite = always == set(faces)
        _require(given["infinite"] is infinite, "infinite does not follow from the claims")
        finite = self.finite or bool(self.wrong)
        _require(given["finite"] is finite, "finite does not follow from the claims")
        failing = {"".join(sorted(set(filter(str.isalpha, string)))) for string in self.wrong}
        expected = {
            f: False if f in failing else (True if f in always else None)
            for f in faces
            if self.config.task.label_of_support(frozenset(f)) is False
        }
        negative = given["negative_faces"]
        same = set(negative) == set(expected) and all(negative[f] is expected[f] for f in expected)
        _require(same, "negative_faces does not follow from the claims")
        holding = [letters for letters, holds in expected.items() if holds]
        if holding:
            said.append(f"no false positive of any length over {', '.join(holding)}")
        if infinite:
            said.append("the horizon is infinite: no string of any length is misclassified")
        return said

    def _tail_joins(self, letters: str) -> bool:
        """Whether the tail begins where the proof of the shorter strings ends, or before."""
        start = self.beyond.get(letters)
        return start is not None and self.up_to.get(letters, 0) >= start - 1


def _is_right(side: Pair, label: bool) -> bool:
    return bool(side[0] > 0) if label else bool(side[1] <= 0)


def _whole(value: Any) -> int:
    _require(type(value) is int and 0 <= value <= 10**12, f"{value!r} is not a whole number")
    return int(value)


def _number(value: Any) -> float:
    _require(type(value) in (int, float) and abs(value) < 1e300, f"{value!r} is not a number")
    return float(value)


def _covered(whole: Box, boxes: Sequence[Box], length: int | None) -> bool:
    """Whether half-open boxes cover `whole`, except where even the low corner is too long."""
    low, high = whole
    if length is not None and sum(low) > length:
        return True
    touching = [box for box in boxes if all(a < d and c < b for a, b, c, d in _ends(whole, box))]
    if any(all(c <= a and b <= d for a, b, c, d in _ends(whole, box)) for box in touching):
        return True

    def crossings(plane: tuple[int, float]) -> tuple[int, tuple[int, float]]:
        axis, edge = plane
        return sum(box[0][axis] < edge < box[1][axis] for box in touching), plane

    planes = {
        (axis, edge)
        for box in touching[:24]
        for axis in range(len(low))
        for edge in (box[0][axis], box[1][axis])
        if low[axis] < edge < high[axis]
    }
    if not planes:
        return False
    # Cut along the boundary that the fewest boxes cross.
    axis, edge = min(planes, key=crossings)
    below = (low, [*high[:axis], edge, *high[axis + 1 :]])
    above = ([*low[:axis], edge, *low[axis + 1 :]], high)
    return _covered(below, touching, length) and _covered(above, touching, length)


def _ends(a: Box, b: Box) -> Iterator[tuple[float, float, float, float]]:
    return zip(a[0], a[1], b[0], b[1], strict=True)
