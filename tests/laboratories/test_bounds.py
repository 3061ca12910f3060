"""The balanced stream's exact distribution, validation sets drawn from it, and the bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import binom, chi2

import tsc_interp as tsc
from tsc_interp.construction.construct import construct
from tsc_interp.data import BalancedStream
from tsc_interp.data.balanced import budgets
from tsc_interp.errors import ConfigError, UnsupportedError
from tsc_interp.laboratories import bounds
from tsc_interp.laboratories.bounds import (
    chance_within,
    draw_errors,
    error_patterns,
    probabilities,
    source_bound,
    subsets_of,
    uniform_bound,
)
from tsc_interp.laboratories.every_string import judge, vectors_up_to
from tsc_interp.results.intervals import clopper_pearson
from tsc_interp.verification.verdict import verify_counts

THREE = tsc.ClassifierConfig()
FOUR = tsc.ClassifierConfig(n_letters=4, task=tsc.tasks.ContainsAll(letters="bd"))


def walk(stream: BalancedStream, config: tsc.ClassifierConfig) -> dict[tuple[int, ...], Fraction]:
    """The stream's own rules, step by step, in fractions; shares drawn as Polya's urn."""
    named = [config.alphabet.index(letter) for letter in config.task.needs]
    others = [t for t in range(config.n_letters) if t not in named]
    alpha = Fraction(stream.alpha)
    found: dict[tuple[int, ...], Fraction] = {}

    def add(counts: list[int], chance: Fraction, left: int, letters: list[int]) -> None:
        if letters and left:  # one more positive letter: alpha / s, and one for each drawn before
            drawn = sum(counts[t] - 1 for t in letters)
            for t in letters:
                more = [*counts]
                more[t] += 1
                share = (alpha / len(letters) + counts[t] - 1) / (alpha + drawn)
                add(more, chance * share, left - 1, letters)
            return
        key = tuple(counts)
        found[key] = found.get(key, Fraction(0)) + chance

    sizes = budgets(stream.batch_size, len(named))
    for subset, size in enumerate(sizes):
        letters = [t for bit, t in enumerate(named) if subset >> bit & 1]
        s = len(letters)
        lengths = range(max(s, 1), stream.max_length + 1)
        for n in lengths:
            for m in range(s, n + 1) if s else [0]:
                chance = Fraction(size, sum(sizes)) / len(lengths) / (n - s + 1 if s else 1)
                for rest in product(others, repeat=n - m):
                    counts = [int(t in letters) for t in range(config.n_letters)]
                    for t in rest:
                        counts[t] += 1
                    add(counts, chance / len(others) ** (n - m), m - s, letters)
    return found


@pytest.mark.parametrize("config", [THREE, FOUR])
@pytest.mark.parametrize("alpha", [0.25, 1.5])
def test_probabilities_are_those_of_the_rules(config, alpha):
    stream = BalancedStream(max_length=5, alpha=alpha, batch_size=19)
    expected = walk(stream, config)
    assert sum(expected.values()) == 1
    vectors = vectors_up_to(config.n_letters, 5)
    found = probabilities(stream, config, vectors)
    told = np.array([float(expected.get(tuple(row), 0)) for row in vectors.tolist()])
    assert np.allclose(found, told, rtol=1e-12, atol=0)
    assert set(expected) <= set(map(tuple, vectors.tolist()))


def test_given_the_length_they_are_conditional():
    stream = BalancedStream(max_length=6, alpha=0.5, batch_size=64)
    for length in range(1, 7):
        vectors = vectors_up_to(3, length, length)
        given = probabilities(stream, THREE, vectors, given_length=True)
        assert given.sum() == pytest.approx(1)
        inside = probabilities(stream, THREE, vectors)
        for subset in range(4):  # within a subset, lengths do not change the proportions
            rows = subsets_of(THREE, vectors) == subset
            if rows.any():
                assert np.allclose(
                    given[rows] / given[rows].sum(), inside[rows] / inside[rows].sum()
                )


def test_the_stream_passes_a_chi_square_test_and_another_alpha_does_not():
    stream = BalancedStream(max_length=12, alpha=0.5, batches=300, seed=4)
    taken = stream.epoch(THREE, 0)
    vectors = vectors_up_to(3, 12)
    place = {tuple(row): i for i, row in enumerate(vectors.tolist())}
    observed = np.bincount([place[tuple(row)] for row in taken.tolist()], minlength=len(vectors))
    for alpha, fits in ((0.5, True), (0.8, False)):
        expected = probabilities(stream.replace(alpha=alpha), THREE, vectors) * len(taken)
        common = expected >= 10
        seen, pooled = (np.r_[x[common], x[~common].sum()] for x in (observed, expected))
        statistic = float(((seen - pooled) ** 2 / pooled).sum())
        assert (chi2.sf(statistic, len(seen) - 1) > 1e-3) == fits


def test_every_vector_is_judged_as_verify_does():
    vectors = vectors_up_to(3, 70)
    judged = judge("generalization-errors", vectors)
    verdict = verify_counts("generalization-errors", max_length=70)
    share = np.exp(gammaln(vectors.sum(axis=1) + 1) - gammaln(vectors + 1).sum(axis=1))
    assert len(vectors) == math.comb(73, 3) - 1
    assert judged.wrong.sum() > 0
    right = float(verdict.accuracy)
    assert share[judged.wrong].sum() / share.sum() == pytest.approx(1 - right, rel=1e-9)
    with pytest.raises(UnsupportedError, match="cannot be told from zero"):
        judge(construct("majority", max_length=None), vectors_up_to(3, 6))


def test_patterns_and_draws_have_the_risks_of_the_models():
    rng = np.random.default_rng(0)
    wrong = rng.random((9, 500)) < np.linspace(0.02, 0.5, 9)[:, None]
    chances = rng.dirichlet(np.ones(500))
    strata = rng.integers(0, 3, 500)
    patterns, table = error_patterns(wrong, chances, strata)
    risks = wrong @ chances
    assert np.allclose(table.sum(axis=0) @ patterns, risks)
    assert np.allclose(table.sum(axis=1), [chances[strata == k].sum() for k in range(3)])
    drawn = draw_errors(rng, patterns, table, 200, 4000) / 200
    assert np.allclose(drawn.mean(axis=0), risks, atol=5 * 0.5 / math.sqrt(200 * 4000))
    assert np.allclose(drawn.var(axis=0), risks * (1 - risks) / 200, rtol=0.15)
    sizes = [50, 70, 80]
    drawn = draw_errors(rng, patterns, table, sizes, 4000)
    within = [
        wrong[:, strata == k] @ chances[strata == k] / chances[strata == k].sum() for k in range(3)
    ]
    mean = sum(size * risk for size, risk in zip(sizes, within, strict=True))
    assert np.allclose(drawn.mean(axis=0), mean, atol=0.6)


def test_clopper_pearson_covers_and_no_narrower_end_would():
    """Every count's interval, judged by the binomial itself."""
    n, delta = 40, 0.1
    counts = np.arange(n + 1, dtype=float)
    low, high = clopper_pearson(counts, n, delta)
    for risk in np.linspace(0, 1, 101):
        inside = (low <= risk) & (risk <= high)
        assert binom.pmf(counts[inside], n, risk).sum() >= 1 - delta - 1e-12
    for x in range(1, n + 1):
        assert binom.sf(x - 1, n, low[x]) == pytest.approx(delta / 2)
        assert binom.cdf(x - 1, n, high[x - 1]) == pytest.approx(delta / 2)


