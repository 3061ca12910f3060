"""What a norm makes of float32 errors: component by component, and of the whole vector's length.

`forward_rounding.py` says why. Part of the checker; no ball is compared here but by the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from flint import arb

from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.kernel import UNKNOWN, Ball
from tsc_interp.verification.checker.rounding import OVERFLOW, TINY, Known, U, gamma, within

Row = list[Ball]
_MOST_PAIRS = 2000


@dataclass(frozen=True)
class Norm:
    """Scale and shift are None where there are none."""

    centred: bool
    scale: Row | None
    shift: Row | None


@dataclass(frozen=True)
class Divided:
    """A normalised vector, before its scale and shift.

    `carried` is what its components are off by because of earlier errors, and `length` what the
    vector is off by for that reason; `fresh` is what the norm's own rounding adds to each.
    """

    sizes: Row
    carried: Row
    length: Ball
    fresh: Row
    norm: Norm
    times: Ball
    """What everything is multiplied by: 1, or the largest scale (`scaled`)."""

    def scaled(self) -> list[Known]:
        """After scale and shift, which round once each."""
        found = []
        for known, fresh in zip(self._totals(), self._fresh(), strict=True):
            found.append(within(known.size + fresh, Known(known.size, known.error + fresh)))
        return found

    def through(
        self, matrix: Sequence[Row], bias: Row | None, times: Ball | None = None
    ) -> list[Known]:
        """What a linear map reads of it, in any order of summation."""
        return [
            self._heard(list(column), None if bias is None else bias[j], times)
            for j, column in enumerate(zip(*matrix, strict=True))
        ]

    def worst_difference(self, matrix: Sequence[Row], bias: Row | None, times: Ball) -> Ball:
        """What the difference of two outputs can be off by; with one output, that output."""
        columns = [list(column) for column in zip(*matrix, strict=True)]
        read = self.through(matrix, bias, times)
        if len(columns) == 1:
            return read[0].error
        if len(columns) * (len(columns) - 1) > 2 * _MOST_PAIRS:
            return 2 * kernel.largest([known.error for known in read])
        # Errors carried over are common to both outputs, which read them along the difference.
        own = [
            known.error - self.carried_by(column)
            for known, column in zip(read, columns, strict=True)
        ]
        gaps = []
        for a, b in combinations(range(len(columns)), 2):
            apart = [x - y for x, y in zip(columns[a], columns[b], strict=True)]
            gaps.append(self.carried_by(apart) + own[a] + own[b])
        finite = all(known.error.is_finite() for known in read)
        return kernel.largest(gaps) if finite else UNKNOWN

    def _heard(self, column: Row, bias: Ball | None, times: Ball | None) -> Known:
        terms = len(column) + 1 + (bias is not None)
        totals, fresh = self._totals(), self._fresh()
        sizes = [abs(w) for w in column]
        reach = sum(
            ((k.size + k.error + f) * w for k, f, w in zip(totals, fresh, sizes, strict=True)),
            arb(0),
        )
        reach = reach if bias is None else reach + abs(bias)
        size = sum((known.size * w for known, w in zip(totals, sizes, strict=True)), arb(0))
        error = self.carried_by(column) + kernel.dot(fresh, sizes) + gamma(terms) * reach
        error = error + terms * TINY * (1 if times is None else times)
        return within(reach, Known(size if bias is None else size + abs(bias), error))

    def carried_by(self, column: Row) -> Ball:
        """What a reader hears of earlier errors: by components, or by length, whichever is less."""
        scale = self.norm.scale or [arb(1)] * len(column)
        read = [abs(w * x) for w, x in zip(scale, column, strict=True)]
        whole = self.length * kernel.root(sum((w**2 for w in read), arb(0)))
        return kernel.smallest([whole, kernel.dot(self.carried, read)])

    def _totals(self) -> list[Known]:
        """Sizes after scale and shift, and what earlier errors amount to there."""
        scale = self.norm.scale or [arb(1)] * len(self.sizes)
        shift = self.norm.shift or [arb(0)] * len(self.sizes)
        parts = zip(self.sizes, self.carried, scale, shift, strict=True)
        return [Known(s * abs(w) + self.times * abs(b), e * abs(w)) for s, e, w, b in parts]

    def _fresh(self) -> Row:
        """What the norm's own rounding amounts to after scale and shift."""
        found = list(self.fresh)
        sizes = [s + e + f for s, e, f in zip(self.sizes, self.carried, found, strict=True)]
        tiny = self.times * TINY
        if self.norm.scale is not None:
            scale = [abs(w) for w in self.norm.scale]
            found = [f * w + U * s * w + tiny for f, s, w in zip(found, sizes, scale, strict=True)]
        if self.norm.shift is not None:
            totals = self._totals()
            found = [
                f + U * (k.size + k.error + f) + tiny for f, k in zip(found, totals, strict=True)
            ]
        return found


def plain(state: Sequence[Known]) -> Divided:
    """A vector that no norm divides."""
    sizes, errors = [known.size for known in state], [known.error for known in state]
    zeros, none = [arb(0)] * len(sizes), Norm(False, None, None)
    return Divided(sizes, errors, _length(errors), zeros, none, arb(1))


def divided(
    x: Sequence[Known],
    norm: Norm,
    least: Ball,
    eps: float,
    centred: Row | None = None,
    normal: Row | None = None,
    *,
    most: Ball | None = None,
) -> Divided:
    """A vector after the division.

    Args:
        x: What is normalised.
        norm: Its kind, scale and shift.
        least: At most what it is divided by.
        eps: Its epsilon.
        centred: The real vector with its mean out, where it is known.
        normal: The real vector after the division, where it is known.
        most: At least what it is divided by; then everything is meant times that divisor, and
            `least` is 1.
    """
    d, times = len(x), arb(1) if most is None else most
    mean = sum((known.size for known in x), arb(0)) / d * int(norm.centred)
    sizes = [known.size + mean for known in x] if centred is None else [abs(c) for c in centred]
    errors = [known.error for known in x]
    if norm.centred:
        drift = sum(errors, arb(0)) / d
        drift = drift + gamma(d + 1) * sum((s + e for s, e in x), arb(0)) / d
        pairs = zip(errors, sizes, strict=True)
        errors = [(e + drift) * (1 + U) + U * size + TINY for e, size in pairs]
    largest = kernel.largest([s + e for s, e in zip(sizes, errors, strict=True)])
    safe = kernel.is_less(d * largest**2, OVERFLOW)
    # Squares that underflow are lost beside epsilon.
    if not (safe and kernel.is_less(arb(2) ** -90, arb(eps))):
        unknown = [UNKNOWN] * d
        return Divided(unknown, unknown, UNKNOWN, unknown, norm, times)
    length = _length(errors)
    # The mean square, its root (which halves a relative error), the division.
    units = (1 + 2 * U) / (1 - gamma(d + 4) / 2 - 2 * U) - 1
    bare = [size / least for size in sizes]
    if most is None:
        bare = [kernel.smallest([size, arb(d).sqrt()]) for size in bare]
    bare = bare if normal is None else [abs(value) for value in normal]
    whole = 2 * length / least
    carried = [kernel.smallest([(e + length) / least, whole]) for e in errors]
    fresh = [(s + e) * units + times * TINY for s, e in zip(bare, carried, strict=True)]
    return Divided(bare, carried, whole, fresh, norm, times)


def _length(errors: Sequence[Ball]) -> Ball:
    return kernel.root(sum((error**2 for error in errors), arb(0)))
