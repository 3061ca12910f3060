"""The checker's kernel: what is not known proves nothing, and every bound encloses the truth.

The truth is mpmath's, at 60 digits: not flint's, and not the kernel's own.
"""

from __future__ import annotations

import ast
from itertools import product
from pathlib import Path
from typing import Any

import mpmath
import pytest
from flint import arb, ctx
from hypothesis import example, given
from hypothesis import strategies as st

from tests.verification import precise
from tests.verification.models import planted
from tsc_interp import certify
from tsc_interp.verification import CertificateError
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker import model as checker_model
from tsc_interp.verification.checker import rounding as checker_rounding
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.kernel import UNKNOWN

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
    assert not kernel.is_positive(nothing)
    assert not kernel.is_not_positive(nothing)
    for other in (arb(-3), arb(0), arb(7), nothing):
        assert not kernel.is_less(nothing, other)
        assert not kernel.is_less(other, nothing)
        assert not kernel.is_at_most(nothing, other)
        assert not kernel.is_at_most(other, nothing)


@pytest.mark.parametrize("nothing", NOTHING_KNOWN, ids=str)
def test_what_is_not_known_stays_unknown(nothing: Any) -> None:
    assert not kernel.hull([arb(1), nothing]).is_finite()
    assert not kernel.hull([nothing, arb(1)]).is_finite()
    for function in (kernel.square, kernel.root):
        assert not function(nothing).is_finite()
    for name in precise.ACTIVATIONS:
        assert not kernel.activation(name, nothing).is_finite()
    assert not kernel.clamp(nothing, arb(2)).is_finite()
    pair = (arb(1), arb(2))
    for column in ([nothing, arb(1)], [arb(1), nothing]):
        assert not kernel.means([pair, pair], [column])[0].is_finite()
    assert not kernel.means([pair], [[nothing]])[0].is_finite()


def test_no_balls_no_hull() -> None:
    assert not kernel.hull([]).is_finite()
    assert not UNKNOWN.is_finite()


def test_a_ball_across_zero_has_no_sign() -> None:
    across = ball(-1, 2)
    assert not kernel.is_positive(across)
    assert not kernel.is_not_positive(across)
    assert kernel.is_not_positive(arb(0))
    assert not kernel.is_positive(arb(0))
    assert kernel.is_at_most(arb(2), arb(2))
    assert not kernel.is_less(arb(2), arb(2))
    assert kernel.is_less(arb(1), arb(2))
    assert not kernel.is_at_most(ball(1, 1), ball(1.5, 1))


def test_weights_that_are_not_known_leave_the_values_hull() -> None:
    """Σ w v / Σ w lies among the values whatever the weights are, as long as they are weights."""
    for nothing in NOTHING_KNOWN:
        (mean,) = kernel.means([(nothing, nothing), (arb(1), arb(1))], [[arb(-2), arb(5)]])
        assert encloses(mean, mpmath.mpf(-2))
        assert encloses(mean, mpmath.mpf(5))
    (mean,) = kernel.means([(arb(0), arb(9)), (arb(0), arb(9))], [[arb(-2), arb(5)]])
    assert encloses(mean, mpmath.mpf(-2))
    assert encloses(mean, mpmath.mpf(5))


def test_numbers_without_a_partner_are_no_scalar_product() -> None:
    assert kernel.dot([arb(2), arb(3)], [arb(5), arb(7)]) == 31
    for one, other in (([arb(2)], [arb(5), arb(7)]), ([arb(2), arb(3)], [arb(5)])):
        with pytest.raises(ValueError, match=r"shorter|longer"):
            kernel.dot(one, other)


# -- bounds --------------------------------------------------------------------------------------


@given(st.lists(st.tuples(ENDS, WIDTHS), min_size=1, max_size=4))
def test_hull(balls: list[tuple[float, float]]) -> None:
    whole = kernel.hull([ball(*one) for one in balls])
    assert all(encloses(whole, x) for one in balls for x in inside(*one))


@given(ENDS, WIDTHS)
def test_square(low: float, width: float) -> None:
    bound = kernel.square(ball(low, width))
    assert all(encloses(bound, x * x) for x in inside(low, width))
    if low > 0:
        assert _rational(bound.upper()) <= (mpmath.mpf(low) + width) ** 2 * (1 + mpmath.mpf(1e-6))


@given(ENDS, WIDTHS)
def test_root(low: float, width: float) -> None:
    bound = kernel.root(ball(low, width))
    if low + width < 0:
        assert not bound.is_finite()
    else:
        assert all(encloses(bound, mpmath.sqrt(x)) for x in inside(low, width) if x >= 0)