def test_the_bounds_are_the_formulas_and_the_source_is_looser():
    assert uniform_bound(8, 100, 0.05) == pytest.approx(math.sqrt(math.log(320) / 200))
    assert source_bound(8, 100, 0.05) == pytest.approx(math.sqrt(math.log(160) / 100))
    for models, delta in product((1, 2, 50), (0.01, 0.4, 0.9)):
        looser = source_bound(models, 7, delta) >= uniform_bound(models, 7, delta)
        assert looser == (models / delta >= 2)
    exact = sum(binom.pmf(k, 30, 0.2) for k in range(31) if abs(k / 30 - 0.2) <= 0.1 + 1e-12)
    assert chance_within(0.2, 30, 0.1) == pytest.approx(exact)


def test_the_laboratory_refuses_lengths_out_of_reach():
    for options in ({"beyond": 1}, {"beyond": 2000}, {"max_length": 500}, {"delta": 0.0}):
        with pytest.raises(ConfigError):
            tsc.lab("bounds", **options)


def test_each_step_of_the_derivation_is_at_least_the_one_before():
    """Three models that err together, so that the union bound really gives something away."""
    n, risks = 50, np.array([0.1, 0.1, 0.3])
    rng = np.random.default_rng(0)
    shared = rng.binomial(n, 0.1, size=20_000) / n
    seen = np.stack([shared, shared, rng.binomial(n, 0.3, size=20_000) / n], axis=1)
    for epsilon in (0.05, 0.11, 0.2):
        found, union, worst, hoeffding = bounds.chances_of_steps(seen, risks, n, epsilon)
        off = [
            sum(binom.pmf(k, n, r) for k in range(n + 1) if abs(k / n - r) > epsilon + 1e-9)
            for r in risks
        ]
        one_of_two = off[0] + off[2] - off[0] * off[2]
        assert found == pytest.approx(one_of_two, abs=0.015)
        assert union == pytest.approx(sum(off))
        assert worst == pytest.approx(3 * max(off))
        assert hoeffding == pytest.approx(6 * math.exp(-2 * n * epsilon**2))
        assert one_of_two < union <= worst <= hoeffding
    at_bound = bounds.chances_of_steps(seen, risks, n, uniform_bound(3, n, 0.05))
    assert at_bound[-1] == pytest.approx(0.05)
