"""The efficient laboratory: paths and low rank by brute force, masks, bounds on accuracy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import softmax

import tsc_interp as tsc
from tests.playground.pages import fresh
from tsc_interp.errors import CheckpointError, UnsupportedError
from tsc_interp.laboratories import efficient
from tsc_interp.laboratories.efficient import EVERY, PARTS, RANDOM, READ, READS, WINDOW
from tsc_interp.laboratories.registry import find_laboratory


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_low_rank_is_that_of_the_pattern_of_all_positions(rank):
    """Against numpy's SVD of the 12 × 11 pattern, CLS and the letters as queries."""
    rng = np.random.default_rng(2)
    scores = 3 * rng.standard_normal((2, 4, 3))
    rows = rng.integers(3, size=(7, 11))
    counts = (rows[:, :, None] == np.arange(3)).sum(axis=1)
    for string, found in zip(rows, efficient.low_rank(scores, counts, rank), strict=True):
        kinds = np.concatenate([[0], string + 1])
        for h in range(2):
            pattern = softmax(scores[h][kinds][:, string], axis=1)
            left, values, right = np.linalg.svd(pattern, full_matrices=False)
            assert (values[3:] < 1e-12).all(), "no more than three letters, no more than rank three"
            cut = (left[0, :rank] * values[:rank]) @ right[:rank]
            by_kind = [cut[string == letter].sum() for letter in range(3)]
            assert by_kind == pytest.approx(found[h], abs=1e-9)


def test_at_full_rank_nothing_is_lost():
    ranks = efficient.low_rank_errors(efficient.EfficientOptions(max_length=7))
    flips, errors = (ranks.at(statistic=name) for name in ("flips", "largest error"))
    assert errors[-1] < 1e-9
    assert flips[-1] == 0
    assert flips[0] > 0


@pytest.mark.parametrize("parts", PARTS)
def test_layers_are_when_states_begin_to_depend(parts):
    """By the nonzero entries of a product of random patterns with those links."""
    rng = np.random.default_rng(3)
    linked = efficient.links(parts, 23, rng)
    heard, pairs = efficient.layers_needed(linked)
    state, seen = np.eye(24), []
    for _ in range(12):
        state = (linked * rng.uniform(0.5, 1, size=linked.shape)) @ state
        seen.append(((state[0, 1:] > 0).all(), (state[1:, 1:] > 0).all()))
    assert [one.index(True) + 1 for one in map(list, zip(*seen, strict=True))] == [heard, pairs]


def test_layers_by_hand():
    """A window of 3 needs n / 3; a CLS that reads all needs 1, and is a way round of 2."""
    found = {
        parts: efficient.layers_needed(efficient.links(parts, 31, np.random.default_rng(0)))
        for parts in PARTS
    }
    assert found[WINDOW] == (11, 10)
    assert found[READS] == (1, 10)
    assert found[READ] == found[EVERY] == (1, 2)
    assert found[RANDOM][1] < 10


@pytest.mark.parametrize("parts", [WINDOW, RANDOM, EVERY])
def test_unread_letters_do_not_matter_and_read_ones_do(parts):
    """The witness: strings that differ only where CLS does not reach have one logit."""
    n, rng = 20, np.random.default_rng(1)
    linked = efficient.links(parts, n, rng)
    away = efficient.distances(linked)[0]
    assert efficient.letters_read(linked) == (away[1:] <= efficient.LAYERS).sum()
    queries, keys, values = rng.standard_normal((3, efficient.LAYERS, 8, 8))

    def read_at_cls(states):
        for query, key, value in zip(queries, keys, values, strict=True):
            scores = np.where(linked, (states @ query) @ (states @ key).T, -np.inf)
            states = states + softmax(scores / 8, axis=1) @ np.tanh(states @ value)
        return states[0]

    embedded = rng.standard_normal((n + 1, 8))
    before = read_at_cls(embedded)
    for place in range(1, n + 1):
        changed = embedded.copy()
        changed[place] = rng.standard_normal(8)
        same = np.allclose(read_at_cls(changed), before, atol=1e-9)
        assert same == (away[place] > efficient.LAYERS), place


def test_the_best_accuracy_by_enumerating_what_is_seen():
    """Every string of a length: who sees the same must answer the same."""
    n = 9
    linked = efficient.links(WINDOW, n, np.random.default_rng(0))
    reached = np.flatnonzero(efficient.distances(linked)[0, 1:] <= 2)
    seen: dict[tuple[int, ...], list[float]] = {}
    for first, second in product(range(n), repeat=2):
        for letters in product((1, 2), repeat=2) if first < second else ():
            row = np.full(n, 3)
            row[first], row[second] = letters
            seen.setdefault(tuple(row[reached]), []).append(float(letters[0] != letters[1]))
    right = sum(max(sum(x), len(x) - sum(x)) for x in seen.values())
    best = right / sum(map(len, seen.values()))
    assert efficient.best_possible(len(reached), n) == pytest.approx(best)


@pytest.mark.parametrize("change", [
    {"n_positions": 12}, {"attend_cls": True}, {"n_layers": 2}, {"norm": "rms"},
    {"task": tsc.tasks.Majority()}, {"score_scale": "sqrt_d_head_log_n"},
])  # fmt: skip
def test_other_models_are_refused_with_the_reason(change, tmp_path):
    path = tmp_path / "other.safetensors"
    fresh(tsc.ClassifierConfig(**change), seed=0).save(path)
    with pytest.raises(UnsupportedError, match="this model has"):
        efficient.low_rank_errors(efficient.EfficientOptions(model=str(path)))


def test_an_unknown_model_is_refused():
    with pytest.raises(CheckpointError, match="nowhere"):
        find_laboratory("efficient").run(quick=True, model="nowhere")
