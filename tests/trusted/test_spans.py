"""Float64 intervals and relaxations: they hold the real numbers, and are tight."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_series, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from tsc_interp.trusted import balls, relaxation
from tsc_interp.trusted.relaxation import Form
from tsc_interp.trusted.spans import UNIT, Span, activation, around, down, up

NAMES = ["gelu", "gelu_new", "relu", "silu"]
REALS = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1e-310, -1e-310, 1 / 3, -0.1, 2.0**60])


@st.composite
def spans(draw: Any) -> tuple[Span, list[Fraction]]:
    """One interval, and exact numbers in it: both ends and some between."""
    low, high = sorted((draw(REALS), draw(REALS)))
    ends = Fraction(low), Fraction(high)
    inside = [ends[0] + (ends[1] - ends[0]) * Fraction(k, 7) for k in (0, 2, 5, 7)]
    return Span(np.array([low]), np.array([high])), inside


@pytest.fixture(autouse=True)
def what_is_no_number_is_expected() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def holds(span: Span, real: Fraction, at: Any = 0) -> bool:
    """Python compares fractions with floats exactly, infinite ones too."""
    return bool(float(span.low[at]) <= real <= float(span.high[at]))


@given(spans(), spans())
@settings(max_examples=150, deadline=None)
def test_operations_hold_every_pair(a: Any, b: Any) -> None:
    (x, some), (y, others) = a, b
    operations: list[tuple[Span, Callable[[Fraction, Fraction], Fraction]]] = [
        (x + y, lambda p, q: p + q),
        (x - y, lambda p, q: p - q),
        (x * y, lambda p, q: p * q),
        (-x, lambda p, _: -p),
        (x.square(), lambda p, _: p * p),
    ]
    for found, operation in operations:
        assert all(holds(found, operation(p, q)) for p in some for q in others)
    if x.low[0] > 0:
        inverse, root = x.inverse(), x.root()
        assert all(holds(inverse, 1 / p) for p in some)
        for p in some:
            assert Fraction(float(root.low[0])) ** 2 <= p <= Fraction(float(root.high[0])) ** 2
    else:
        assert np.isnan(x.inverse().low[0])


def test_the_next_number_is_not_missed() -> None:
    """Of every exponent, powers of two and their neighbours too; twice as far at most."""
    noise = np.random.default_rng(1)
    sizes = [1.0, 1.0 + 2.0**-52, 1.0 - 2.0**-53, *noise.uniform(1, 2, 37)]
    x = np.repeat(2.0 ** np.arange(-1074, 1023), 40) * np.tile(sizes, 2097)
    x = np.concatenate([x, -x, [0.0]])
    above = np.nextafter(x, np.inf)
    assert (up(x) >= above).all()
    assert (up(x) <= np.nextafter(above, np.inf)).all()
    np.testing.assert_array_equal(down(x), -up(-x))
    assert up(np.inf) == up(np.finfo(float).max) == np.inf
    assert np.isnan(up(np.nan))
    assert np.isfinite([up(-np.inf), down(np.inf)]).all()


@given(st.integers(0, 10_000), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_sums_and_products_of_matrices_hold_under_cancellation(seed: int, terms: int) -> None:
    noise = np.random.default_rng(seed)
    near = noise.normal(size=(2, terms)) * 10 ** noise.uniform(-12, 12, size=(2, terms))
    near[:, -1] = -near[:, :-1].sum(1)  # almost nothing is left of the sum
    width = np.abs(near) * noise.choice([0.0, 1e-16, 1e-3], size=near.shape)
    a = Span(near - width, near + width)
    b = Span(near.T - width.T, near.T + width.T)
    total, square = a.total(), a @ b
    for choice in (0.0, 0.5, 1.0):
        rows = [
            [
                Fraction(float(low))
                + (Fraction(float(high)) - Fraction(float(low))) * Fraction(choice)
                for low, high in zip(lows, highs, strict=True)
            ]
            for lows, highs in zip(a.low, a.high, strict=True)
        ]
        assert all(holds(total, sum(row, Fraction(0)), i) for i, row in enumerate(rows))
        for i, row in enumerate(rows):
            for j, column in enumerate(rows):
                exact = sum((p * q for p, q in zip(row, column, strict=True)), Fraction(0))
                assert holds(square, exact, (i, j))


@given(st.integers(0, 10_000), st.integers(2, 40))
@settings(max_examples=40, deadline=None)
def test_products_of_ranges_around_zero_hold_their_ends(seed: int, terms: int) -> None:
    """Nothing but radii is added up here, and what that rounds has to be covered, too."""
    noise = np.random.default_rng(seed)
    a, b = noise.uniform(0.1, 1.0, size=(2, terms))
    found = Span(-a[None], a[None]) @ Span(-b[:, None], b[:, None])
    exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True))
    assert holds(found, exact, (0, 0))
    assert holds(found, -exact, (0, 0))
    for batch in (a[None], a[None, None]):
        single = Span.exact(batch) @ Span.exact(b[:, None])
        assert (single.high - single.low >= 2 * terms * UNIT * (a @ b)).all()  # any order


def test_results_are_tight_to_a_few_units() -> None:
    one, third = Span.exact(np.array([1.0])), Span.exact(np.array([1 / 3]))
    eye, single = Span.exact(np.eye(2)), (third.inverse(), third.root(), third.square())
    for found in (one + third, one - third, one * third, *single, third.total(0), eye @ eye):
        assert (found.high - found.low <= 1e-14).all()
    assert (around(np.zeros(1), np.ones(1)).low, around(np.ones(1), np.zeros(1)).high) == (0, 1)
    assert Span(np.array([-2.0]), np.array([1.0])).square().low == 0
    assert Span(np.array([-2.0]), np.array([1.0])).square().high == pytest.approx(4)
    assert Span(np.array([2.0]), np.array([3.0])).square().low == pytest.approx(4)


def test_what_is_no_number_stays_none() -> None:
    for bad in (np.nan, np.inf):
        x, y = Span.exact(np.array([bad])), Span(np.array([-1.0]), np.array([2.0]))
        for found in (x * y - x * y, x.total(0) - x, (x - x) + y, (x - x).square()):
            assert not found.low[0] > -1e300
    nan = np.array([np.nan])
    assert np.isnan(activation("gelu", nan).low[0])
    assert np.isnan(activation("silu", nan).high[0])
    assert np.isnan(around(nan, np.ones(1)).low[0])
    form = Form(Span.exact(np.ones((1, 1))), Span.exact(np.zeros(1)), Span.exact(nan))
    active = [relaxation.activated(name, form) for name in NAMES]
    root = relaxation.inverse_root(form, 0.1)
    for made in (form.squared(), relaxation.product(form, form), root, *active):
        assert not made.rest.low[0] > -1e300


def test_balls_are_inside_of_their_ends() -> None:
    for text in ("0.1", "-0.3", "1e-320", "-1e300", "12345.678"):
        with ctx.workprec(200):
            ball = arb(text)
            found = Span.of([[ball]])
            assert arb(float(found.low[0, 0])) < ball < arb(float(found.high[0, 0]))
    assert np.isnan(Span.of([[arb("nan"), arb("inf")]]).low).all()
    assert np.isnan(Span.of([[arb("nan"), arb("inf")]]).high).all()


@pytest.mark.parametrize("name", NAMES)
def test_activations_hold_their_value_everywhere(name: str) -> None:
    noise = np.random.default_rng(3)
    x = np.concatenate([
        noise.uniform(-12, 12, 600), noise.uniform(-60, 60, 300), noise.normal(size=200) * 1e-3,
        np.arange(-40, 40) / 32, [0.0, -10.0, 10.0, -40.0, 40.0, 1e300, -1e300, 5e-324, 1e9],
    ])  # fmt: skip
    found = activation(name, x)
    with ctx.workprec(256):
        for value, low, high in zip(
            x.tolist(), found.low.tolist(), found.high.tolist(), strict=True
        ):
            real = balls.activation(name, arb(value))
            if not real.is_finite():  # at -1e300, where arb's exp overflows
                continue
            assert arb(low) <= real.upper()
            assert real.lower() <= arb(high)
            assert high - low <= 1e-9 + 1e-14 * abs(value)


# -- relaxations -------------------------------------------------------------------------------


def form_of(low: float, high: float) -> Form:
    """x itself, between two numbers."""
    values = Span(np.array([low]), np.array([high]))
    return Form(Span.exact(np.ones((1, 1))), Span.exact(np.zeros(1)), values)


def assert_holds(form: Form, x: Any, value: Any) -> None:
    """That a form of one coordinate x holds a value, up to the precision of the balls."""
    with ctx.workprec(160):
        row = balls.hull([arb(float(form.row.low[0, 0])), arb(float(form.row.high[0, 0]))])
        rest = balls.hull([arb(float(form.rest.low[0])), arb(float(form.rest.high[0]))])
        values = balls.hull([arb(float(form.values.low[0])), arb(float(form.values.high[0]))])
        assert (row * x + rest).overlaps(value)
        assert values.overlaps(value)


@pytest.mark.parametrize("name", NAMES)
def test_relaxed_activations_hold_everywhere(name: str) -> None:
    draw = random.Random(name)
    for _ in range(60):
        low = draw.uniform(-8, 6)
        high = low + 10 ** draw.uniform(-4, 1)
        form = relaxation.activated(name, form_of(low, high))
        for share in np.linspace(0, 1, 41):
            x = arb(low + (high - low) * float(share))
            if balls.is_at_most(x, arb(high)):
                assert_holds(form, x, balls.activation(name, x))


@pytest.mark.parametrize("name", ["gelu", "gelu_new", "silu"])
def test_no_curvature_exceeds_its_bounds(name: str) -> None:
    """On balls of [-12, 12], by arb's power series; beyond, activations are all but straight."""
    most, least = relaxation._CURVATURE[name]
    with ctx.workprec(128):
        for i in range(-6000, 6000):
            x = arb_series([arb((i + 0.5) / 500, 1 / 900), 1], prec=3)
            second = 2 * balls.formula(name, x)[2]
            assert second.upper() <= arb(most), (name, i)
            assert second.lower() >= arb(-least), (name, i)


