"""Every interval operation against `arb`, at ordinary and at awkward numbers.

The oracle is exact: sums and products of float64 numbers fit into the bits used here, and
exp and erfc are balls of thousands of bits. An enclosure is never compared with float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from tsc_interp.verification.bounds.activations import ACTIVATIONS
from tsc_interp.verification.bounds.exact import gelu
from tsc_interp.verification.bounds.intervals import (
    Array,
    Interval,
    add,
    exp_bounds,
    in_slices,
    largest_sorted_mean,
    mean_bounds,
    multiply,
    outward,
    square,
    sure,
    times_matrix,
)

gelu_bounds = ACTIVATIONS["gelu"].bounds

BITS = 6000
"""2^-1074 to 2^1024, twice, with room."""


@pytest.fixture(autouse=True)
def _exactly() -> Iterator[None]:
    with ctx.workprec(BITS), np.errstate(all="ignore"):
        yield


def awkward(rng: np.random.Generator, *shape: int) -> Array:
    """Zeros, denormals, huge and tiny numbers, ordinary ones, and neighbours of all of them."""
    kind = rng.integers(0, 6, shape)
    exponent = np.choose(
        kind,
        [
            rng.integers(-3, 4, shape),
            rng.integers(-3, 4, shape),
            rng.integers(-1074, -1000, shape),
            rng.integers(400, 1024, shape),
            rng.integers(-600, 600, shape),
            np.full(shape, -1074),
        ],
    )
    fraction = np.where(rng.random(shape) < 0.5, 1.0, rng.uniform(1, 2, shape))
    x = np.ldexp(fraction * rng.choice([-1.0, 1.0], shape), exponent)
    x = np.where(rng.random(shape) < 0.1, 0.0, x)
    return np.where(rng.random(shape) < 0.2, np.nextafter(x, rng.choice([-1e9, 1e9], shape)), x)


def intervals(rng: np.random.Generator, *shape: int) -> Interval:
    """Points, narrow ones, and wide ones that may cross zero."""
    a, b = awkward(rng, *shape), awkward(rng, *shape)
    width = rng.integers(0, 3, shape)
    b = np.where(width == 0, a, np.where(width == 1, a * (1 + 1e-9), b))
    return np.minimum(a, b), np.maximum(a, b)


def inside(rng: np.random.Generator, x: Interval) -> list[Array]:
    """Both ends, and something between them."""
    low, high = x
    share = rng.random(low.shape)
    between = np.clip(low * (1 - share) + high * share, low, high)
    return [low, high, between]


def assert_encloses(found: Interval, exact: Any, *context: Any) -> None:
    """The real numbers, given as balls, lie between the ends, provably."""
    low, high = (end.ravel().tolist() for end in sure(*found))
    for least, most, true in zip(low, high, exact, strict=True):
        assert arb(least) <= true, (least, true, *context)
        assert true <= arb(most), (true, most, *context)


def balls(x: Array) -> list[Any]:
    return [arb(value) for value in x.ravel().tolist()]


@pytest.mark.parametrize("seed", range(8))
def test_sums_products_and_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = intervals(rng, 200), intervals(rng, 200)
    added, multiplied, squared = add(x, y), multiply(x, y), square(x)
    assert (np.nan_to_num(squared[0]) >= 0).all()
    for a in map(balls, inside(rng, x)):
        assert_encloses(squared, [p * p for p in a])
        for b in map(balls, inside(rng, y)):
            assert_encloses(added, [p + q for p, q in zip(a, b, strict=True)])
            assert_encloses(multiplied, [p * q for p, q in zip(a, b, strict=True)])


@pytest.mark.parametrize("seed", range(8))
def test_matrix_products(seed: int) -> None:
    """Any order of summation: terms of very different size, and terms that cancel."""
    rng = np.random.default_rng(seed)
    rows, columns = 1 + seed, 3
    x = intervals(rng, 12, rows)
    matrix = awkward(rng, rows, columns)
    if seed % 2:
        ordinary = rng.normal(size=(12, rows))
        x, matrix = (ordinary, ordinary), rng.normal(size=(rows, columns))
    if seed % 2 and rows > 1:
        # The last two terms cancel all but the last digits.
        matrix[-1] = -matrix[-2]
        x[0][:, -1] = x[0][:, -2] * (1 + 2.0**-52)
    found = times_matrix(x, matrix)
    for points in inside(rng, x):
        exact = [
            sum((arb(a) * arb(b) for a, b in zip(row, column, strict=True)), arb(0))
            for row in points.tolist()
            for column in matrix.T.tolist()
        ]
        assert_encloses(found, exact)


def test_long_sums() -> None:
    """Four thousand terms, each of which is lost beside the first, whatever the order."""
    lost = np.full((1, 4000), 0.9 * 2.0**-53)
    lost[0, 0] = 1.0
    exact = sum(balls(lost), arb(0))
    for sign in (1.0, -1.0):
        found = times_matrix((sign * lost, sign * lost), np.ones((4000, 1)))
        assert_encloses(found, [sign * exact])


@pytest.mark.parametrize("seed", range(4))
def test_outward_holds_the_sum_of_its_terms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms = rng.uniform(0, 1, (60, 50)) * 10.0 ** rng.integers(-12, 12, (60, 1))
    total = terms.sum(1)
    exact = [sum(map(arb, row), arb(0)) for row in terms.tolist()]
    assert_encloses(outward(total, total, terms=50), exact)
    assert_encloses(outward(-total, -total, terms=50), [-value for value in exact])


@pytest.mark.parametrize("seed", range(4))
def test_exponentials_of_negative_numbers(seed: int) -> None:
    """Also where they underflow, and where the argument itself has been rounded."""
    rng = np.random.default_rng(seed)
    scale = rng.choice([1e-300, 1e-9, 1.0, 30.0, 745.0, 800.0, 1e9, 1e300], 400)
    score, top = -rng.random(400) * scale, rng.random(400) * scale * 1e-3
    found = exp_bounds(score - top, score - top)
    exact = [(a - b).exp() for a, b in zip(balls(score), balls(top), strict=True)]
    assert_encloses(found, exact)
    assert (found[0] >= 0).all()
    edges = np.array([-745.2, -745.1, -744.4, -708.4, -708.3, -0.0])
    assert_encloses(exp_bounds(edges, edges), [value.exp() for value in balls(edges)])


@pytest.mark.parametrize("units", [-4, 4])
def test_exponentials_on_machines_less_exact(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds leave room for an exp that is off by 4 units in the last place."""
    exp = np.exp
    monkeypatch.setattr(np, "exp", lambda x: exp(x) * (1 + units * 2.0**-52))
    x = -np.array([1e-9, 0.3, 5.0, 600.0])
    assert_encloses(exp_bounds(x, x), [value.exp() for value in balls(x)])


