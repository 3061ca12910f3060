"""95 % confidence intervals for what a sample of seeds or strings shows.

A proportion gets Clopper and Pearson's exact interval; a median or a mean of seeds gets a
percentile bootstrap. Neither is a proof: both describe what other seeds would show. The bootstrap
of fewer than about ten values is too narrow, and an interval of four seeds is a hint at most.

Example:
    >>> told_share(7, 8)
    '7 of 8 (88%, 95% CI 47% to 100%)'
    >>> told_median([104, 66, 228, 783, 91, 310])
    '166 (95% CI 66 to 783)'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv

from tsc_interp.errors import UsageError

Floats = NDArray[np.float64]
Values = Sequence[float] | Sequence[int] | NDArray[np.floating] | NDArray[np.integer]

LEVEL = 0.95
_RESAMPLES = 10_000
_SEED = 0


class Interval(NamedTuple):
    """Both ends of a confidence interval."""

    low: float
    high: float


def clopper_pearson(successes: Floats, trials: int, delta: float) -> tuple[Floats, Floats]:
    """Return the low and high ends for each number of successes.

    Args:
        successes: How often it happened, one number per interval.
        trials: Out of how many.
        delta: The chance to miss; each end misses with delta / 2 or less.
    """
    with np.errstate(invalid="ignore"):
        low = betaincinv(successes, trials - successes + 1, delta / 2)
        high = betaincinv(successes + 1, trials - successes, 1 - delta / 2)
    return np.where(successes == 0, 0.0, low), np.where(successes == trials, 1.0, high)


def share_interval(successes: int, trials: int, level: float = LEVEL) -> Interval:
    """Return Clopper and Pearson's exact interval for a proportion.

    Args:
        successes: How often it happened.
        trials: Out of how many; without any, the interval is all of 0 to 1.
        level: The least chance that the interval holds the true proportion.

    Raises:
        UsageError: If there are more successes than trials, or fewer than none.

    Example:
        >>> share_interval(256, 256).low > 0.98
        True
    """
    if not 0 <= successes <= trials:
        raise UsageError(f"{successes} of {trials} is no proportion; give 0 <= successes <= trials")
    if trials == 0:
        return Interval(0.0, 1.0)
    low, high = clopper_pearson(np.array([float(successes)]), trials, 1 - level)
    return Interval(float(low[0]), float(high[0]))


def median_interval(values: Values, level: float = LEVEL) -> Interval:
    """Return the percentile-bootstrap interval of a median.

    A resample's median is one of the values or the mean of two of them, and how often it is at
    most the k-th smallest is a binomial probability. So the quantiles are computed exactly, no
    resample is drawn, and infinite values (models that are right at every length) are allowed.
    Of an even number of values the low end is the lower middle's and the high end the upper one's.

    Args:
        values: One per seed.
        level: The share of resamples whose median lies inside.

    Raises:
        UsageError: If there are no values.
    """
    ordered = np.sort(_some(values))
    n = len(ordered)
    below = np.arange(1, n + 1) / n
    tail = (1 - level) / 2
    # P(the m-th smallest of a resample <= the k-th smallest value) = P(Binomial(n, k/n) >= m).
    lower, upper = (1 - bdtr(m - 1, n, below) for m in ((n + 1) // 2, n // 2 + 1))
    low, high = (int(np.argmax(c >= t)) for c, t in ((lower, tail), (upper, 1 - tail)))
    return Interval(float(ordered[low]), float(ordered[high]))


def mean_interval(values: Values, level: float = LEVEL) -> Interval:
    """Return the percentile-bootstrap interval of a mean, from 10,000 resamples of a fixed seed.

    Args:
        values: One per seed, all finite.
        level: The share of resamples whose mean lies inside.

    Raises:
        UsageError: If there are no values.
    """
    numbers = _some(values)
    n = len(numbers)
    counts = np.random.default_rng(_SEED).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
    low, high = np.quantile(counts @ numbers / n, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def sign_test(differences: Values) -> float:
    """Return the p-value of the two-sided sign test; pairs without a difference do not count.

    Heavy tails cannot sway it, and fewer than six pairs cannot pass it at 0.05.

    Example:
        >>> sign_test([1, 2, 1, 5, 3, 2, 0])
        0.03125
    """
    signs = np.sign(np.asarray(differences, dtype=np.float64))
    more, less = int((signs > 0).sum()), int((signs < 0).sum())
    return min(1.0, 2 * float(bdtr(min(more, less), more + less, 0.5))) if more + less else 1.0


def told_share(successes: int, trials: int, digits: int = 0) -> str:
    """Return a proportion as a sentence says it: `7 of 8 (88%, 95% CI 47% to 100%)`."""
    if not trials:
        return "none"
    share = told_percent(successes, trials, digits).replace(" (", ", ")
    return f"{successes:,} of {trials:,} ({share}"


def told_percent(successes: int, trials: int, digits: int = 0) -> str:
    """Return a proportion without its counts: `88% (95% CI 47% to 100%)`."""
    return _told(successes / trials, share_interval(successes, trials), f"{{:.{digits}%}}".format)


def told_median(values: Values) -> str:
    """Return a median of lengths as a sentence says it: `166 (95% CI 66 to 783)`."""
    numbers = _some(values)
    return _told(float(np.median(numbers)), median_interval(numbers), _length)


def told_mean(values: Values, digits: int = 0) -> str:
    """Return a mean of proportions as a sentence says it: `61% (95% CI 42% to 80%)`."""
    return _told(float(np.mean(values)), mean_interval(values), f"{{:.{digits}%}}".format)


def _told(middle: float, ends: Interval, write: Callable[[float], str]) -> str:
    return f"{write(middle)} ({LEVEL:.0%} CI {write(ends.low)} to {write(ends.high)})"


def _length(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,.0f}"


def _some(values: Values) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not len(numbers) or np.isnan(numbers).any():
        raise UsageError("an interval needs one number per seed, at least one and none missing")
    return numbers
