"""The efficient laboratory: every way against attention over tokens, claims by brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import softmax

import tsc_interp as tsc
from tests.playground.pages import fresh
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.errors import CheckpointError, UnsupportedError
from tsc_interp.laboratories.efficient import exact, graph, timing, ways
from tsc_interp.laboratories.efficient.figures import figures
from tsc_interp.laboratories.efficient.heads import (
    PATTERN,
    Heads,
    by_letter,
    counts_of,
    random_strings,
)
from tsc_interp.laboratories.efficient.result import PARTS
from tsc_interp.laboratories.efficient.ways import learn
from tsc_interp.laboratories.every_string import exact_horizon, vectors_up_to
from tsc_interp.laboratories.registry import find_laboratory
from tsc_interp.strings import FIRST_LETTER


@pytest.fixture(scope="module")
def heads() -> Heads:
    return Heads.of(load_checkpoint("walkthrough"))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return random_strings(np.random.default_rng(2), 3, 11, 7)


def _by_tokens(heads: Heads, rows: np.ndarray, pattern: np.ndarray | None = None) -> np.ndarray:
    """Logits of the model over tokens, CLS's row of the pattern replaced position by position."""
    cls = np.zeros((len(rows), 1), dtype=np.int64)
    tokens = torch.as_tensor(np.hstack([cls, rows + FIRST_LETTER]))

    def replace(found: torch.Tensor, hook: object) -> torch.Tensor:
        found = found.clone()
        found[:, :, 0, 1:] = torch.as_tensor(pattern)
        return found

    with torch.no_grad():
        hooks = [] if pattern is None else [(PATTERN, replace)]
        return heads.model.run_with_hooks(tokens, fwd_hooks=hooks).numpy()


