"""The balanced stream's exact distribution over count vectors, and draws from it.

A string of the stream belongs to a subset S of the P positive letters, s of them. Given S:

    its length n is uniform on max(s, 1) .. max_length
    m, how many of its letters are positive, is uniform on s .. n (0 if S is empty)
    each letter of S occurs once, and the m - s that are left are drawn from shares that are
        themselves Dirichlet(alpha / s, ...): a Dirichlet-multinomial
    the n - m other letters are uniform and independent: a multinomial

A vector determines S, n and m, so its probability is a product of these. How often each S occurs is
not drawn at all: every batch holds the same number of each. So a validation set is *stratified*,
and a string drawn at random from it has the mixture's distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from tsc_interp.config import ClassifierConfig
from tsc_interp.data import BalancedStream
from tsc_interp.data.balanced import budgets
from tsc_interp.laboratories.every_string import Floats, Integers


def subset_shares(stream: BalancedStream, config: ClassifierConfig) -> Floats:
    """The share of a batch that each subset owns, subsets as bit masks."""
    sizes = budgets(stream.batch_size, len(config.task.needs))
    return np.array(sizes, dtype=np.float64) / sum(sizes)


def subsets_of(config: ClassifierConfig, counts: Integers) -> Integers:
    """The subset of positive letters in each vector, as a bit mask."""
    named = [config.alphabet.index(letter) for letter in config.task.needs]
    bits = 1 << np.arange(len(named))
    return np.asarray((counts[:, named] > 0) @ bits)


def probabilities(
    stream: BalancedStream,
    config: ClassifierConfig,
    counts: Integers,
    *,
    given_length: bool = False,
) -> Floats:
    """Of each vector, zero beyond the stream's length; or given the vector's own length."""
    named = [config.alphabet.index(letter) for letter in config.task.needs]
    others = [t for t in range(config.n_letters) if t not in named]
    positive, rest = counts[:, named], counts[:, others]
    n, m, s = counts.sum(axis=1), positive.sum(axis=1), (positive > 0).sum(axis=1)
    log = np.log(subset_shares(stream, config))[subsets_of(config, counts)]
    if not given_length:
        log = log - np.log(stream.max_length - np.maximum(s, 1) + 1)
        log = np.where(n > stream.max_length, -np.inf, log)
    log = log - np.where(s > 0, np.log(n - s + 1), 0.0)
    # Shares: alpha / s each, alpha in all; one letter alone takes them all.
    share = stream.alpha / np.maximum(s, 1)
    extra = np.maximum(positive - 1, 0)
    present = positive > 0
    log = log + np.where(
        s > 0,
        _multinomial(extra) + gammaln(stream.alpha) - gammaln(m - s + stream.alpha),
        0.0,
    )
    ratios = gammaln(extra + share[:, None]) - gammaln(share)[:, None]
    log = log + np.where(present, ratios, 0).sum(1)
    log = log + _multinomial(rest) - rest.sum(axis=1) * np.log(max(len(others), 1))
    if given_length:
        # Too short for some subsets: the others share the length among them.
        owned = np.array([_owned(stream, config, length) for length in range(int(n.max()) + 1)])
        log = log - np.log(owned[n])
    return np.asarray(np.exp(log))


def _owned(stream: BalancedStream, config: ClassifierConfig, length: int) -> float:
    """The share of the subsets that a string of this length can belong to."""
    shares = subset_shares(stream, config)
    fits = [max(subset.bit_count(), 1) <= length for subset in range(len(shares))]
    return max(float(shares[fits].sum()), 1e-300)


def _multinomial(counts: Integers) -> Floats:
    return np.asarray(gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1))


def error_patterns(wrong: np.ndarray, chances: Floats, strata: Integers) -> tuple[Floats, Floats]:
    """`[pattern model]` and `[stratum pattern]`: which models are wrong together, and how often.

    Strings on which the same models are wrong need not be told apart, so that a validation set is
    drawn as a few numbers.
    """
    packed = np.ascontiguousarray(np.packbits(wrong, axis=0).T)
    rows = packed.view([("", packed.dtype)] * packed.shape[1]).ravel()  # one value each, to sort
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    cells = strata * len(first) + inverse.ravel()
    cells_in_all = (int(strata.max()) + 1) * len(first)
    table = np.asarray(np.bincount(cells, chances, minlength=cells_in_all), dtype=np.float64)
    return wrong[:, first].T.astype(np.float64), table.reshape(-1, len(first))


def draw_errors(
    rng: np.random.Generator,
    patterns: Floats,
    table: Floats,
    sizes: Sequence[int] | int,
    times: int,
) -> Floats:
    """`[time model]`: wrong answers in validation sets.

    `sizes` is how many strings of each stratum a set has, or how many there are of the mixture.
    """
    if isinstance(sizes, int):
        chances = table.sum(axis=0)
        drawn = rng.multinomial(sizes, chances / chances.sum(), size=times)
    else:
        strata = [
            rng.multinomial(size, row / row.sum(), size=times)
            for size, row in zip(sizes, table, strict=True)
        ]
        drawn = np.sum(strata, axis=0)
    return np.asarray(drawn @ patterns)
