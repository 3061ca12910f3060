"""The one rule that rounds: what float32 makes of numbers, in `arb` balls.

A model run in float32 computes a logit that depends on the order of its sums. For every order at
once, with or without fused multiply-adds, a sum of k products is off by at most k u / (1 - k u) of
the sum of their sizes, u = 2^-24, any other operation by u of its result, and what underflows by
less than 2^-120. Assumed of the library: `exp`, `erf`, `tanh` and `log` good to 8 u of their
result, products of float32 numbers (no TF32, no bfloat16), and no algorithm that multiplies
matrices with fewer products.

How a norm changes the errors of one token: let c be what is divided, E_i what its components are
off by, and s its scale. s is 1-Lipschitz in the root mean square of c, and no component is larger
than √d times the scale it is divided by. So a normalised component is off by at most
(E_i + |E|) / s, and by a few u of itself.

What may overflow is `UNKNOWN`, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flint import arb

from tsc_interp.trusted import balls
from tsc_interp.trusted.balls import UNKNOWN, Ball
from tsc_interp.trusted.forward import Row
from tsc_interp.trusted.spec import Spec

FORMS = ("tokens", "compressed")
"""How inputs are given: one key per letter, or one per kind of letter."""
PRECISION = 128

U = arb(2) ** -24
TINY = arb(2) ** -120
OVERFLOW = arb(2) ** 126
SLOPE = arb(6) / 5
"""No activation is steeper."""
ACTIVATION_UNITS = {"gelu": 8, "gelu_new": 24, "silu": 12, "relu": 0}
"""Times u |x|: what an activation may be off by, for an x without error."""


class Known(NamedTuple):
    """A number of which the real size is at most this, and the computed one off by at most that."""

    size: Ball
    error: Ball


def score(
    spec: Spec, query: Sequence[Known], key: Sequence[Known], size: Ball, length: int
) -> Known:
    """The score of a query and a key; the size of their real product is at most `size`."""
    pairs, terms = list(zip(query, key, strict=True)), len(query) + 1
    reach = sum(((q.size + q.error) * (k.size + k.error) for q, k in pairs), arb(0))
    moved = sum((q.error * (k.size + k.error) + q.size * k.error for q, k in pairs), arb(0))
    factor, units = balls.score_factor(spec.d_head, spec.attention_scale), 3
    if spec.log_n:
        counted = length + spec.cls_counted
        factor, units = factor * arb(counted if counted != 1 else 2).log(), 13
    size, error = size * factor, (moved + gamma(terms) * reach + terms * TINY) * factor
    error = error + units * U * (size + error) * (1 + units * U)
    return within(reach + size + error, Known(size, error))


def linear(
    x: Sequence[Known],
    matrix: Sequence[Sequence[Ball]],
    bias: Sequence[Ball] | None,
    times: Ball | int = 1,
) -> list[Known]:
    """x @ matrix (+ bias), in any order; `times` what everything was multiplied by."""
    terms, outputs = len(x) + 1 + (bias is not None), []
    for j in range(len(matrix[0])):
        column = [abs(row[j]) for row in matrix]
        reach = balls.dot([known.size + known.error for known in x], column)
        if bias is not None:
            reach = reach + abs(bias[j])
        carried = balls.dot([known.error for known in x], column)
        error = carried + gamma(terms) * reach + times * terms * TINY
        outputs.append(within(reach, Known(reach, error)))
    return outputs


def add(a: Sequence[Known], b: Sequence[Known]) -> list[Known]:
    """Component by component."""
    sums = []
    for one, other in zip(a, b, strict=True):
        size, error = one.size + other.size, one.error + other.error
        sums.append(within(size + error, Known(size, error + U * (size + error) + TINY)))
    return sums


def within(reach: Ball, known: Known) -> Known:
    """Nothing is known of what may overflow."""
    return known if balls.is_less(reach, OVERFLOW) else Known(UNKNOWN, UNKNOWN)


def gamma(terms: int) -> Ball:
    """What a sum of so many terms may be off by, relative to the sum of their sizes."""
    reach = terms * U
    return reach / (1 - reach) if balls.is_less(reach, arb(1) / 4) else UNKNOWN


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
    largest = balls.largest([s + e for s, e in zip(sizes, errors, strict=True)])
    safe = balls.is_less(d * largest**2, OVERFLOW)
    if not (safe and balls.is_less(arb(LEAST_EPS), arb(eps))):
        return [Known(UNKNOWN, UNKNOWN)] * d
    length = balls.root(sum((error**2 for error in errors), arb(0)))
    # The mean square, its root (which halves a relative error), the division; scale and shift.
    units = (1 + 2 * U) / (1 - gamma(d + 4) / 2 - 2 * U) - 1 + 2 * U
    components = []
    for size, error, scale, shift in zip(sizes, errors, *norm[1:], strict=True):
        bare, off = size / divisor, (error + length) / divisor
        reach = (bare + off) * abs(scale) + abs(shift)
        total = off * abs(scale) + (units * reach + TINY) * (1 + 4 * U) + (1 + abs(scale)) * TINY
        components.append(within(reach + total, Known(bare * abs(scale) + abs(shift), total)))
    return components
