"""Sets of paths: counts, labels, first paths; and the largest mean of a head over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trusted.paths import strings
from tests.verification.test_trellis_search import random_automaton
from tsc_interp.tasks import Addition, trellis_of
from tsc_interp.tasks.trellis import Stage, Trellis
from tsc_interp.trusted import order
from tsc_interp.trusted.means import Sums
from tsc_interp.trusted.order import Keys, PathRegions
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.spans import Span

LETTERS, LENGTH, D = 3, 4, 5


@pytest.fixture(autouse=True)
def what_is_no_number_is_expected() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def head_of(sets: Sets, keys: Sequence[Keys], head: int, q: Any) -> Sums:
    """What a head adds up to."""
    return PathRegions(sets, keys).sums(head, q)


def highest(sets: Sets, keys: Sequence[Keys], q: Any, enough: Any = None) -> Any:
    """Above every mean of every set."""
    return PathRegions(sets, keys).highest(q, enough)


def some_sets(seed: int, count: int = 5) -> Sets:
    task = random_automaton(LETTERS, 3, seed)
    trellis = trellis_of(task, LETTERS, LENGTH)
    noise = np.random.default_rng(seed)
    return Sets(trellis, [noise.random((count, len(stage))) < 0.8 for stage in trellis.stages])


def brute(sets: Sets, which: int) -> list[tuple[tuple[int, ...], int]]:
    """Every path of a set with its label, by trying all edges."""
    trellis, found = sets.trellis, []
    for edges in product(*(np.flatnonzero(mask[which]).tolist() for mask in sets.masks)):
        state, row, label = 0, dict(trellis.fixed), -1
        for number, edge in enumerate(edges):
            stage = trellis.stages[number]
            if stage.source[edge] != state:
                break
            state = int(stage.target[edge])
            row |= dict(zip(stage.places, stage.letters[edge].tolist(), strict=True))
            label = int(trellis.label[edge]) if number == trellis.label_stage else label
        else:
            found.append((tuple(row[place] for place in range(trellis.length)), label))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_sets_know_their_paths(seed: int) -> None:
    sets = some_sets(seed)
    known = [brute(sets, i) for i in range(len(sets))]
    assert sets.counts() == [len(one) for one in known]
    assert sets.has_paths.tolist() == [bool(one) for one in known]
    for i, one in enumerate(known):
        assert sorted(strings(sets, i)) == sorted(one)
        labels = {label for _, label in one}
        assert sets.labels()[i] == (labels.pop() if len(labels) == 1 else -1)
        for place in range(LENGTH):
            letters = {string[place] for string, _ in one}
            assert sets.letters_at(place)[i] == (letters.pop() if len(letters) == 1 else -1)
    alive = sets[sets.has_paths]
    if len(alive):
        assert alive.first() == min(string for one in known for string, _ in one)
        # Nothing that lies on no path is kept.
        for number, stage in enumerate(alive.trellis.stages):
            for i, one in enumerate(known):
                used = {tuple(string[p] for p in stage.places) for string, _ in one}
                kept = stage.letters[sets.masks[number][i]].tolist()
                assert {tuple(row) for row in kept} == used


def test_fixed_letters_and_several_places_per_stage() -> None:
    trellis = Addition(digits=2, base=3).step_trellis(1)
    sets = Sets.whole(trellis)
    assert sets.counts() == [81]
    assert len(brute(sets, 0)) == 81
    assert sets.first() == min(string for string, _ in strings(sets, 0))
    for place, letter in trellis.fixed:
        assert sets.letters_at(place).tolist() == [letter]
        empty = Sets(trellis, [mask & False for mask in sets.masks])
        assert empty.letters_at(place).tolist() == [-1]
    assert sets.labels().tolist() == [-1]


def test_counts_are_exact_beyond_float64() -> None:
    assert Sets.whole(Addition(digits=10).step_trellis(9)).counts() == [10**20]


def random_keys(noise: np.random.Generator, own: bool, heads: int = 1, off: float = 0.0) -> Keys:
    count = LENGTH * LETTERS + own
    tables = []
    for _ in range(heads):
        w = np.exp(noise.normal(size=(count, 1)) * 2)
        near = np.concatenate([w, w * noise.normal(size=(count, D))], axis=1)
        tables.append(Span(near - off * np.abs(near), near + off * np.abs(near)))
    zero = Span.exact(np.zeros(D))
    return Keys(LENGTH, LETTERS, own, tables, zero, zero)


def means(sets: Sets, which: int, keys: Keys, q: Any) -> Any:
    """Σ_heads q · Σ w v / Σ w of every path."""
    rows, total = np.array([string for string, _ in strings(sets, which)]), 0.0
    places = np.arange(rows.shape[1])
    for head in range(len(keys.weight)):
        w = keys.weight[head][places, rows].sum(1) + keys.own_weight[head]
        m = keys.moment[head][:, places, rows].sum(2) + keys.own_moment[head][:, None]
        total = total + q @ m / w
    return total


@pytest.mark.parametrize("seed", range(4))
def test_weights_and_rooms_hold_for_every_path(seed: int) -> None:
    """The lightest and heaviest path, each key at its worst, and how far its keys may be off."""
    noise = np.random.default_rng(seed)
    sets, own = Sets.whole(some_sets(seed).trellis), bool(seed % 2)
    keys = random_keys(noise, own, off=1e-3)
    least, most = head_of(sets, [keys], 0, noise.normal(size=(1, 2, D))).masses
    rooms = keys.slacks(0, sets.used(LETTERS))[0]
    mine = keys.own_weight[0] * own
    for string, _ in strings(sets, 0):
        weight = mine + sum(keys.weight[0][place, letter] for place, letter in enumerate(string))
        off = 0.999e-3 * weight
        assert least[0, 0] <= weight - off
        assert weight + off <= most[0, 0]
        rows = [place * LETTERS + letter for place, letter in enumerate(string)]
        each = keys.slack[0][[*rows, *[LENGTH * LETTERS] * own]]
        assert (each.sum(0) <= rooms).all()


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_no_mean_of_a_path_exceeds_its_bound_and_one_meets_it(seed: int) -> None:
    noise = np.random.default_rng(seed)
    sets = some_sets(seed)
    sets = sets[sets.has_paths]
    if not len(sets):
        return
    own = bool(noise.random() < 0.5)
    readers = [random_keys(noise, own) for _ in range(2)]
    keys = [readers[int(noise.integers(2))] for _ in range(len(sets))]
    q = noise.normal(size=(len(sets), 3, D)) * 10 ** noise.uniform(-3, 3)
    bound = highest(sets, keys, q)
    for i in range(len(sets)):
        for row in range(3):
            best = max(means(sets, i, keys[i], q[i, row]))
            size = np.abs(q[i, row]).max()
            assert best - 1e-13 * size <= bound[i, row] <= best + 1e-8 * size
    # Where a bound is asked for, it is found unless no such bound holds.
    best = np.array([[max(means(sets, i, keys[i], one)) for one in q[i]] for i in range(len(sets))])
    gap = 0.01 * np.abs(q).max()
    assert (highest(sets, keys, q, best + gap) < best + gap).all()
    assert (highest(sets, keys, q, best - gap) >= best - 1e-13 * np.abs(q).max()).all()


def test_letters_that_do_not_occur_cost_nothing() -> None:
    """One letter outweighs all others by more than float64 can hold; no path of the set has it."""
    noise = np.random.default_rng(5)
    sets = some_sets(6, 3)
    letter = 0
    masks = [
        mask & (stage.letters != letter).all(1)
        for stage, mask in zip(sets.trellis.stages, sets.masks, strict=True)
    ]
    sets = Sets(sets.trellis, masks)
    sets = sets[sets.has_paths]
    assert len(sets)
    assert not sets.used(LETTERS)[:, list(sets.trellis.place_of), letter].any()
    keys = random_keys(noise, False)
    keys.weight[:, :, letter] *= 1e30
    keys.moment[:, :, :, letter] *= 1e30
    keys.slack.reshape(1, LENGTH, LETTERS, -1)[:, :, letter] *= 1e30
    q = noise.normal(size=(len(sets), 2, D))
    bound = highest(sets, [keys] * len(sets), q)
    for i in range(len(sets)):
        for row in range(2):
            best = max(means(sets, i, keys, q[i, row]))
            assert best - 1e-13 <= bound[i, row] <= best + 1e-8


@pytest.mark.parametrize("at_once", [1, 200, 1 << 22])
def test_heads_add_up_and_rows_may_be_taken_in_parts(at_once: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(order, "_IN_CACHE", at_once)
    noise = np.random.default_rng(4)
    sets = some_sets(6, 3)
    keys = [random_keys(noise, True, heads=2)] * len(sets)
    q = noise.normal(size=(1, 5, D))
    bound = highest(sets, keys, q)
    assert bound.shape == (len(sets), 5)
    for i in np.flatnonzero(sets.has_paths):
        for row in range(5):
            assert bound[i, row] >= max(means(sets, i, keys[0], q[0, row])) - 1e-12
    nothing = Keys(LENGTH, LETTERS, False, [], *[Span.exact(np.zeros(D))] * 2)
    assert (highest(sets, [nothing] * len(sets), q) == 0).all()


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_bounds_hold_for_all_tables_in_their_range(seed: int) -> None:
    noise = np.random.default_rng(seed)
    sets = some_sets(seed, 2)
    sets = sets[sets.has_paths]
    if not len(sets):
        return
    keys = random_keys(noise, True, off=1e-3)
    q = noise.normal(size=(1, 2, D))
    bound = highest(sets, [keys] * len(sets), q)
    near_w, near_m = keys.weight.copy(), keys.moment.copy()
    for _ in range(10):
        keys.weight = near_w * (1 + 1e-3 * noise.choice([-1, 1], size=near_w.shape))
        keys.moment = near_m * (1 + 1e-3 * noise.choice([-1, 1], size=near_m.shape))
        for i in range(len(sets)):
            for row in range(2):
                assert bound[i, row] >= max(means(sets, i, keys, q[0, row])) - 1e-12


def test_a_number_that_is_none_bounds_nothing() -> None:
    sets = some_sets(6, 2)
    for bad in (np.nan, np.inf):
        for item in (0, 1):
            near = np.ones((LENGTH * LETTERS, 1 + D))
            near[3, item] = bad
            keys = Keys(LENGTH, LETTERS, False, [Span.exact(near)], *[Span.exact(np.zeros(D))] * 2)
            q = np.ones((1, 1, D))
            assert not (highest(sets, [keys] * 2, q) < 1e300).any()
            assert not (highest(sets, [keys] * 2, q, np.full((2, 1), 1e6)) < 1e300).any()
    keys = random_keys(np.random.default_rng(0), False)
    level = np.full((2, 1), np.nan)
    assert np.isnan(highest(sets, [keys] * 2, np.ones((1, 1, D)), level)).all()


def test_weights_that_may_vanish_bound_nothing_below_the_largest() -> None:
    near = np.ones((LENGTH * LETTERS, 1 + D))
    table = Span(near * [-1.0, *[1] * D], near)
    keys = Keys(LENGTH, LETTERS, False, [table], *[Span.exact(np.zeros(D))] * 2)
    sets = some_sets(6, 2)
    assert not (highest(sets, [keys] * 2, np.ones((1, 1, D))) < 1e300).any()


def one_path(length: int) -> Sets:
    """A trellis with one letter and one path."""
    zero = np.zeros(1, dtype=np.int64)
    stages = tuple(Stage((place,), zero, zero, zero[:, None]) for place in range(length))
    return Sets.whole(Trellis(length, (), stages, length - 1, zero))


@pytest.mark.parametrize("seed", range(12))
def test_a_bound_is_never_below_the_real_mean(seed: int) -> None:
    """Large and small numbers that cancel: each sum rounds by more than a small one's own."""
    noise = np.random.default_rng(seed)
    length = 60
    w = noise.uniform(0.5, 1.0, size=(length + 1, 1))
    m = noise.normal(size=(length + 1, D)) * 10.0 ** noise.uniform(0, 12, size=(length + 1, 1))
    m[-1] = -m[:-1].sum(0)
    zero = Span.exact(np.zeros(D))
    keys = Keys(length, 1, True, [Span.exact(np.concatenate([w, m], axis=1))], zero, zero)
    q = noise.normal(size=(1, 1, D))
    total = sum(
        Fraction(float(q[0, 0, i])) * Fraction(float(value))
        for row in m
        for i, value in enumerate(row)
    )
    real = total / sum(Fraction(float(one)) for one in w[:, 0])
    bound = Fraction(float(highest(one_path(length), [keys], q)[0, 0]))
    assert real <= bound
    assert float(bound - real) <= 1e-9 * np.abs(m).max()