# -- GELU ------------------------------------------------------------------------------------------

RANGES = [
    (-1e308, -1e3), (-1e3, -50), (-50, -38.6), (-38.6, -37.4), (-37.4, -36), (-36, -20), (-20, -10),
    (-10, -5), (-5, -3), (-3, -1.5), (-1.5, -1.41), (-1.42, -1), (-1, -0.7), (-0.76, -0.74),
    (-0.7, 0), (-1e-300, 1e-300), (-1e-9, 1e-9), (0, 1), (1, 1.5), (1.5, 9), (9, 50), (50, 1e308),
]  # fmt: skip


def gelu_at(x: Array) -> list[Any]:
    """Enclosures of x Φ(x); beyond ±100 by inequalities, where erfc of huge numbers is slow."""
    found = []
    for value in x.ravel().tolist():
        if value < -100:
            found.append(arb(-(2.0**-1000), 0).union(arb(0)))
        elif value > 100:
            found.append(arb(value) * (1 - arb(0).union(arb(2) ** -1000)))
        else:
            with ctx.workprec(300):
                found.append(gelu(arb(value)))
    return found


@pytest.mark.parametrize("ends", RANGES, ids=str)
def test_gelu_is_enclosed_at_points_of_the_whole_range(ends: tuple[float, float]) -> None:
    rng = np.random.default_rng(7)
    share = np.concatenate([[0.0, 1.0], rng.random(400)])
    x = ends[0] * (1 - share) + ends[1] * share
    x = np.concatenate([x, np.nextafter(x[:20], np.inf), np.nextafter(x[:20], -np.inf)])
    assert_encloses(gelu_bounds(x, x), gelu_at(x), ends)


