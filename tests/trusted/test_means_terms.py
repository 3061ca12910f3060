"""Every term of the bound on a head's mean, against fractions written out by hand.

The tests of test_means.py hold bounds against every path; a term that is small beside the
others could shrink there unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from tests.trusted.test_means import LENGTH, LETTERS, D, head_of, highest, one_path, some_sets
from tests.trusted.test_means import means as means_of
from tsc_interp.tasks import Addition
from tsc_interp.trusted import balls, means
from tsc_interp.trusted.means import Sums, together
from tsc_interp.trusted.order import Keys
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.spans import Span

UNIT = Fraction(1, 2**52)
ZERO = Span.exact(np.zeros(D))


def exact(x: Any) -> Fraction:
    return Fraction(float(x))


def near(found: Any, expected: Fraction, units: int = 12) -> None:
    """At least what the formula says, and hardly more."""
    assert expected <= exact(found) <= expected + abs(expected) * units * UNIT


def together_of(heads: Sequence[Sums], low: Sequence[Any], high: Sequence[Any]) -> Any:
    """Heads whose means are known to lie between these."""
    q = np.zeros(heads[0].total.shape)

    def sums(head: int, along: Any) -> Any:
        return heads[head] if along is q else SimpleNamespace(bound=lambda _: -low[head])

    return together(sums, high, q)


def wide_keys(seed: int, length: int, letters: int, own: bool, size: float = 1.0) -> Keys:
    """Weights from 0.2 to 1 and values of any sign, all known to a tenth only."""
    noise = np.random.default_rng(seed)
    shape = (length * letters + own, 1 + D)
    middle = noise.uniform(0.2, 1.0, size=shape) * size
    middle[:, 1:] *= noise.choice([-1, 1], size=(len(middle), D))
    off = np.abs(middle) * noise.uniform(0.05, 0.1, size=shape)
    return Keys(length, letters, own, [Span(middle - off, middle + off)], ZERO, ZERO)


def test_a_key_has_room_for_its_range_and_for_what_sums_round() -> None:
    """Products over d coordinates, two numbers for each place, one for each head, and 16."""
    middle = np.array([0.75, -0.5, 3.0, 0.25, -2.0, 1.0])
    off = np.array([0.125, 0.25, 0.0, 0.25, 1.0, 0.0])
    for length, heads in ((1, 1), (4, 1), (4, 70)):
        table = Span(np.tile(middle - off, (length, 1)), np.tile(middle + off, (length, 1)))
        keys = Keys(length, 1, False, [table] * heads, ZERO, ZERO)
        assert exact(keys.units) == (D + 2 * length + heads + 16) * UNIT
        for item in range(1 + D):
            radius = exact(table.radius[0, item])
            size = abs(exact(middle[item])) + radius
            near(keys.slack[0, 0, item], radius + size * 2 * exact(keys.units), 4)


@pytest.mark.parametrize("own", [False, True])
def test_a_set_has_the_most_room_of_each_place(own: bool) -> None:
    keys, used = wide_keys(1, 3, 2, own), np.ones((2, 3, 2), dtype=bool)
    used[1, :, 0] = [False, True, False]
    used[1, 1, 1] = False
    chosen = [[(0, 1), (0, 1), (0, 1)], [(1,), (0,), (1,)]]
    for row, letters in enumerate(chosen):
        for item in range(1 + D):
            room = keys.slack[0, :, item]
            total = sum(max(exact(room[2 * p + i]) for i in here) for p, here in enumerate(letters))
            total += sum(map(exact, room[6:]))
            near(keys.slacks(0, used)[row, item], total * (1 + exact(keys.units)))


@pytest.mark.parametrize("own", [False, True])
def test_the_lightest_and_the_heaviest_path(own: bool) -> None:
    sets = Sets.whole(some_sets(3).trellis)
    keys = wide_keys(2, LENGTH, LETTERS, own, size=0.5)
    least, most = head_of(sets, [keys], 0, np.ones((1, 1, D))).masses
    room = exact(keys.slacks(0, sets.used(LETTERS))[0, 0])
    mine = exact(keys.own_weight[0])
    weights = [[exact(w) for w in row] for row in keys.weight[0]]
    near(-least[0, 0], -(mine + sum(map(min, weights)) - room))
    near(most[0, 0], mine + sum(map(max, weights)) + room)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("level", [-3.0, -0.5, 0.5, 3.0])
def test_a_level_and_what_exceeds_it(seed: int, level: float, monkeypatch: Any) -> None:
    """λ + (Σ w v - λ Σ w + room) over the least weight if that is above zero, else the largest."""
    length, own = 3, bool(seed % 2)
    keys = wide_keys(seed, length, 1, own, size=2.0 if seed < 3 else 0.25)
    q = np.random.default_rng(seed).choice([-0.5, 0.25, 1.0], size=(1, 1, D))
    room = [exact(x) for x in keys.slacks(0, np.ones((1, length, 1), dtype=bool))[0]]
    weight = exact(keys.own_weight[0]) + sum(exact(w) for w in keys.weight[0, :, 0])
    total, wide = -exact(level) * weight, abs(exact(level)) * room[0]
    for i in range(D):
        moment = exact(keys.own_moment[0, i]) + sum(exact(m) for m in keys.moment[0, i, :, 0])
        total += exact(q[0, 0, i]) * moment
        wide += abs(exact(q[0, 0, i])) * room[1 + i]
    excess = total + wide * (1 + exact(keys.units))
    expected = exact(level) + excess / (weight - room[0] if excess > 0 else weight + room[0])
    monkeypatch.setattr(means, "_SWEEPS", 1)
    found = highest(one_path(length), [keys], q, np.full((1, 1), level))[0, 0]
    size = (abs(excess) + wide) / (weight - room[0]) + abs(exact(level))
    assert expected <= exact(found) <= expected + 20 * UNIT * size


def test_fixed_letters_are_heard() -> None:
    trellis = Addition(digits=1, base=3).step_trellis(1)
    assert trellis.fixed
    letters = 5
    noise = np.random.default_rng(3)
    w = np.exp(noise.normal(size=(trellis.length * letters, 1)))
    table = np.concatenate([w, w * noise.normal(size=(len(w), D))], axis=1)
    keys = Keys(trellis.length, letters, False, [Span.exact(table)], ZERO, ZERO)
    sets, q = Sets.whole(trellis), noise.normal(size=(1, 4, D))
    bound = highest(sets, [keys], q)
    for row in range(4):
        best = max(means_of(sets, 0, keys, q[0, row]))
        assert best - 1e-12 <= bound[0, row] <= best + 1e-8


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("gap", [600, 720, 730, 737.5, 740, 744])
def test_weights_that_all_but_vanish(gap: float, heads: int) -> None:
    """Products with them underflow, one by one: what is lost so is more than their room."""
    length, d = 20, 8
    with ctx.workprec(96):
        weight = Span.of([[balls.hull(balls.exp_range(arb(-gap)))]] * length)
    moment = weight * Span.exact(np.ones((length, d)))
    ends = [np.concatenate(pair, axis=1) for pair in zip(*_ends(weight, moment), strict=True)]
    zero = Span.exact(np.zeros(d))
    keys = Keys(length, 1, False, [Span(*ends)] * heads, zero, zero)
    for q in (0.04, 0.01, 0.001, 0.0004):
        part = np.full((1, 1, d), q)
        level = np.full((1, 1), 0.7 * q * d * heads)
        for enough in (None, level):
            with np.errstate(all="ignore"):
                found = highest(one_path(length), [keys], part, enough)[0, 0]
            assert not found < q * d * heads
    if gap == 600:  # further up nothing is lost
        assert highest(one_path(length), [keys], part)[0, 0] < q * d * heads * (1 + 1e-12)


@pytest.mark.parametrize("heads", [1, 2])
def test_underflow_counts_where_nothing_is_added(heads: int) -> None:
    """Once for each head, over its weight; once more where heads are added up."""
    table = np.zeros((2, 1 + D))
    table[:, 0] = 0.5
    keys = Keys(2, 1, False, [Span.exact(table)] * heads, ZERO, ZERO)
    found = highest(one_path(2), [keys], np.ones((1, 1, D)))[0, 0]
    assert found == pytest.approx(heads * 1e-300, rel=1e-9, abs=0)
    each = [head_of(one_path(2), [keys], head, np.ones((1, 1, D))) for head in range(heads)]
    nothing = [np.zeros((1, 1))] * heads
    both = together_of(each, nothing, nothing)[0, 0]
    assert both == pytest.approx((heads + 1) * 1e-300, rel=1e-9, abs=0)


def _ends(*spans: Span) -> list[tuple[Any, Any]]:
    return [(span.low, span.high) for span in spans]


@pytest.mark.parametrize("seed", range(8))
def test_every_term_of_the_bound_on_headstogether_of(seed: int) -> None:
    """Σ λ + T / M + room / M + |mean - λ| |1 - W / M|, M and λ the middles of what is known."""
    length, own, noise = 3, bool(seed % 2), np.random.default_rng(seed)
    tables = [wide_keys(10 * seed + head, length, 1, own, size=2.0**-head) for head in range(3)]
    keys = Keys(length, 1, own, [table_of(key) for key in tables], ZERO, ZERO)
    q = noise.choice([-0.5, 0.25, 1.0], size=(1, 1, D))
    heads = [head_of(one_path(length), [keys], head, q) for head in range(3)]
    low = [noise.uniform(-2, 1, size=(1, 1)) for _ in heads]
    high = [least + noise.uniform(0, 1, size=(1, 1)) for least in low]
    expected = size = Fraction(0)
    for number, (head, least, most) in enumerate(zip(heads, low, high, strict=True)):
        head.units = 2.0**-10  # as large as other terms, so that it cannot shrink unseen
        light, heavy = (exact(end[0, 0]) for end in head.masses)
        assert light < heavy
        level = exact(least[0, 0] / 2 + most[0, 0] / 2)
        mass = exact(float(light) / 2 + float(heavy) / 2)
        weight = exact(keys.own_weight[number])
        weight += sum(exact(w) for w in keys.weight[number, :, 0])
        total = -level * weight
        for i in range(D):
            moment = exact(keys.own_moment[number, i])
            moment += sum(exact(m) for m in keys.moment[number, i, :, 0])
            total += exact(q[0, 0, i]) * moment
        room = keys.slacks(number, np.ones((1, length, 1), dtype=bool))[0]
        wide = sum(abs(exact(q[0, 0, i])) * exact(room[1 + i]) for i in range(D))
        wide = (wide + abs(level) * exact(room[0])) * (1 + exact(head.units))
        away = max(exact(most[0, 0]) - level, level - exact(least[0, 0]))
        share = max(heavy / mass - 1, 1 - light / mass)
        expected += level + (total + wide) / mass + away * share
        size += abs(level) + (abs(total) + wide) / mass + 1
    found = exact(together_of(heads, low, high)[0, 0])
    assert expected - 2 * UNIT * size <= found <= expected + 60 * UNIT * size


@pytest.mark.parametrize("mass", [2.0**-600, 2.0**600])
def test_heads_together_have_room_for_what_underflows(mass: float) -> None:
    """Products before the division by a mass, which makes them larger, and quotients after it."""
    table = np.zeros((3, 1 + D))
    table[:, 0] = mass
    keys = Keys(3, 1, False, [Span.exact(table)] * 2, ZERO, ZERO)
    heads = [head_of(one_path(3), [keys], head, np.zeros((1, 1, D))) for head in range(2)]
    nothing = [np.zeros((1, 1))] * 2
    assert together_of(heads, nothing, nothing)[0, 0] >= 1e-300 * max(1.0, 0.3 / mass)


def test_weights_that_are_not_known_leave_heads_apart() -> None:
    """A weight that may be zero: no M is known, and the sum of single bounds is no number."""
    keys = wide_keys(1, 3, 1, False)
    table = table_of(keys)
    faint = Span(np.where(np.arange(1 + D) == 0, -1.0, table.low), table.high)
    both = Keys(3, 1, False, [table, faint], ZERO, ZERO)
    with np.errstate(all="ignore"):
        assert np.isnan(highest(one_path(3), [both], np.ones((1, 1, D)))).all()


def table_of(keys: Keys) -> Span:
    """The table that keys of one head were made of, near enough."""
    length, letters = keys.weight.shape[1:]
    shape = length * letters
    moments = np.moveaxis(keys.moment[0], 0, 2).reshape(shape, D)
    rows = np.concatenate([keys.weight[0].reshape(shape, 1), moments], axis=1)
    if len(keys.slack[0]) > shape:
        rows = np.concatenate([rows, [[keys.own_weight[0], *keys.own_moment[0]]]])
    return Span(rows - keys.slack[0], rows + keys.slack[0])