def cancelling_keys(noise: np.random.Generator, own: bool, off: float = 0.0) -> Keys:
    """Three heads: the second undoes the first but for a thousandth, the third is its own."""
    count = LENGTH * LETTERS + own
    weight = np.exp(0.02 * noise.normal(size=(count, 1)))
    near = np.concatenate([weight, weight * noise.normal(size=(count, D))], axis=1)
    other = near * noise.uniform(0.999, 1.001, size=near.shape)
    other[:, 1:] *= -1
    third = near[noise.permutation(count)] * 1e-3
    third[:, 0] += 1
    tables = [Span(t - off * np.abs(t), t + off * np.abs(t)) for t in (near, other, third)]
    zero = Span.exact(np.zeros(D))
    return Keys(LENGTH, LETTERS, own, tables, zero, zero)


@pytest.mark.parametrize("seed", range(20))
def test_heads_that_cancel_are_bounded_together(seed: int) -> None:
    """Above every path's sum, and far below what the heads reach one by one."""
    noise = np.random.default_rng(seed)
    sets = Sets.whole(some_sets(seed).trellis)
    keys = cancelling_keys(noise, bool(seed % 2))
    q = noise.normal(size=(1, 4, D))
    bound = highest(sets, [keys], q)[0]
    apart = sum(head_of(sets, [keys], head, q).bound(None)[0] for head in range(3))
    for row in range(4):
        best = max(means(sets, 0, keys, q[0, row]))
        assert best - 1e-12 <= bound[row]
        assert bound[row] - best < 0.3 * (apart[row] - best)
    # A bound that the heads reach one by one is not improved.
    assert (highest(sets, [keys], q, apart[None] + 1)[0] >= apart).all()
    assert (highest(sets, [keys], q, bound[None] + 1e-6)[0] <= bound + 1e-9).all()


