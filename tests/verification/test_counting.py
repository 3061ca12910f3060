"""Exact counting: against brute force over strings, against itself, against what is published."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import POSITIONED, configs
from tests.verification.enumeration import enumerate_counts, positive_vectors, same_counts
from tests.verification.models import (
    WIDER,
    hand_built,
    planted,
    random_checkpoint,
    small_vectors,
)
from tsc_interp import horizon, verify
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import source_test_set
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.forward import forward
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.model.inputs import from_counts
from tsc_interp.output.numbers import number
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.counting.regions import count_regions, lattice_points
from tsc_interp.verification.counting.tally import Tally
from tsc_interp.verification.labels import all_supports, class_range, labels_of


def double_weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(w).double() for name, w in checkpoint.weights.items()}


def brute_force(checkpoint: Checkpoint, max_length: int) -> tuple[Counter, Counter]:
    """False positives and negatives per length: every string, token by token, in float64."""
    config = checkpoint.config
    model = HookedClassifier(config, double_weights(checkpoint))
    wrong = Counter(), Counter()
    for length in range(1, max_length + 1):
        strings = np.array(list(product(range(config.n_letters), repeat=length)))
        parts = [np.zeros((len(strings), 1), int), strings + FIRST_LETTER]
        tokens = np.concatenate(parts if config.reads == "first" else parts[::-1], axis=1)
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens)).numpy()
        counts = (strings[:, :, None] == np.arange(config.n_letters)).sum(axis=1)
        labels = config.task.labels(counts)
        # Otherwise rounding would decide, and the comparison would say nothing.
        assert np.abs(logits).min() > 1e-12
        wrong[0][length] = int(((logits > 0) & ~labels).sum())
        wrong[1][length] = int(((logits <= 0) & labels).sum())
    return wrong


@pytest.mark.parametrize("config", WIDER, ids=range(len(WIDER)))
def test_every_string_up_to_length_nine(config: ClassifierConfig) -> None:
    """Both implementations count exactly the strings that the hooked model gets wrong."""
    checkpoint = random_checkpoint(config, seed=3)
    longest = {1: 9, 2: 9, 3: 9, 4: 7, 5: 6}[config.n_letters]
    positives, negatives = brute_force(checkpoint, longest)
    for count in (enumerate_counts, count_regions):
        tally = count(CountModel(checkpoint), longest)
        for length in range(1, longest + 1):
            assert tally.false_positives.strings[length] == positives[length]
            assert tally.false_negatives.strings[length] == negatives[length]
        assert tally.undecided.total_vectors == 0


@settings(max_examples=15)
@given(configs(), st.integers(0, 10**6), st.sampled_from([0.7, 2.0, 4.0]), st.integers(1, 8))
def test_the_two_implementations_agree(
    config: ClassifierConfig, seed: int, scale: float, max_length: int
) -> None:
    model = CountModel(random_checkpoint(config, seed, scale))
    one, other = enumerate_counts(model, max_length), count_regions(model, max_length)
    assert same_counts(one, other)


@pytest.mark.parametrize("seed", range(4))
def test_they_agree_where_boxes_matter(seed: int) -> None:
    """Long enough that regions decide most vectors in boxes, few enough to enumerate."""
    model = CountModel(random_checkpoint(ClassifierConfig(attend_cls=bool(seed % 2)), seed))
    one, other = enumerate_counts(model, 70), count_regions(model, 70)
    assert same_counts(one, other)


@settings(max_examples=20)
@given(configs(), st.integers(0, 10**6))
def test_guesses_equal_the_forward_pass(config: ClassifierConfig, seed: int) -> None:
    """One arithmetic, written three times: torch float64, NumPy, and `arb`."""
    checkpoint = random_checkpoint(config, seed)
    model, vectors = CountModel(checkpoint), small_vectors(config.n_letters, 3)
    expected = forward(config, double_weights(checkpoint), from_counts(config, vectors)).numpy()
    for support in all_supports(config, 3):
        member = (vectors > 0).sum(1) == len(support)
        member &= (vectors[:, list(support)] > 0).all(1)
        logits = model.guess.logits(support, vectors[member][:, list(support)])
        np.testing.assert_allclose(logits, expected[member], rtol=1e-9, atol=1e-8)
        exact = [model.logit(v) for v in vectors[member][:4].tolist()]
        np.testing.assert_allclose(logits[:4], exact, rtol=1e-9, atol=1e-8)


def test_the_reports_test_set() -> None:
    """Confusion matrices on the 9,984 test strings come out as published or as evaluated."""
    expected = {
        "walkthrough": (0, 0),
        "increased-dimensionality": (0, 0),
        "many-heads": (0, 0),
        "lower-magnitude": (1443, 0),
    }
    for name, errors in expected.items():
        checkpoint = load_checkpoint(name)
        counts = source_test_set(checkpoint.config)
        model, wrong = CountModel(checkpoint), [0, 0]
        for support in all_supports(checkpoint.config):
            mine = np.array([[row[i] for i in support] for row in counts.tolist()
                             if {i for i, n in enumerate(row) if n} == set(support)])  # fmt: skip
            if len(mine):
                label = int(labels_of(checkpoint.config, support, mine[:1])[0])
                wrong[label] += int((model.answers(support, mine) != label).sum())
        assert tuple(wrong) == errors, name


def test_published_errors_are_counted() -> None:
    verdict = verify(load_checkpoint("generalization-errors"))
    assert verdict.tally.vectors == 1_373_700
    assert verdict.tally.strings == sum(3**n for n in range(1, 201))
    assert verdict.false_negative is not None
    assert (verdict.false_negative.string, verdict.false_negative.logit < 0) == ("ab{66}", True)
    assert verdict.false_positive is not None
    assert verdict.false_positive.string == "bc{70}"
    assert verdict.tally.first_error_length == 67
    # ab{66}: 67 places for the a.
    assert verdict.tally.false_negatives.strings[67] == 67
    assert verdict.accuracy < 1
    assert not verdict.correct


@pytest.mark.parametrize("first", [2, 3, 7, 19, 33])
def test_planted_counterexamples_are_found(first: int) -> None:
    for count in (enumerate_counts, count_regions):
        tally = count(CountModel(planted(first)), 40)
        assert tally.false_negatives.shortest == (1, first, 0)
        assert tally.false_positives.total_vectors == 0
        # a among first letters of b and c, any mix of them, anywhere.
        assert tally.false_negatives.strings[first + 1] == (first + 1) * 2**first
        assert tally.false_negatives.strings[first] == 0


def test_a_logit_of_exactly_zero_is_negative() -> None:
    """Zero read-out: every logit is zero, so exactly the positive strings are wrong."""
    checkpoint = hand_built([[1, 0, 0]], [[0, 0, 0]], 0.0)
    for count in (enumerate_counts, count_regions):
        tally = count(CountModel(checkpoint), 6)
        positive = sum(3**n - 2 * 2**n + 1 for n in range(1, 7))
        assert tally.false_negatives.total_strings == positive
        assert tally.false_positives.total_strings == 0
        assert tally.undecided.total_strings == 0


def test_what_cannot_be_told_from_zero_is_undecided() -> None:
    """Two heads with equal scores and opposite values cancel; no precision can prove that."""
    checkpoint = hand_built([[1, 0, 2], [1, 0, 2]], [[1, 0, 3], [-1, 0, -3]], 0.0)
    for count in (enumerate_counts, count_regions):
        tally = count(CountModel(checkpoint), 2)
        # One letter alone needs no division that rounds; two letters do.
        assert tally.undecided.vectors[2] == 3
        assert tally.undecided.strings[2] == 6
        assert tally.undecided.shortest == (1, 1, 0)
    verdict = verify(checkpoint, 2)
    assert not verdict.correct
    assert verdict.to_dict()["undecided"]["shortest"] == "ab"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_positive_vectors_are_all_of_them_once(size: int) -> None:
    longest = 13
    found = np.concatenate(list(positive_vectors(size, longest)))
    expected = [row for row in product(range(1, longest + 1), repeat=size) if sum(row) <= longest]
    assert sorted(map(tuple, found.tolist())) == expected
    assert len(found) == comb(longest, size)
    assert (np.diff(found.sum(1)) >= 0).all()


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5)), min_size=1, max_size=4),
       st.integers(1, 14))  # fmt: skip
def test_lattice_points(sides: list[tuple[int, int]], limit: int) -> None:
    low = np.array([[side[0] for side in sides]])
    high = low + np.array([[side[1] for side in sides]])
    ranges = [range(a, b + 1) for a, b in zip(low[0], high[0], strict=True)]
    expected = sum(sum(point) <= limit for point in product(*ranges))
    assert lattice_points(low, high, limit).tolist() == [expected]


@pytest.mark.parametrize("config", WIDER, ids=range(len(WIDER)))
def test_labels_over_boxes_are_sound(config: ClassifierConfig) -> None:
    """The class of a box is that of every vector in it."""
    rng = np.random.default_rng(0)
    for support in all_supports(config)[-3:]:
        low = rng.integers(1, 5, (20, len(support)))
        high = low + rng.integers(0, 4, low.shape)
        found = class_range(config, support, low, high)
        for i in range(len(low)):
            ranges = [range(a, b + 1) for a, b in zip(low[i], high[i], strict=True)]
            labels = labels_of(config, support, np.array(list(product(*ranges))))
            assert found[i] != 1 or labels.all()
            assert found[i] != 0 or not labels.any()
            if (low[i] == high[i]).all():
                assert found[i] == labels[0]


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="positions"):
        horizon(random_checkpoint(POSITIONED, 0))
    with pytest.raises(UsageError, match="whole number from 1"):
        verify(planted(3), 0)
    many = ClassifierConfig(n_letters=20, d_model=2)
    with pytest.raises(UnsupportedError, match="12 letters"):
        verify(random_checkpoint(many, 0), 20)


def test_progress_counts_every_vector_once() -> None:
    reported: list[int] = []
    verdict = verify(planted(3), 12, progress=reported.append)
    assert sum(reported) == verdict.tally.vectors == comb(15, 3) - 1


def test_tally_arithmetic() -> None:
    tally = Tally(3, 2)
    assert (tally.vectors, tally.strings) == (9, 14)
    tally.false_negatives.strings[2] = 3
    assert tally.accuracy_at(2) == (1, 4)
    assert tally.first_error_length is None


def test_numbers_in_words() -> None:
    assert number(1_373_700) == "1,373,700"
    assert number(398 * 10**93 + 42) == "3.98·10⁹⁵"
    assert number(10**40 - 1) == "1.00·10⁴⁰"
    assert number(10**400) == "1.00·10⁴⁰⁰"


def test_weights_that_overflow_float64_are_still_decided() -> None:
    """Four layers that multiply by 1e74 each: float64 gives up, `arb` does not."""
    config = ClassifierConfig(n_layers=4, d_mlp=0)
    weights = {
        name: w * np.float32(1 if name[-1] in "QK" else 1e37)
        for name, w in random_checkpoint(config, 0).weights.items()
    }
    model = CountModel(Checkpoint(config, weights))
    with np.errstate(all="ignore"):
        assert not np.isfinite(model.guess.outputs((0, 1), np.ones((1, 2)))).all()
        expected = sum(
            (model.answer(vector) == 1) != bool(config.task.labels(np.array(vector)))
            for vector in small_vectors(3, 3).tolist()
        )
        assert expected
        for count in (enumerate_counts, count_regions):
            tally = count(model, 3)
            assert tally.undecided.total_vectors == 0
            assert sum(side.total_vectors for side in tally.sides) == expected
