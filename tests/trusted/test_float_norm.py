"""The float32 bound of a norm: every term by hand, and float32 itself in many orders of sums.

`test_float_layer.py` attacks the bound of whole models, where a term that is small beside the
others could shrink unseen. Here each term stands alone in some case.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from mpmath import mpf

from tsc_interp.trusted.float32 import LEAST_EPS, Known, Norm, normed

U, TINY = mpf(2) ** -24, mpf(2) ** -120
SIZES = [0.5, 2.0, 7.0, 0.25]
ERRORS = [2.0**-20, 2.0**-22, 0.0, 2.0**-19]
NOTHING = [0.0] * 4


def gamma(terms: int) -> mpf:
    return terms * U / (1 - terms * U)


def by_hand(
    centred: bool, sizes: list[float], errors: list[float], vector: list[float],
    divisor: float, scale: list[float], shift: list[float],
) -> list[tuple[mpf, mpf]]:  # fmt: skip
    """Size and error of each component, from what each float32 operation may lose."""
    d = len(sizes)
    errors_in = [mpf(e) for e in errors]
    if centred:
        # The mean: its inputs' errors, and d additions and a division of what they may be.
        mean_off = sum(errors_in) / d
        mean_off += (
            gamma(d + 1) * sum(mpf(s) + e for s, e in zip(sizes, errors_in, strict=True)) / d
        )
        errors_in = [  # the subtraction rounds its result, which is off already
            e + mean_off + U * (e + mean_off) + U * abs(mpf(c)) + TINY
            for e, c in zip(errors_in, vector, strict=True)
        ]
    together = mpmath.sqrt(sum(e * e for e in errors_in))
    # d squares and sums, the division by d, epsilon; the root; the division; scale and shift.
    relative = (1 + 2 * U) / (1 - gamma(d + 4) / 2 - 2 * U) - 1 + 2 * U
    found = []
    for c, e, w, b in zip(vector, errors_in, scale, shift, strict=True):
        moved = (e + together) / divisor
        whole = (abs(mpf(c)) / divisor + moved) * abs(w) + abs(b)
        rounded = relative * whole * (1 + 4 * U) + TINY * (1 + 4 * U) + TINY + abs(w) * TINY
        found.append((abs(mpf(c)) / divisor * abs(w) + abs(b), moved * abs(w) + rounded))
    return found


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    ("sizes", "errors", "divisor", "scale", "shift"),
    [
        (SIZES, ERRORS, 3.0, [1.0, -2.0, 0.5, 8.0], [0.0, 1.0, -3.0, 0.5]),
        (SIZES, NOTHING, 0.125, [1.0] * 4, NOTHING),
        (SIZES, [1.0, 0.0, 4.0, 2.0], 10.0, [1.0, 1.0, -3.0, 1.0], NOTHING),
        (NOTHING, NOTHING, 2.0**-40, [1.0, -(2.0**40), 3.0, 0.0], NOTHING),
        (NOTHING, NOTHING, 1.0, NOTHING, [5.0, -1.0, 0.0, 2.0]),
        (NOTHING, [2.0**-100, 0.0, 0.0, 2.0**-90], 1.0, [1.0] * 4, NOTHING),
    ],
)
def test_every_term(centred, sizes, errors, divisor, scale, shift) -> None:
    mean = sum(sizes) / 4 if centred else 0.0
    vector = [(-1) ** i * size - mean for i, size in enumerate(sizes)]
    norm = Norm(centred, [arb(w) for w in scale], [arb(b) for b in shift])
    known = [Known(arb(s), arb(e)) for s, e in zip(sizes, errors, strict=True)]
    with ctx.workprec(160), mpmath.workdps(45):
        found = normed(known, norm, [arb(c) for c in vector], arb(divisor), 1e-5)
        expected = by_hand(centred, sizes, errors, vector, divisor, scale, shift)
        for one, (size, error) in zip(found, expected, strict=True):
            for ball, number in ((one.size, size), (one.error, error)):
                read = mpf(ball.str(45, radius=False))
                assert abs(read - number) <= mpf(10) ** -30 * number, (read, number)


@pytest.mark.parametrize(
    ("size", "eps", "known"),
    [(1.0, 1e-5, True), (1.0, LEAST_EPS, False), (1.0, LEAST_EPS * 1.01, True),
     (2.0**62.6, 1e-5, False), (2.0**62.4, 1e-5, True)],
)  # fmt: skip
def test_squares_that_may_overflow_or_underflow_are_unknown(size, eps, known) -> None:
    """Two components: their squares add up to at most 2^126, and epsilon is above 2^-90."""
    norm = Norm(False, [arb(1)] * 2, [arb(0)] * 2)
    found = normed([Known(arb(size), arb(0))] * 2, norm, [arb(size)] * 2, arb(size), eps)
    assert all(one.error.is_finite() == known for one in found)
    nearly = normed([Known(arb(0), arb(size))] * 2, norm, [arb(0)] * 2, arb(size), eps)
    assert all(one.error.is_finite() == known for one in nearly), "errors count as well"


def test_the_edge_of_overflow_is_outside() -> None:
    alone = Norm(False, [arb(1)], [arb(0)])
    for size, error, known in (
        (2.0**63, 0.0, False),
        (2.0**62, 2.0**62, False),
        (2.0**62, 1.0, True),
    ):
        (found,) = normed([Known(arb(size), arb(error))], alone, [arb(size)], arb(size), 1e-5)
        assert found.error.is_finite() == known


@pytest.mark.parametrize("result", [2.0**125, 2.0**127])
def test_a_result_that_may_overflow_is_unknown(result: float) -> None:
    """By its scale, by its shift, and by its error."""
    for scale, shift, error in ((result, 0.0, 0.0), (1.0, result, 0.0), (result, 0.0, 1.0)):
        norm = Norm(False, [arb(scale)], [arb(shift)])
        value = 1.0 if error == 0 else 0.0
        (found,) = normed([Known(arb(value), arb(error))], norm, [arb(value)], arb(1), 1e-5)
        assert found.error.is_finite() == (result < 2.0**126 and error == 0), (scale, shift, error)


@pytest.mark.parametrize("seed", range(60))
def test_float32_stays_inside(seed: int) -> None:
    """Sums in random orders, errors at their ends, vectors that nearly cancel or nearly vanish."""
    rng = np.random.default_rng(seed)
    d, centred = int(rng.choice([1, 2, 3, 8, 33])), bool(rng.random() < 0.5)
    exact = rng.normal(size=d) * 10 ** rng.uniform(-3, 2) + rng.choice([0, 0, 1000])
    off = np.abs(rng.normal(size=d)) * 10 ** rng.uniform(-8, -2) * np.abs(exact)
    given = (exact + off * rng.choice([-1, 1], d)).astype(np.float32)
    off = np.maximum(off, np.abs(given.astype(float) - exact))
    scale, shift = rng.normal(size=(2, d)).astype(np.float32)
    eps = float(rng.choice([1e-5, 1e-8, 1e-12]))
    vector = exact - exact.mean() if centred else exact
    divisor = np.sqrt((vector**2).mean() + eps)
    norm = Norm(centred, [arb(float(w)) for w in scale], [arb(float(b)) for b in shift])
    known = [Known(arb(float(abs(c))), arb(float(e))) for c, e in zip(exact, off, strict=True)]
    found = normed(known, norm, [arb(float(c)) for c in vector], arb(float(divisor)), eps)
    real = vector / divisor * scale + shift
    for _ in range(4):
        said = _float32(given, centred, scale, shift, np.float32(eps), rng)
        for got, wanted, one in zip(said, real, found, strict=True):
            room = float(one.error.upper()) + 1e-12 * (1 + abs(wanted))  # float64's own
            assert abs(float(got) - wanted) <= room
            assert abs(wanted) <= float(one.size.upper()) + 1e-12 * (1 + abs(wanted))


def _float32(x, centred, scale, shift, eps, rng):
    """The norm in float32, each sum in an order of its own."""

    def total(numbers):
        sums = list(rng.permutation(numbers))
        while len(sums) > 1:
            a = sums.pop(int(rng.integers(len(sums))))
            b = sums.pop(int(rng.integers(len(sums))))
            sums.append(np.float32(a + b))
        return sums[0]

    size = np.float32(len(x))
    if centred:
        x = x - np.float32(total(x) / size)
    root = np.sqrt(np.float32(np.float32(total(x * x) / size) + eps))
    divided = x / root if rng.random() < 0.5 else x * np.float32(np.float32(1) / root)
    return divided * scale + shift