def test_gelu_is_enclosed_over_intervals() -> None:
    rng = np.random.default_rng(8)
    ends = rng.choice([-60, -38, -37, -5, -1, -0.8, -0.75, -0.7, 0, 1, 40], (2, 300))
    ends = ends + rng.normal(size=(2, 300)) * rng.choice([0, 1e-12, 1e-2, 3], (2, 300))
    low, high = ends.min(0), ends.max(0)
    found = gelu_bounds(low, high)
    argmin = np.clip(-0.7517915246935645, low, high)
    for points in (low, high, argmin, *inside(rng, (low, high))):
        assert_encloses(found, gelu_at(points))


def test_gelu_of_what_is_not_finite() -> None:
    nowhere = np.array([np.nan, -1.0, -np.inf, -np.inf, 5.0])
    high = np.array([1.0, np.nan, np.inf, -50.0, np.inf])
    least, most = sure(*gelu_bounds(nowhere, high))
    assert least[:2].tolist() == [-np.inf, -np.inf]
    assert most[:3].tolist() == [np.inf, np.inf, np.inf]
    assert -0.16 > least[2] > -0.17
    assert least[3] <= 0 <= most[3] < 1e-200
    assert least[4] < 5
    assert most[4] == np.inf


@given(st.floats(-30, 30), st.floats(0, 6))
def test_gelu_bounds_are_tight(low: float, width: float) -> None:
    least, most = gelu_bounds(np.array([low]), np.array([low + width]))
    points = np.linspace(low, low + width, 51)
    values = [float(value) for value in gelu_at(points)]
    assert min(values) - least[0] < 1e-12 * abs(low) + 0.5 * width**2 + 1e-200
    assert most[0] - max(values) < 1e-12 * (abs(low) + width) + 1e-200


# -- weighted means --------------------------------------------------------------------------------


def means(weights: Array, values: Array) -> list[Any]:
    found = []
    for w, v in zip(weights.tolist(), values.tolist(), strict=True):
        total = sum(map(arb, w), arb(0))
        found.append(sum((arb(p) * arb(q) for p, q in zip(w, v, strict=True)), arb(0)) / total)
    return found


def weight_ranges(rng: np.random.Generator, boxes: int, tokens: int) -> Interval:
    """From vanishing to huge, some without width, some that may be zero."""
    heavy = np.ldexp(rng.uniform(1, 2, (boxes, tokens)), rng.integers(-1070, 200, (boxes, tokens)))
    heavy = np.where(rng.random(heavy.shape) < 0.5, rng.uniform(0.01, 9, heavy.shape), heavy)
    light = heavy * rng.choice([0.0, 1.0, 0.5, 1e-9], heavy.shape)
    return light, heavy


@pytest.mark.parametrize("tokens", [1, 2, 3, 6])
@pytest.mark.parametrize("scale", [1.0, 1e-100, 1e-290, 1e150, 1e300])
def test_means_hold_for_all_weights(tokens: int, scale: float) -> None:
    rng = np.random.default_rng(tokens)
    light, heavy = weight_ranges(rng, 60, tokens)
    values = rng.normal(size=(60, tokens)) * scale
    values[::3] += 1e6 * scale
    spread = np.abs(values) * rng.choice([0.0, 1e-3], values.shape)
    value_range = (values - spread, values + spread)
    found = mean_bounds(light, heavy, value_range)
    for value in inside(rng, value_range):
        for _ in range(3):
            corner = np.where(rng.random(light.shape) < 0.5, light, heavy)
            for weights in (corner, *inside(rng, (light, heavy))[1:]):
                # No mean is defined where nothing weighs anything.
                some = weights.sum(1) > 0
                bounds = found[0][some], found[1][some]
                assert_encloses(bounds, means(weights[some], value[some]))


