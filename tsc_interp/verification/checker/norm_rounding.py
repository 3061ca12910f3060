"""Bounds how a norm changes the float32 errors of one token.

Let c be what is divided, E_i what its components are off by, and s its scale. s is 1-Lipschitz in
the root mean square of c, and no component is larger than √d times the scale it is divided by. So a
normalised component is off by at most (E_i + |E|) / s, and by a few u of itself.

Part of the checker (attention_rounding.py). No ball is compared here but by the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flint import arb

from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.heads import Row
from tsc_interp.verification.checker.kernel import UNKNOWN, Ball
from tsc_interp.verification.checker.rounding import OVERFLOW, TINY, Known, U, gamma, within

LEAST_EPS = 2.0**-90
"""Squares that underflow are lost beside a larger epsilon."""


class Norm(NamedTuple):
    """Its kind, scale and shift."""

    centred: bool
    scale: Row
    shift: Row


def normed(x: Sequence[Known], norm: Norm, centred: Row, divisor: Ball, eps: float) -> list[Known]:
    """The vector after the norm.

    Args:
        x: What is normalised.
        norm: Its kind, scale and shift.
        centred: The real vector, its mean taken out where that is done.
        divisor: What it is divided by.
        eps: Its epsilon.
    """
    d, sizes = len(x), [abs(value) for value in centred]
    errors = [known.error for known in x]
    if norm.centred:
        drift = (sum(errors, arb(0)) + gamma(d + 1) * sum((s + e for s, e in x), arb(0))) / d
        pairs = zip(errors, sizes, strict=True)
        errors = [(e + drift) * (1 + U) + U * size + TINY for e, size in pairs]
    largest = kernel.largest([s + e for s, e in zip(sizes, errors, strict=True)])
    safe = kernel.is_less(d * largest**2, OVERFLOW)
    if not (safe and kernel.is_less(arb(LEAST_EPS), arb(eps))):
        return [Known(UNKNOWN, UNKNOWN)] * d
    length = kernel.root(sum((error**2 for error in errors), arb(0)))
    # The mean square, its root (which halves a relative error), the division; scale and shift.
    units = (1 + 2 * U) / (1 - gamma(d + 4) / 2 - 2 * U) - 1 + 2 * U
    components = []
    for size, error, scale, shift in zip(sizes, errors, *norm[1:], strict=True):
        bare, off = size / divisor, (error + length) / divisor
        reach = (bare + off) * abs(scale) + abs(shift)
        total = off * abs(scale) + (units * reach + TINY) * (1 + 4 * U) + (1 + abs(scale)) * TINY
        components.append(within(reach + total, Known(bare * abs(scale) + abs(shift), total)))
    return components
