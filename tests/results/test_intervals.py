"""Intervals against values worked out by hand, and against scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tsc_interp.errors import UsageError
from tsc_interp.results.intervals import (
    mean_interval,
    median_interval,
    share_interval,
    told_mean,
    told_median,
    told_share,
)


def test_a_proportion_without_failures_has_the_end_that_a_power_gives():
    # By hand: the low end solves p^n = 0.025.
    assert share_interval(16, 16) == (pytest.approx(0.025 ** (1 / 16)), 1.0)
    assert share_interval(0, 16) == (0.0, pytest.approx(1 - 0.025 ** (1 / 16)))
    assert share_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("part", "whole"), [(7, 8), (1, 3), (16, 256), (195, 1130), (5, 9984)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_a_proportion_has_scipys_exact_interval(part, whole, level):
    expected = stats.binomtest(part, whole).proportion_ci(level, method="exact")
    assert share_interval(part, whole, level) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_a_median_of_three_by_hand():
    # The median of a resample of 3 is the smallest value with probability 7/27, the middle one
    # with 13/27 and the largest with 7/27: each tail of 2.5 % ends inside the outer values, and
    # at a level of 40 % both tails (30 %) reach the middle one.
    assert median_interval([5, 1, 3]) == (1, 5)
    assert median_interval([5, 1, 3], level=0.4) == (3, 3)


@pytest.mark.parametrize("n", [5, 8, 13, 40])
def test_the_interval_of_a_median_is_what_resampling_finds(n):
    values = np.random.default_rng(n).lognormal(5, 2, n)
    random = np.random.default_rng(1)
    drawn = np.sort(random.choice(values, (20_000, n)), axis=1)
    low = np.quantile(drawn[:, (n + 1) // 2 - 1], 0.025, method="inverted_cdf")
    high = np.quantile(drawn[:, n // 2], 0.975, method="inverted_cdf")
    assert median_interval(values) == (low, high)
    if n % 2:
        expected = stats.bootstrap(
            (values,), np.median, n_resamples=20_000, method="percentile", random_state=2
        ).confidence_interval
        assert median_interval(values) == pytest.approx((expected.low, expected.high))


def test_infinite_values_take_part_in_a_median():
    horizons = [10, 20, 30, math.inf, math.inf, math.inf, math.inf]
    assert median_interval(horizons) == (20, math.inf)
    assert told_median(horizons) == "∞ (95% CI 20 to ∞)"


def test_the_interval_of_a_mean_is_scipys_and_never_changes():
    values = np.random.default_rng(0).random(12)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", random_state=3
    ).confidence_interval
    assert mean_interval(values) == pytest.approx((expected.low, expected.high), abs=5e-3)
    assert mean_interval(values) == mean_interval(values)


def test_sentences():
    assert told_share(16, 256, digits=1) == "16 of 256 (6.2%, 95% CI 3.6% to 10.0%)"
    assert told_share(0, 0) == "none"
    assert told_mean([0.5, 0.5, 0.5]) == "50% (95% CI 50% to 50%)"


@pytest.mark.parametrize("wrong", [(3, 2), (-1, 2)])
def test_no_proportion(wrong):
    with pytest.raises(UsageError, match="is no proportion"):
        share_interval(*wrong)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [[1.0], [2.0]]])
def test_no_seeds(values):
    with pytest.raises(UsageError, match="one number per seed"):
        median_interval(values)