def test_means_are_attained() -> None:
    """Sorted values, ordinary weights: the bound is the best corner, to a few units."""
    rng = np.random.default_rng(3)
    light = rng.uniform(0.1, 2, (40, 4))
    heavy = light + rng.uniform(0, 5, light.shape)
    values = np.sort(rng.normal(size=light.shape), axis=1)
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1).T
    best = [
        max(map(float, means(least + corners * (most - least), np.tile(row, (16, 1)))))
        for least, most, row in zip(light, heavy, values, strict=True)
    ]
    np.testing.assert_allclose(largest_sorted_mean(light, heavy, values), best, atol=1e-14)


def test_means_of_many_channels_at_once() -> None:
    """`[box channel token]`, all sizes different: as if each row were asked alone, and exactly."""
    rng = np.random.default_rng(6)
    light = rng.uniform(0.1, 2, (3, 1, 5))
    heavy = light + rng.uniform(0, 5, light.shape)
    values = rng.normal(size=(3, 4, 5))
    low, high = mean_bounds(light, heavy, (values, values))
    assert low.shape == high.shape == (3, 4)
    for box, channel in np.ndindex(3, 4):
        corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 5)).reshape(5, -1).T
        weights = light[box, 0] + corners * (heavy - light)[box, 0]
        every = [*map(float, means(weights, np.tile(values[box, channel], (32, 1))))]
        np.testing.assert_allclose(high[box, channel], max(every), atol=1e-13)
        np.testing.assert_allclose(low[box, channel], min(every), atol=1e-13)


def test_sums_that_overflow_hide_no_mean() -> None:
    """-1e200 times 1e200 is -inf in float64; the means themselves are moderate."""
    light = np.array([[1e200, 1e-200, 1.0]])
    values = np.array([[-1e200, -1e150, -1.0]])
    low, high = mean_bounds(light, light, (values, values))
    assert_encloses((low, high), means(light, values))
    # Here it is the weights that overflow: 2.8e308, where the mean is 5.2e-10.
    light, heavy = np.array([[1e308, 1.0, 1.0]]), np.array([[1e308, 0.9e308, 0.9e308]])
    small = np.array([[1e-10, 7e-10, 8e-10]])
    assert_encloses(mean_bounds(light, heavy, (small, small)), means(heavy, small))
    nan = np.full((1, 3), np.nan)
    light = np.ones((1, 3))
    low, high = sure(*mean_bounds(nan, nan, (values, values)))
    assert low[0] <= -1e200
    assert high[0] >= -1.0
    low, high = sure(*mean_bounds(light, light, (nan, nan)))
    assert (low[0], high[0]) == (-np.inf, np.inf)


def test_slices_change_nothing() -> None:
    rows = np.arange(7.0)
    double = in_slices(lambda x, y: (x + y, x * y), 1, rows, rows)
    sliced = in_slices(lambda x, y: (x + y, x * y), 1 << 21, rows, rows)
    for one, other in zip(double, sliced, strict=True):
        np.testing.assert_array_equal(one, other)


def test_slices_hold_one_row_at_least() -> None:
    seen: list[int] = []

    def count(x: Array) -> tuple[Array]:
        seen.append(len(x))
        return (x,)

    in_slices(count, 1 << 30, np.arange(3.0))
    assert seen == [1, 1, 1]
    in_slices(count, 1 << 20, np.arange(9.0))
    assert seen[3:] == [4, 4, 1]


# -- no wider than stated --------------------------------------------------------------------------


def units(found: Interval) -> float:
    """Half the width, in relative units of 2^-53."""
    low, high = (float(end.ravel()[0]) for end in found)
    return (high - low) / abs(high + low) * 2.0**53


def one(x: float) -> Array:
    return np.array([x])