def test_products_squares_and_inverse_roots_hold_at_their_points() -> None:
    draw = random.Random(5)
    for _ in range(200):
        ends = sorted(draw.uniform(-3, 3) for _ in range(2))
        form = form_of(*ends)
        square = form.squared()
        made = relaxation.product(form, square)
        root = relaxation.inverse_root(square, 0.01)
        for share in (0.0, 0.2, 0.5, 0.9, 1.0):
            x = arb(ends[0]) + (arb(ends[1]) - arb(ends[0])) * arb(share)
            assert_holds(square, x, x * x)
            assert_holds(made, x, x**3)
            assert_holds(root, x, 1 / (x * x + arb(0.01)).sqrt())


@pytest.mark.parametrize("middle", [-1.7, -0.4, 0.6, 2.2])
def test_relaxations_are_tight(middle: float) -> None:
    """What is left shrinks with the square of the range, so nothing is given away."""
    for width in (0.1, 0.01):
        form = form_of(middle - width / 2, middle + width / 2)
        square = form.squared()
        made = [
            square,
            relaxation.product(form, square),
            relaxation.inverse_root(square, 0.01),
            *(relaxation.activated(name, form) for name in NAMES),
        ]
        assert all(one.rest.radius[0] < 12 * width**2 for one in made), middle
        assert all(one.values.radius[0] < 20 * width for one in made), middle
    added = form.plus(Span.exact(np.array([2.0])))
    assert added.rest.middle[0] == pytest.approx(2)
    assert added.values.middle[0] == pytest.approx(middle + 2)


def test_bends_are_those_of_the_widest_gap() -> None:
    """Between two nodes a function is off its chord by at most curvature · gap² / 8."""
    nodes = np.array([[0.0, 0.25, 1.0]])
    below, above = relaxation._bends("gelu", nodes)
    assert 0.80 * 0.75**2 / 8 <= below[0] <= 0.80 * 0.75**2 / 8 * (1 + 1e-12)
    assert 0.11 * 0.75**2 / 8 <= above[0] <= 0.11 * 0.75**2 / 8 * (1 + 1e-12)


@pytest.mark.parametrize("low", [1.0, -1.0, 3.0, 0.0, 2.0**-1074, 1e300])
def test_the_radius_reaches_both_ends_of_neighbours(low: float) -> None:
    """The middle of two neighbouring numbers is one of them, so one distance is zero."""
    for high in (low, float(np.nextafter(low, np.inf)), low + abs(low) / 3):
        span = Span(np.array([low]), np.array([high]))
        middle, radius = Fraction(float(span.middle[0])), Fraction(float(span.radius[0]))
        assert middle - radius <= Fraction(low)
        assert middle + radius >= Fraction(high)
