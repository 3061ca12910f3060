"""The bounds themselves: how far a validation error can be from the true risk."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom, chi2

from tsc_interp.laboratories.base import LabeledArray
from tsc_interp.laboratories.bounds.result import STEPS, Derivation
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


# -- the uniform bound, derived step by step, each step beside the exact chance it bounds ----------
#
#    P(some model of M is off by more than ε)
#        ≤  Σ_m P(model m is off by more than ε)          union bound
#        ≤  M · max_m P(model m is off by more than ε)
#        ≤  M · 2 exp(-2 N ε²)                            Hoeffding: N independent errors in [0, 1]
#
# Setting the last line to δ and solving gives ε = sqrt(ln(2M/δ) / (2N)). Risks are known exactly
# here and errors of one model are binomial, so all lines but the first are computed; the first is
# counted over simulated validation sets.

SIZES = tuple(60 * 4**k for k in range(7))
MODELS = (1, 16, 1000, 1_000_000)
DELTAS = (0.1, 0.05, 0.001)


def steps(seen: Floats, risks: Floats, strings: int, epsilon: float) -> list[float]:
    """Return the four chances at one ε, smallest first.

    Args:
        seen: `[set model]`, validation errors as shares.
        risks: `[model]`, exact.
        strings: N, in each set.
        epsilon: How far a share may be from the risk.
    """
    far = (np.abs(seen - risks) > epsilon + 1e-9).any(axis=1).mean()
    chances = [max(0.0, 1 - chance_within(float(risk), strings, epsilon)) for risk in risks]
    models = len(risks)
    hoeffding = 2 * models * math.exp(-2 * strings * epsilon**2)
    return [float(far), sum(chances), models * max(chances), hoeffding]


def derive(seen: Floats, risks: Floats, strings: int, delta: float) -> Derivation:
    """Return the chances at the ε that would have held in 1 - δ of the sets, and at the bound."""
    held = float(np.quantile(np.abs(seen - risks).max(axis=1), 1 - delta))
    distances = {"would have held": held, "the bound": uniform_bound(len(risks), strings, delta)}
    grid = [[[uniform_bound(m, n, d) for d in DELTAS] for m in MODELS] for n in SIZES]
    return Derivation(
        chances=LabeledArray.of(
            [steps(seen, risks, strings, distance) for distance in distances.values()],
            distance=distances,
            step=STEPS,
        ),
        distances=LabeledArray.of(list(distances.values()), distance=distances),
        epsilon=LabeledArray.of(grid, strings=SIZES, models=MODELS, delta=DELTAS),
    )