@pytest.mark.parametrize(
    ("found", "stated"),
    [
        (lambda: outward(one(1.0), one(1.0)), 17),
        (lambda: outward(one(-1.0), one(-1.0), terms=48), 64),
        (lambda: add((one(0.5), one(0.5)), (one(0.5), one(0.5))), 17),
        (lambda: multiply((one(-0.5), one(-0.5)), (one(2.0), one(2.0))), 17),
        (lambda: square((one(-2.0), one(-2.0))), 17),
        (lambda: exp_bounds(one(-0.0), one(-0.0)), 16),
        (lambda: exp_bounds(one(-3.0), one(-3.0)), 64),
        (lambda: times_matrix((np.ones((1, 4)),) * 2, np.ones((4, 1))), 24),
        (lambda: mean_bounds(np.ones((1, 2)), np.ones((1, 2)), (np.ones((1, 2)),) * 2), 32),
        (lambda: mean_bounds(np.ones((1, 5)), np.ones((1, 5)), (-np.ones((1, 5)),) * 2), 56),
        (lambda: gelu_bounds(one(5.0), one(5.0)), 64),
        (lambda: gelu_bounds(one(-3.0), one(-3.0)), 100),
        (lambda: gelu_bounds(one(-1.0), one(-1.0)), 68),
    ],
)  # fmt: skip
def test_bounds_leave_the_room_that_is_stated(found: Any, stated: float) -> None:
    """As much as the operation's own rounding may take, and no more."""
    assert units(found()) == pytest.approx(stated, abs=2)


def test_products_and_squares_of_intervals_are_tight() -> None:
    for x, y, low, high in [
        ((2, 3), (5, 7), 10, 21), ((-2, 3), (5, 7), -14, 21), ((-3, -2), (5, 7), -21, -10),
        ((-2, 3), (-5, 7), -15, 21), ((-3, -2), (-7, 5), -15, 21), ((0, 0), (-7, 5), 0, 0),
    ]:  # fmt: skip
        least, most = multiply(*((np.array([a], float), np.array([b], float)) for a, b in (x, y)))
        np.testing.assert_allclose([least[0], most[0]], [low, high], rtol=1e-14, atol=1e-299)
    for a, b, low, high in [
        (2, 3, 4, 9), (-3, -2, 4, 9), (-2, 3, 0, 9), (-3, 2, 0, 9), (0, 2, 0, 4), (-2, 0, 0, 4),
        (0.5, 2, 0.25, 4), (-2, -0.5, 0.25, 4),
    ]:  # fmt: skip
        least, most = square((np.array([a], float), np.array([b], float)))
        np.testing.assert_allclose([least[0], most[0]], [low, high], rtol=1e-14, atol=1e-299)


def test_rows_of_intervals_times_a_matrix_are_tight() -> None:
    low, high = np.array([[1.0, -2.0, 0.5]]), np.array([[2.0, 3.0, 0.5]])
    matrix = np.array([[1.0, -1.0], [2.0, -3.0], [-4.0, 0.0]])
    least, most = times_matrix((low, high), matrix)
    # By hand: 1 - 4 - 2, 2 + 6 - 2; -2 - 9, -1 + 6.
    np.testing.assert_allclose(least[0], [-5.0, -11.0], rtol=1e-14)
    np.testing.assert_allclose(most[0], [6.0, 5.0], rtol=1e-14)


def test_means_of_values_much_wider_on_one_side() -> None:
    """The room for rounding is that of the larger end, whichever it is."""
    rng = np.random.default_rng(5)
    weights = rng.uniform(0.1, 3, (300, 3))
    large, small = rng.uniform(1, 2, (300, 3)), np.full((300, 3), 1e-12)
    for low, high in ((-large, small), (-small, large)):
        found = mean_bounds(weights, weights, (low, high))
        assert_encloses((found[0], np.full(300, np.inf)), means(weights, low))
        assert_encloses((np.full(300, -np.inf), found[1]), means(weights, high))


def test_what_is_not_a_number_says_nothing() -> None:
    low, high = sure(np.array([np.nan, 1.0]), np.array([2.0, np.nan]))
    assert low.tolist() == [-np.inf, 1.0]
    assert high.tolist() == [2.0, np.inf]