@pytest.mark.parametrize("seed", range(6))
def test_heads_together_hold_for_all_tables_in_their_range(seed: int) -> None:
    noise = np.random.default_rng(seed)
    sets = Sets.whole(some_sets(seed).trellis)
    keys = cancelling_keys(noise, bool(seed % 2), off=1e-3)
    q = noise.normal(size=(1, 2, D))
    bound = highest(sets, [keys], q)[0]
    near_w, near_m = keys.weight.copy(), keys.moment.copy()
    for _ in range(10):
        keys.weight = near_w * (1 + 1e-3 * noise.choice([-1, 1], size=near_w.shape))
        keys.moment = near_m * (1 + 1e-3 * noise.choice([-1, 1], size=near_m.shape))
        for row in range(2):
            assert bound[row] >= max(means(sets, 0, keys, q[0, row])) - 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_heads_whose_means_lie_far_on_one_side(seed: int) -> None:
    """One adds about 20, the other takes it away, and only its weights differ from path to path."""
    noise = np.random.default_rng(seed)
    sets, own = Sets.whole(some_sets(seed).trellis), bool(seed % 2)
    tables = []
    for side, spread in ((20, 0.0), (-20, 0.5)):
        weight = np.exp(spread * noise.normal(size=(LENGTH * LETTERS + own, 1)))
        values = side + noise.normal(size=(len(weight), D))
        tables.append(Span.exact(np.concatenate([weight, weight * values], axis=1)))
    keys = Keys(LENGTH, LETTERS, own, tables, *[Span.exact(np.zeros(D))] * 2)
    q = np.stack([np.ones(D), -np.ones(D), noise.normal(size=D)])[None]
    bound = highest(sets, [keys], q)[0]
    for row in range(3):
        assert bound[row] >= max(means(sets, 0, keys, q[0, row])) - 1e-11
