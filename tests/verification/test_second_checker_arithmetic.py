"""The second checker's enclosures: they hold the truth, computed by `arb`, and are tight.

Truth is `flint.arb` with 1,200 bits or more, exact fractions, or brute force.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verification.rational import rational

P = 192
ONE = 1 << P
DIP = -0.7517915246935645

Pair = tuple[int, int]


def ball(x: int, p: int = P) -> Any:
    return arb(fmpq(x, 1 << p))


def assert_encloses(ends: Pair, truth: Any, p: int = P, relative: int = 100) -> None:
    """The ends lie around the truth, no further apart than a few units or 2^-relative of it."""
    low, high = ends
    assert ball(low, p) <= truth.upper()
    assert truth.lower() <= ball(high, p)
    assert not ball(low, p) > truth
    assert not ball(high, p) < truth
    assert high - low <= 3 + abs(low >> relative)


def reals(limit: float, p: int = P) -> st.SearchStrategy[int]:
    """Integers x for x / 2^p: any magnitude down to one unit, both signs, and simple numbers."""
    top = int(limit * 2**40) << (p - 40)
    sized = st.integers(0, top.bit_length()).flatmap(lambda bits: st.integers(0, 1 << bits))
    spread = sized.map(lambda x: min(x, top))
    plain = st.floats(0, limit).map(lambda x: int(Fraction(x) * (1 << p)))
    return st.builds(lambda x, s: s * x, spread | plain, st.sampled_from([-1, 1]))


# -- functions -----------------------------------------------------------------------------------


@settings(max_examples=150)
@given(reals(P))
def test_exp(x: int) -> None:
    with ctx.workprec(1200):
        assert_encloses(rational.exp_bounds(x, P), ball(x).exp())


@pytest.mark.parametrize("p", [149, 192, 1024])
def test_exp_at_its_limits(p: int) -> None:
    cap = p << p
    with ctx.workprec(4 * p + 400):
        for x in (0, 1, -1, cap, -cap, cap - 1, 1 - cap):
            assert_encloses(rational.exp_bounds(x, p), ball(x, p).exp(), p)
        low, high = rational.exp_bounds(cap + 1, p)
        assert high is None
        assert ball(low, p) < ball(cap + 1, p).exp()
        assert rational.exp_bounds(-cap - 1, p) == (0, 1)
        assert ball(-cap - 1, p).exp() < ball(1, p)
        assert rational.exp_bounds(-(10**400) * cap, p) == (0, 1)


@given(st.integers(1, 10**13) | st.integers(0, 60).map(lambda e: 2**e) | st.integers(1, 300))
def test_log(n: int) -> None:
    with ctx.workprec(1200):
        assert_encloses(rational.log_bounds(n, P), arb(n).log())
        assert_encloses(rational.log_bounds(n, 1024), arb(n).log(), 1024)


def gelu(x: Any) -> Any:
    return x * (-x / arb(2).sqrt()).erfc() / 2


@settings(max_examples=150)
@given(reals(40) | reals(1e9))
def test_gelu(x: int) -> None:
    with ctx.workprec(1600):
        assert_encloses(rational.gelu_bounds(x, P), gelu(ball(x)))


@pytest.mark.parametrize("p", [149, 192, 1024])
def test_gelu_where_it_changes_its_method(p: int) -> None:
    """At zero, at the dip, and where the asymptotic bound takes over: a^2 / 2 = p."""
    edge = math.isqrt(2 * p << 2 * p)
    dip = int(Fraction(DIP) * (1 << p))
    with ctx.workprec(6 * p + 400):
        for centre in (0, edge, -edge, dip, -dip, 3 << p, -(3 << p), edge - (1 << p), 1 - edge):
            for x in (centre - 1, centre, centre + 1):
                assert_encloses(rational.gelu_bounds(x, p), gelu(ball(x, p)), p)


@settings(max_examples=150)
@given(reals(9), reals(9), st.lists(st.fractions(0, 1), max_size=6))
def test_gelu_over_intervals(a: int, b: int, inside: list[Fraction]) -> None:
    """It holds gelu at every point, and its upper end is attained; so is the lower, to 10^-17."""
    lo, hi = min(a, b), max(a, b)
    low, high = rational.gelu((lo, hi), P)
    with ctx.workprec(1200):
        points = [lo, hi, *(lo + int((hi - lo) * part) for part in inside)]
        dip = int(Fraction(DIP) * ONE)
        points += [dip] if lo <= dip <= hi else []
        values = [gelu(ball(x)) for x in points]
        assert all(ball(low) <= v.upper() and v.lower() <= ball(high) for v in values)
        ends = [gelu(ball(lo)), gelu(ball(hi))]
        top = ends[0] if ends[0] > ends[1] else ends[1]
        assert ball(high) - top < ball(4)
        at_dip = gelu(arb(DIP))
        inner = [*ends, *([at_dip] if lo <= dip <= hi else [])]
        least = min(inner, key=lambda v: float(v.mid()))
        near = abs(dip - lo) < ONE // 10**8 or abs(dip - hi) < ONE // 10**8
        assert near or least - ball(low) < arb(1e-17)


@contextmanager
def guard_bits(bits: int) -> Iterator[None]:
    """Fewer guard bits, so that a result rounded the wrong way shows."""
    usual = rational.GUARD
    cached = rational.exp_bounds, rational.bell_bounds, rational.gelu_bounds
    rational.GUARD = bits
    for function in cached:
        function.cache_clear()
    try:
        yield
    finally:
        rational.GUARD = usual
        for function in cached:
            function.cache_clear()


@settings(max_examples=300)
@given(st.integers(0, 3), st.integers(4, 24), st.data())
def test_enclosures_hold_without_guard_bits(guard: int, p: int, data: Any) -> None:
    """Soundness owes nothing to spare precision: every step rounds outwards by itself."""
    x = data.draw(st.integers(-(p << p), p << p))
    n = data.draw(st.integers(1, 10**6))
    z = data.draw(st.integers(0, 999))
    with guard_bits(guard), ctx.workprec(600):
        a = min(abs(x), math.isqrt(2 * p << 2 * p) - 1)
        bell = (arb(2).sqrt() * (ball(a, p) / arb(2).sqrt()).erf()) * arb.pi().sqrt() / 2
        for (low, high), truth in (
            (rational.exp_bounds(x, p), ball(x, p).exp()),
            (rational.log_bounds(n, p), arb(n).log()),
            (rational.artanh_bounds(z, 3000, p), arb(fmpq(z, 3000)).atanh()),
            (rational.bell_bounds(a, p), bell),
            (rational.gelu_bounds(x, p), gelu(ball(x, p))),
        ):
            assert not ball(low, p) > truth
            assert not ball(high, p) < truth


# -- means ---------------------------------------------------------------------------------------


def mean(weights: Any, column: Any) -> Any:
    """The weighted mean of intervals over a box."""
    box = rational.Box(range(len(column)), [(1, 1)] * len(column))
    return rational.Model.mean(None, box, list(weights), column)


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_the_mean_over_paths(seed: int, length: int, large: bool) -> None:
    """Against every path in exact fractions; it is attained but for what values are rounded."""
    draw, states, stages, key = random.Random(seed), [0], [], 1
    for _ in range(length):
        after, stage = range(draw.choice([1, 2, 3])), []
        for source, target in product(states, after):
            for _ in range(draw.choice([1, 1, 2])):
                stage.append((source, target, [key]))
                key += 1
        states, stages = list(after), [*stages, stage]
    light = {k: draw.randint(1, 10**30 if large else 9) for k in range(key)}
    weights = {k: (w, w + draw.randint(0, w)) for k, w in light.items()}
    tops = {k: draw.randint(-(10**40), 10**40) for k in range(key)}
    paths = rational.Paths(stages, [0], None)
    bound = paths.highest(weights, [tops[k] for k in paths.keys])
    means = []
    for edges in product(*stages):
        ends = [0, *(edge[1] for edge in edges)]
        if all(edge[0] == end for edge, end in zip(edges, ends, strict=False)):
            used = [0, *(k for edge in edges for k in edge[2])]
            for corner in product(*(weights[k] for k in used)):
                total = sum(w * tops[k] for w, k in zip(corner, used, strict=True))
                means.append(Fraction(total, sum(corner)))
    assert max(means) <= bound <= max(means) + 2 + (abs(bound) >> 20)


@settings(max_examples=100)
@given(reals(9), reals(9), st.sampled_from([0, 1]), st.lists(st.fractions(0, 1), max_size=5))
def test_activations_lie_beside_their_chord(a: int, b: int, bent: int, at: list[Fraction]) -> None:
    lo, hi = min(a, b), max(a, b)
    model = rational.Model.__new__(rational.Model)
    model.p, model.act = P, rational.gelu if bent else rational.relu
    (slope, _), (low, high) = model.chord((lo, hi))
    with ctx.workprec(1200):
        for part in [Fraction(0), Fraction(1), Fraction(1, 32), *at]:
            x = ball(lo + int((hi - lo) * part))
            rest = (gelu(x) if bent else (x if x > 0 else arb(0))) - ball(slope) * x
            assert not ball(low) > rest
            assert not ball(high) < rest


sides = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (min(pair), max(pair)))
signed = st.tuples(st.integers(-99, 99), st.integers(0, 30)).map(lambda v: (v[0], v[0] + v[1]))


@given(st.lists(st.tuples(sides, signed), min_size=1, max_size=5))
def test_the_mean_is_extreme_at_a_corner(keys: list[tuple[Pair, Pair]]) -> None:
    """Against all 2^n corners in exact fractions."""
    weights, values = [w for w, _ in keys], [v for _, v in keys]
    low, high = mean(weights, values)
    corners = [corner for corner in product(*weights) if sum(corner)]
    if not corners:
        assert (low, high) == (min(v[0] for v in values), max(v[1] for v in values))
        return

    def at_corner(corner: tuple[int, ...], end: int) -> Fraction:
        return Fraction(sum(w * v[end] for w, v in zip(corner, values, strict=True)), sum(corner))

    least, most = min(at_corner(c, 0) for c in corners), max(at_corner(c, 1) for c in corners)
    assert low <= least
    assert most <= high
    if any(light for light, _ in weights):
        assert least - low < 1
        assert high - most < 1


@given(st.lists(st.tuples(sides, signed, st.booleans()), min_size=1, max_size=5), st.data())
def test_a_weight_without_upper_end(keys: list[tuple[Pair, Pair, bool]], data: Any) -> None:
    """Whatever it weighs, the mean stays inside."""
    weights = [(w[0], None if free else w[1]) for w, _, free in keys]
    values = [v for _, v, _ in keys]
    low, high = mean(weights, values)
    chosen = [data.draw(st.integers(w[0], 10**9 if w[1] is None else w[1])) for w in weights]
    if sum(chosen):
        at = [data.draw(st.integers(*v)) for v in values]
        truth = Fraction(sum(w * v for w, v in zip(chosen, at, strict=True)), sum(chosen))
        assert low <= truth <= high


scores = st.lists(st.tuples(st.floats(-30, 30), st.floats(0, 3)), min_size=1, max_size=4)


def _fixed(x: float) -> int:
    return int(Fraction(x) * ONE)


@settings(max_examples=60)
@given(scores, st.data())
def test_attention_holds_every_string_of_a_box(given: list[Any], data: Any) -> None:
    """Scores, counts and log n drawn from their ranges; softmax by `arb`."""
    ranges = [(_fixed(a), _fixed(a) + _fixed(w)) for a, w in given]
    low = [data.draw(st.integers(1, 9)) for _ in ranges]
    high = [n + data.draw(st.integers(0, 90)) for n in low]
    logs = rational.log_bounds(sum(low), P)[0], rational.log_bounds(sum(high), P)[1]
    ends = [(a * ONE, b * ONE) for a, b in zip(low, high, strict=True)]
    weights = list(rational.attention_weights(ranges, ends, logs, False, P))
    counts = [data.draw(st.integers(a, b)) for a, b in zip(low, high, strict=True)]
    _assert_held(weights, ranges, counts, data)


@settings(max_examples=60)
@given(scores, st.integers(2, 40), st.data())
def test_attention_holds_every_string_of_a_tail(given: list[Any], start: int, data: Any) -> None:
    ranges = [(_fixed(a), _fixed(a) + _fixed(w)) for a, w in given]
    logs = rational.log_bounds(start, P)
    weights = list(rational.attention_weights(ranges, [], logs, True, P))
    counts = [data.draw(st.integers(1, 10**4)) for _ in ranges]
    counts[0] += max(0, start - sum(counts))
    _assert_held(weights, ranges, counts, data)


def _assert_held(weights: Any, ranges: list[Pair], counts: list[int], data: Any) -> None:
    at = [ball(data.draw(st.integers(*r))) for r in ranges]
    values = [data.draw(st.integers(-99, 99)) for _ in ranges]
    low, high = mean(weights, [(v * ONE, v * ONE) for v in values])
    with ctx.workprec(1200):
        n = arb(sum(counts)).log()
        mass = [m * (s * n).exp() for m, s in zip(counts, at, strict=True)]
        truth = sum((w * v for w, v in zip(mass, values, strict=True)), arb(0)) / sum(mass, arb(0))
        assert not ball(low) > truth
        assert not ball(high) < truth


# -- scalar products ----------------------------------------------------------------------------


ranges = st.tuples(st.integers(-(1 << 70), 1 << 70), st.integers(0, 1 << 70))
intervals = ranges.map(lambda pair: (pair[0], pair[0] + pair[1])) | ranges.map(lambda v: v[:1] * 2)


@given(st.lists(st.tuples(intervals, intervals), min_size=1, max_size=4))
def test_scalar_products(pairs: list[tuple[Pair, Pair]]) -> None:
    """Each term is extreme at a corner; the sum is rounded outwards by less than a unit."""
    low, high = rational.dot([a for a, _ in pairs], [b for _, b in pairs], 60)
    terms = [[Fraction(x * y, 1 << 60) for x, y in product(*pair)] for pair in pairs]
    least, most = sum(min(term) for term in terms), sum(max(term) for term in terms)
    assert low <= least < low + 1
    assert high - 1 < most <= high
