"""The bounds themselves: how far a validation error can be from the true risk."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom, chi2

from tsc_interp.laboratories.every_string import Floats


def uniform_bound(models: int, strings: int, delta: float) -> float:
    """sqrt(ln(2M / delta) / (2N)): Hoeffding for each of M models, and the union bound."""
    return math.sqrt(math.log(2 * models / delta) / (2 * strings))


def source_bound(models: int, strings: int, delta: float) -> float:
    """sqrt(ln(M / delta) / N), as the lecture notes end: never below the other if M / delta > 2."""
    return math.sqrt(math.log(models / delta) / strings)


def chance_within(risk: float, strings: int, distance: float) -> float:
    """How often a binomial share is within `distance` of its mean, exactly."""
    low = math.ceil(strings * (risk - distance) - 1e-9)
    high = math.floor(strings * (risk + distance) + 1e-9)
    return float(binom.cdf(high, strings, risk) - binom.cdf(low - 1, strings, risk))


def chi_square(observed: Floats, expected: Floats, least: float = 10.0) -> tuple[float, int, float]:
    """The statistic, its degrees of freedom and its p-value; rare cells are taken together."""
    common = expected >= least
    seen = np.r_[observed[common], observed[~common].sum()]
    pooled = np.r_[expected[common], expected[~common].sum()]
    kept = pooled > 0
    statistic = float((((seen - pooled) ** 2)[kept] / pooled[kept]).sum())
    freedom = int(kept.sum()) - 1
    return statistic, freedom, float(chi2.sf(statistic, freedom))
