"""Sets of paths against all paths, tried one by one: sparse sets, one stage, fixed letters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.trusted.paths import singles, strings
from tests.trusted.test_means import brute, one_path
from tests.verification.test_trellis_search import random_automaton
from tsc_interp.tasks import Addition, trellis_of
from tsc_interp.tasks.trellis import Stage, Trellis
from tsc_interp.trusted.sets import Layout, Sets, slots

LETTERS = 4


def uneven() -> Trellis:
    """Three states, then two: two groups of edges into the first of them, three into the second."""
    first = Stage((0,), *map(np.array, ([0, 0, 0], [0, 1, 2], [[0], [1], [2]])))
    edges = [[0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 0, 1], [[0], [1], [0], [3], [2], [1]]]
    second = Stage((1,), *map(np.array, edges))
    return Trellis(2, (), (first, second), 1, np.array([0, 1, 1, 1, 0, 1]))


TRELLISES = [
    uneven(),
    trellis_of(random_automaton(LETTERS, 3, 1), LETTERS, 3),
    trellis_of(random_automaton(LETTERS, 4, 2), LETTERS, 4),
    Addition(digits=2, base=2).step_trellis(1),
    Addition(digits=1, base=2, before=(3,)).step_trellis(1),
]


def sparse(trellis: Trellis, seed: int, count: int = 6) -> Sets:
    noise = np.random.default_rng(seed)
    return Sets(trellis, [noise.random((count, len(stage))) < 0.5 for stage in trellis.stages])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("trellis", TRELLISES)
def test_sparse_sets_are_their_paths(trellis: Trellis, seed: int) -> None:
    sets = sparse(trellis, seed)
    known = [brute(sets, i) for i in range(len(sets))]
    assert sets.counts() == [len(paths) for paths in known]
    assert sets.has_paths.tolist() == [bool(paths) for paths in known]
    used = np.zeros((len(sets), trellis.length, LETTERS), dtype=bool)
    for place, letter in trellis.fixed:
        used[:, place, letter] = True
    for i, paths in enumerate(known):
        assert sorted(strings(sets, i)) == sorted(paths)
        for string, _ in paths:
            used[i, np.arange(trellis.length), string] = True
        labels = {label for _, label in paths}
        assert sets.labels()[i] == (labels.pop() if len(labels) == 1 else -1)
        for place in range(trellis.length):
            letters = {string[place] for string, _ in paths}
            assert sets.letters_at(place)[i] == (letters.pop() if len(letters) == 1 else -1)
        if paths:
            assert sets[[i]].first() == min(string for string, _ in paths)
    np.testing.assert_array_equal(sets.used(LETTERS), used)
    alive = [i for i, paths in enumerate(known) if paths]
    apart = singles(sets, alive)
    assert apart.counts() == [1] * len(apart)
    alone = [next(strings(apart, number)) for number in range(len(apart))]
    assert alone == [path for i in alive for path in strings(sets, i)]
    assert sets[alive].first() == min(string for i in alive for string, _ in known[i])


@pytest.mark.parametrize("trellis", TRELLISES)
def test_every_edge_has_a_slot_and_no_slot_two(trellis: Trellis) -> None:
    sets, total = sparse(trellis, 7), 0
    for stage, mask, rectangle in zip(trellis.stages, sets.masks, sets.rectangles, strict=True):
        layout = Layout(stage)
        edges = layout.edge[layout.edge < len(stage)]
        assert sorted(edges.tolist()) == list(range(len(stage)))
        for group, row in enumerate(layout.edge.tolist()):
            for slot, edge in enumerate(row):
                if edge == len(stage):
                    assert not rectangle[:, group, slot].any()
                    continue
                ends = (layout.source[group], layout.target[group])
                assert (stage.source[edge], stage.target[edge]) == ends
                np.testing.assert_array_equal(rectangle[:, group, slot], mask[:, edge])
        pairs = Counter(zip(stage.source.tolist(), stage.target.tolist(), strict=True))
        assert len(layout.source) == len(pairs)
        total += len(pairs) * max(pairs.values())
        for states, groups in ((layout.target, layout.incoming), (layout.source, layout.outgoing)):
            for state, row in enumerate(groups.tolist()):
                here = [group for group in row if group < len(states)]
                assert here == np.flatnonzero(states == state).tolist()
    assert slots(trellis) == sets.slots == total


def test_a_trellis_of_one_stage() -> None:
    sets = one_path(1)
    assert (len(sets), sets.counts(), sets.first()) == (1, [1], (0,))
    assert sets.has_paths.tolist() == [True]
    letters = np.array([[0], [1], [2]])
    stage = Stage((1,), np.zeros(3, dtype=np.int64), np.array([0, 0, 1]), letters)
    trellis = Trellis(2, ((0, 1),), (stage,), 0, np.array([0, 1, 1]))
    sets = Sets(trellis, [np.array([[True, False, False], [False, True, True], [False] * 3])])
    assert len(sets) == 3
    assert sets.letters_at(0).tolist() == [1, 1, -1]
    assert sets.letters_at(1).tolist() == [0, -1, -1]
    assert sets.labels().tolist() == [0, 1, -1]
    assert sets.counts() == [1, 2, 0]
    assert slots(trellis) == 4