def test_the_root_of_a_ball_that_rounding_pushed_below_zero() -> None:
    """[0, 10^12] as a ball begins at about -1000; its root is still known."""
    wide = arb(0).union(arb(10**12)) + arb(1e-5)
    assert wide.lower() < 0
    assert encloses(kernel.root(wide), mpmath.mpf(10**6))
    assert encloses(kernel.root(wide), mpmath.sqrt(mpmath.mpf(1e-5)))
    assert float(kernel.root(wide).upper()) < 1.01e6


@given(ENDS, WIDTHS, st.floats(1e-3, 1e3))
def test_clamp(low: float, width: float, most: float) -> None:
    bound = kernel.clamp(ball(low, width), arb(most))
    assert all(encloses(bound, x) for x in inside(low, width) if abs(x) <= most)
    if -most <= low + width and low <= most:
        assert float(bound.abs_upper()) <= most * (1 + 1e-6)


@given(ENDS, WIDTHS)
@example(-1e40, 0.0)
@example(-800.0, 10.0)
def test_exp_range(low: float, width: float) -> None:
    least, most = kernel.exp_range(ball(low, width))
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
    bound, truth = kernel.activation(name, ball(low, width)), precise.ACTIVATIONS[name]
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


TOKEN = st.tuples(
    st.one_of(st.floats(0, 9), st.sampled_from([0.0, 1e-300, 1e300])),
    st.one_of(st.just(0.0), st.floats(0, 5), st.just(1e299)),
    st.one_of(st.floats(-3, 3), st.sampled_from([0.0, 1e200, -1e200, 1.0, 1.0 + 2**-52])),
    st.one_of(st.just(0.0), st.floats(0, 1)),
)


@given(st.lists(TOKEN, min_size=1, max_size=5))
def test_means_are_enclosed_and_attained(tokens: list[tuple[float, float, float, float]]) -> None:
    """Against every corner of weights and values: the mean is linear-fractional in both."""
    if not any(light + extra > 0 for light, extra, _, _ in tokens):
        return
    weights = [(arb(light), arb(light) + arb(extra)) for light, extra, _, _ in tokens]
    (bound,) = kernel.means(weights, [[ball(value, width) for _, _, value, width in tokens]])
    corners = []
    exact = mpmath.mpf
    for picked in product((0, 1), repeat=len(tokens)):
        w = [exact(t[0]) + (exact(t[1]) if p else 0) for t, p in zip(tokens, picked, strict=True)]
        if sum(w) > 0:
            low = sum(x * exact(t[2]) for x, t in zip(w, tokens, strict=True)) / sum(w)
            wide = sum(x * exact(t[3]) for x, t in zip(w, tokens, strict=True)) / sum(w)
            corners += [low, low + wide]
    assert all(encloses(bound, mean) for mean in corners)
    if all(light > 1e-3 for light, _, _, _ in tokens):
        size = 1e-7 * max(1, *(abs(t[2]) for t in tokens))
        assert abs(_rational(bound.upper()) - max(corners)) <= size
        assert abs(_rational(bound.lower()) - min(corners)) <= size


# -- used everywhere -----------------------------------------------------------------------------


@pytest.mark.parametrize("module", [checker_model, checker_rounding], ids=["model", "rounding"])
def test_the_checkers_model_compares_nothing_itself(module: Any) -> None:
    tree = ast.parse(Path(module.__file__ or "").read_text())
    order = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    compared = [n for n in ast.walk(tree) if isinstance(n, ast.Compare)]
    assert not [n.lineno for n in compared if any(isinstance(op, order) for op in n.ops)]
    called = {n.func.id for n in ast.walk(tree)
              if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}  # fmt: skip
    # (abs of a ball is a ball; its bounds need not be tight.)
    sizes = {"abs"} if module is checker_model else set()
    assert not called & {"min", "max", "sorted", "float", *sizes}
    used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    ends = {"exp"} if module is checker_model else set()
    assert not used & {"intersection", "lower", "abs_lower", "abs_upper", "sqrt_", *ends}


class _Untouchable:
    """A logit that only the kernel may look at."""

    def _refuse(self, *_: Any) -> bool:
        raise AssertionError("the checker compared a ball by itself")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __bool__ = _refuse  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> _Untouchable:
        return self


def test_the_checker_judges_by_the_kernel_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = planted(6, c_score=-1.0)
    claims = certify(checkpoint).document["claims"]
    assert {c["kind"] for c in claims} == {"wrong", "right_up_to", "right_at_all_lengths"}
    for name in ("count_box", "ratio_box", "limit", "tail"):
        monkeypatch.setattr(checker_model.BoxModel, name, lambda *_: _Untouchable())
    for answer in (True, False):
        for name in ("is_positive", "is_not_positive", "is_at_most", "is_less"):
            monkeypatch.setattr(kernel, name, lambda *_, answer=answer: answer)
        for claim in claims:
            if claim["kind"] == "wrong":
                continue
            if answer:
                assert Checker(checkpoint).derive([claim])
            else:
                with pytest.raises(CertificateError):
                    Checker(checkpoint).derive([claim])
