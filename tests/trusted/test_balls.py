"""Questions to balls: what is not known proves nothing, and every bound encloses the truth.

The truth is mpmath's, at 60 digits: not flint's, and not the trusted base's own.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import mpmath
import pytest
from flint import arb, ctx
from hypothesis import example, given
from hypothesis import strategies as st

from tests.verification import precise
from tsc_interp.trusted import balls, float32, float_attention, forward
from tsc_interp.trusted.balls import UNKNOWN

NOTHING_KNOWN = [arb("nan"), arb("inf"), arb("-inf"), arb("[0 +/- inf]"), arb("[5 +/- inf]")]
ENDS = st.one_of(
    st.floats(-1e308, 1e308),
    st.floats(-50, 50),
    st.floats(-1e-300, 1e-300),
    st.sampled_from(
        [0.0, -0.0, 5e-324, -5e-324, 2.0**127, -(2.0**127), -0.7518, -0.75179, -0.7517]
    ),
)
WIDTHS = st.one_of(st.just(0.0), st.floats(0, 1e300), st.floats(0, 3), st.floats(0, 1e-300))


@pytest.fixture(autouse=True)
def precision() -> Any:
    with ctx.workprec(128), mpmath.workdps(60):
        yield


def ball(low: float, width: float) -> Any:
    return arb(low).union(arb(low) + arb(width))


def encloses(bound: Any, truth: Any) -> bool:
    """Whether the exact mpmath number lies in the ball, both ends compared as rationals."""
    return bool(bound.is_finite()) and (
        _rational(bound.lower()) <= truth <= _rational(bound.upper())
    )


def _rational(end: Any) -> Any:
    mantissa, exponent = end.man_exp()
    return mpmath.mpf((int(mantissa), int(exponent)))


def inside(low: float, width: float) -> list[Any]:
    low_end, wide = mpmath.mpf(low), mpmath.mpf(width)
    return [low_end + wide * share for share in (0, 0.25, mpmath.mpf(1) / 3, 0.5, 0.99, 1)]


# -- questions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", NOTHING_KNOWN, ids=str)
def test_what_is_not_known_answers_no_question(nothing: Any) -> None:
    assert not balls.is_positive(nothing)
    assert not balls.is_not_positive(nothing)
    for other in (arb(-3), arb(0), arb(7), nothing):
        assert not balls.is_less(nothing, other)
        assert not balls.is_less(other, nothing)
        assert not balls.is_at_most(nothing, other)
        assert not balls.is_at_most(other, nothing)


@pytest.mark.parametrize("nothing", NOTHING_KNOWN, ids=str)
def test_what_is_not_known_stays_unknown(nothing: Any) -> None:
    assert not balls.hull([arb(1), nothing]).is_finite()
    assert not balls.hull([nothing, arb(1)]).is_finite()
    for function in (balls.square, balls.root):
        assert not function(nothing).is_finite()
    for name in precise.ACTIVATIONS:
        assert not balls.activation(name, nothing).is_finite()
    assert not balls.clamp(nothing, arb(2)).is_finite()


def test_no_balls_no_hull() -> None:
    assert not balls.hull([]).is_finite()
    assert not UNKNOWN.is_finite()


def test_a_ball_across_zero_has_no_sign() -> None:
    across = ball(-1, 2)
    assert not balls.is_positive(across)
    assert not balls.is_not_positive(across)
    assert balls.is_not_positive(arb(0))
    assert not balls.is_positive(arb(0))
    assert balls.is_at_most(arb(2), arb(2))
    assert not balls.is_less(arb(2), arb(2))
    assert balls.is_less(arb(1), arb(2))
    assert not balls.is_at_most(ball(1, 1), ball(1.5, 1))


def test_numbers_without_a_partner_are_no_scalar_product() -> None:
    assert balls.dot([arb(2), arb(3)], [arb(5), arb(7)]) == 31
    for one, other in (([arb(2)], [arb(5), arb(7)]), ([arb(2), arb(3)], [arb(5)])):
        with pytest.raises(ValueError, match=r"shorter|longer"):
            balls.dot(one, other)


# -- bounds --------------------------------------------------------------------------------------


@given(st.lists(st.tuples(ENDS, WIDTHS), min_size=1, max_size=4))
def test_hull(given_balls: list[tuple[float, float]]) -> None:
    whole = balls.hull([ball(*one) for one in given_balls])
    assert all(encloses(whole, x) for one in given_balls for x in inside(*one))


@given(ENDS, WIDTHS)
def test_square(low: float, width: float) -> None:
    bound = balls.square(ball(low, width))
    assert all(encloses(bound, x * x) for x in inside(low, width))
    if low > 0:
        assert _rational(bound.upper()) <= (mpmath.mpf(low) + width) ** 2 * (1 + mpmath.mpf(1e-6))


@given(ENDS, WIDTHS)
def test_root(low: float, width: float) -> None:
    bound = balls.root(ball(low, width))
    if low + width < 0:
        assert not bound.is_finite()
    else:
        assert all(encloses(bound, mpmath.sqrt(x)) for x in inside(low, width) if x >= 0)


def test_the_root_of_a_ball_that_rounding_pushed_below_zero() -> None:
    """[0, 10^12] as a ball begins at about -1000; its root is still known."""
    wide = arb(0).union(arb(10**12)) + arb(1e-5)
    assert wide.lower() < 0
    assert encloses(balls.root(wide), mpmath.mpf(10**6))
    assert encloses(balls.root(wide), mpmath.sqrt(mpmath.mpf(1e-5)))
    assert float(balls.root(wide).upper()) < 1.01e6


@given(ENDS, WIDTHS, st.floats(1e-3, 1e3))
def test_clamp(low: float, width: float, most: float) -> None:
    bound = balls.clamp(ball(low, width), arb(most))
    assert all(encloses(bound, x) for x in inside(low, width) if abs(x) <= most)
    if -most <= low + width and low <= most:
        assert float(bound.abs_upper()) <= most * (1 + 1e-6)


@given(ENDS, WIDTHS)
@example(-1e40, 0.0)
@example(-800.0, 10.0)
def test_exp_range(low: float, width: float) -> None:
    least, most = balls.exp_range(ball(low, width))
    assert not least < 0
    for x in (y for y in inside(low, width) if abs(y) < 1e15):
        assert _rational(least) <= mpmath.exp(x)
        assert not most.is_finite() or mpmath.exp(x) <= _rational(most)


DIPS = {"gelu": -0.751791524693564, "gelu_new": -0.752461422071016, "silu": -1.27846454276107}


@pytest.mark.parametrize("name", precise.ACTIVATIONS)
@given(ENDS, WIDTHS)
@example(-0.7518, 0.0001)
@example(-0.75179, 0.0)
@example(-0.7525, 0.0001)
@example(-1.2785, 0.0001)
@example(-4.0, 8.0)
@example(-40.0, 0.0)
@example(-1e30, 1.0)
def test_activations(name: str, low: float, width: float) -> None:
    bound, truth = balls.activation(name, ball(low, width)), precise.ACTIVATIONS[name]
    dip = DIPS.get(name, 0.0)
    if not bound.is_finite():  # exp of too much is not known, and proves nothing
        assert max(abs(low), abs(low + width)) > 1e6
        return
    with mpmath.workdps(60):
        for x in [*inside(low, width), mpmath.mpf(dip)]:
            if low <= x <= mpmath.mpf(low) + width and abs(x) < 1e15:
                assert encloses(bound, truth(x)), (low, width, x)
        if width == 0 and abs(low) < 30:
            # A point has a point's value, not the dip's.
            room = 1e-8 + (0.28 if abs(low - dip) < 1e-3 else 0)
            assert abs(_rational(bound.upper()) - truth(mpmath.mpf(low))) < room
            assert abs(_rational(bound.lower()) - truth(mpmath.mpf(low))) < room


# -- used everywhere -----------------------------------------------------------------------------


@pytest.mark.parametrize("module", [forward, float32, float_attention])
def test_balls_are_compared_in_one_file_alone(module: Any) -> None:
    tree = ast.parse(Path(module.__file__ or "").read_text())
    order = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    compared = [n for n in ast.walk(tree) if isinstance(n, ast.Compare)]
    assert not [n.lineno for n in compared if any(isinstance(op, order) for op in n.ops)]
    called = {n.func.id for n in ast.walk(tree)
              if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}  # fmt: skip
    assert not called & {"min", "sorted"}
    used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    assert not used & {"intersection", "abs_lower", "abs_upper", "sqrt_"}


@pytest.mark.parametrize("nothing", NOTHING_KNOWN, ids=str)
def test_the_smallest_and_the_largest(nothing: Any) -> None:
    numbers = [arb(3), arb(-2), arb(1)]
    assert (balls.smallest(numbers), balls.largest(numbers)) == (arb(-2), arb(3))
    for place in range(3):
        doubtful = [*numbers[:place], nothing, *numbers[place:]]
        assert not balls.smallest(doubtful).is_finite()
        assert not balls.largest(doubtful).is_finite()
    assert not balls.smallest([]).is_finite()