def test_a_pattern_acts_through_its_sums_by_letter(heads, rows):
    """Any pattern, also one that is negative or does not sum to one, over tokens and compressed."""
    counts = counts_of(rows, 3)
    assert heads.logits(counts) == pytest.approx(_by_tokens(heads, rows), abs=1e-9)
    pattern = np.random.default_rng(0).standard_normal((7, 2, 11))
    assert heads.logits(counts, by_letter(pattern, rows, 3)) == pytest.approx(
        _by_tokens(heads, rows, pattern), abs=1e-9
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_low_rank_is_that_of_the_pattern_of_all_positions(heads, rows, rank):
    """Against numpy's SVD of the 12 × 11 pattern, CLS and the letters as queries."""
    found = ways.low_rank(heads, counts_of(rows, 3), rank)
    for string, expected in zip(rows, found, strict=True):
        kinds = np.concatenate([[0], string + 1])
        for h, scores in enumerate(heads.scores):
            pattern = softmax(scores[kinds][:, string], axis=1)
            left, values, right = np.linalg.svd(pattern, full_matrices=False)
            assert (values[3:] < 1e-12).all(), "no more than three letters, no more than rank three"
            cut = (left[0, :rank] * values[:rank]) @ right[:rank]
            by_kind = [cut[string == letter].sum() for letter in range(3)]
            assert by_kind == pytest.approx(expected[h], abs=1e-9)


@pytest.mark.parametrize("way", ["projection", "read", "features"])
def test_with_a_full_budget_nothing_is_lost(heads, rows, way):
    counts, rng = counts_of(rows, 3), np.random.default_rng(0)
    if way == "projection":
        whole = ways.random_projection(rng, 11, 11)
        weights = by_letter(ways.projected(heads, rows, whole, whole), rows, 3)
    elif way == "read":
        read = ways.positions_read(rng, 11, 11, reads_all=False)
        weights = by_letter(ways.sparse(heads, rows, read), rows, 3)
    else:
        weights = ways.featured(counts, heads.scores[:, 0])
    assert heads.logits(counts, weights) == pytest.approx(heads.logits(counts), abs=1e-9)


def test_positions_are_chosen_whatever_stands_there(heads, rows):
    read = ways.positions_read(np.random.default_rng(4), 5, 11, reads_all=False)
    assert len(set(read.tolist())) == 5
    assert read[:3].tolist() == [0, 1, 2]
    changed = rows.copy()
    unread = [place for place in range(11) if place not in read]
    changed[:, unread] = (changed[:, unread] + 1) % 3
    before, after = (
        heads.logits(counts_of(r, 3), by_letter(ways.sparse(heads, r, read), r, 3))
        for r in (rows, changed)
    )
    assert before == pytest.approx(after, abs=1e-12)
    every = ways.positions_read(np.random.default_rng(4), 5, 11, reads_all=True)
    assert every.tolist() == list(range(11))


@pytest.mark.parametrize("budget", [1, 2, 4])
def test_the_horizon_of_a_window_by_brute_force(heads, budget):
    """Every string in every order, until one is wrong."""
    for length in range(1, 8):
        rows = np.array(list(product(range(3), repeat=length)))
        read = ways.positions_read(np.random.default_rng(length), budget, length, reads_all=False)
        weights = by_letter(ways.sparse(heads, rows, read), rows, 3)
        counts = counts_of(rows, 3)
        wrong = (heads.logits(counts, weights) > 0) != heads.labels(counts)
        if wrong.any():
            break
    assert exact.window_horizon(heads, budget, own=2166.0) == length - 1


def test_random_features_are_right_on_average():
    """exp(q·k) is the mean of their products: within five standard errors, on small scores."""
    heads = Heads.of(load_checkpoint("lower-magnitude"))
    small = Heads(heads.model, heads.queries * 0.2, heads.keys * 0.2, heads.values)
    rng = np.random.default_rng(0)
    drawn = np.exp([ways.feature_scores(small, rng, 64) for _ in range(400)])
    error = drawn.std(axis=0) / 20
    assert (np.abs(drawn.mean(axis=0) - np.exp(small.scores[:, 0])) <= 5 * error + 1e-12).all()


def test_a_model_with_other_keys_is_the_model_with_other_scores(heads):
    """What the verifier is given has the logits of the intervention, and its horizon is true."""
    checkpoint = load_checkpoint("walkthrough")
    scores = ways.feature_scores(heads, np.random.default_rng(5), 16)
    edited = exact.with_scores(checkpoint, heads, scores)
    counts = vectors_up_to(3, 9)
    assert len(counts) == 219  # C(12, 3) - 1
    written = Heads.of(edited).logits(counts)
    assert written == pytest.approx(heads.logits(counts, ways.featured(counts, scores)), abs=2e-3)
    reach = exact_horizon(edited)
    wrong = (written > 0) != heads.labels(counts)
    shortest = int(counts[wrong].sum(axis=1).min()) if wrong.any() else 10
    assert min(reach, 9) == shortest - 1


def test_learning_a_projection_helps(heads):
    rng = np.random.default_rng(3)
    rows = random_strings(rng, 3, 9, 200)
    counts = counts_of(rows, 3)
    full = heads.logits(counts)

    def error(keys: np.ndarray, values: np.ndarray) -> float:
        weights = by_letter(ways.projected(heads, rows, keys, values), rows, 3)
        return float(np.abs(heads.logits(counts, weights) - full).mean())

    untrained = learn(heads, np.random.default_rng(1), 3, 9, 0)
    trained = learn(heads, np.random.default_rng(1), 3, 9, 60)
    assert error(*trained) < 0.9 * error(*untrained)
    again = learn(heads, np.random.default_rng(1), 3, 9, 60)
    assert all(np.array_equal(one, other) for one, other in zip(trained, again, strict=True))


def test_what_is_timed_is_what_is_meant(heads):
    """Outputs, not seconds: full is attention, multiplicities are the same, a window is exact for
    the position that reads all; projection and features against their formulas by loops."""
    row = random_strings(np.random.default_rng(8), 3, 33, 1)[0]
    full, _, window, _, few = (
        work().numpy() for work in timing.works(heads, row, np.random.default_rng(0))
    )
    scores = heads.scores[:, 1:][:, row][:, :, row]
    expected = softmax(scores, axis=-1) @ np.swapaxes(heads.values[row], 0, 1)
    assert full == pytest.approx(expected, abs=1e-4)
    assert few[:, row] == pytest.approx(full, abs=1e-4)
    assert window[:, 0] == pytest.approx(full[:, 0], abs=1e-4)
    assert window.shape == full.shape


@pytest.mark.parametrize("change", [
    {"n_positions": 12}, {"attend_cls": True}, {"n_layers": 2}, {"norm": "rms"},
    {"task": tsc.tasks.Majority()}, {"score_scale": "sqrt_d_head_log_n"},
])  # fmt: skip
def test_other_models_are_refused_with_the_reason(change):
    with pytest.raises(UnsupportedError, match="this model has"):
        Heads.of(fresh(tsc.ClassifierConfig(**change), seed=0))


def test_an_unknown_model_is_refused():
    with pytest.raises(CheckpointError, match="nowhere"):
        find_laboratory("efficient").run(quick=True, model="nowhere")


def test_without_the_clock_nothing_is_said_of_time():
    result = find_laboratory("efficient").run(
        quick=True, lengths=(8,), budgets=(2, 8), features=(4,), draws=1, steps=2
    )
    timeless = result.model_copy(update={"clock": None})
    assert [figure.name for figure in figures(result)][-1] == "time"
    assert "time" not in [figure.name for figure in figures(timeless)]
    assert len(timeless.tables()) == len(result.tables()) - 1


@pytest.mark.parametrize("parts", PARTS)
def test_layers_are_when_states_begin_to_depend(parts):
    """By the nonzero entries of a product of random patterns with those links."""
    rng = np.random.default_rng(3)
    linked = graph.links(parts, 23, rng)
    heard, pairs = graph.layers(linked)
    state, seen = np.eye(24), []
    for _ in range(12):
        state = (linked * rng.uniform(0.5, 1, size=linked.shape)) @ state
        seen.append(((state[0, 1:] > 0).all(), (state[1:, 1:] > 0).all()))
    assert [one.index(True) + 1 for one in map(list, zip(*seen, strict=True))] == [heard, pairs]


def test_layers_by_hand():
    """A window of 3 needs n / 3; a CLS that reads all needs 1, and is a way round of 2."""
    found = {
        parts: graph.layers(graph.links(parts, 31, np.random.default_rng(0))) for parts in PARTS
    }
    assert found[PARTS[0]] == (11, 10)
    assert found[PARTS[2]] == (1, 10)
    assert found[PARTS[3]] == found[PARTS[4]] == (1, 2)
    assert found[PARTS[1]][1] < 10
