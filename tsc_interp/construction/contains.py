"""Contains-all, written down: plain softmax up to a length, and scores with log n for ever.

Each positive letter p has a direction e_p, all other letters sit at the origin, and for each p one
head scores a letter t by S (e_p · e_t) and returns the mean of e_p · e_t under its attention: close
to 1 if p occurs, no more than the next letter's e_p · e_t if it does not. The logit is the sum of
these means less a threshold.

    one letter     the weight of the letter, less a threshold
    two letters    e_a = 1 and e_b = -1: one dimension; the heads return the largest and the
                   smallest embedding in the string, and their difference is 2 only if both occur
    P letters      the corners of a regular P-gon: two dimensions

The proofs are in the documentation (theory/construct).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import lambertw, ndtr

from tsc_interp.config import ClassifierConfig
from tsc_interp.construction.written import (
    Construction,
    checked_length,
    checked_letters,
    embedding,
    one_head,
    written,
)
from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks.counts import ContainsAll

LOG_N_SHARPNESS = 2.0
"""How many times log n the letter read is ahead of every other; it must be above 1."""


def contains_all(
    letters: str, n_letters: int | None, length: int | None, log_n: bool, mlp: bool
) -> Construction:
    """Right up to `length` with plain softmax, or at every length: with log n, or with None.

    With an `mlp`, two letters and a length take one head and one neuron, else a head per letter.
    """
    task = ContainsAll(letters=letters)
    positive = task.letters
    n_letters = checked_letters(n_letters, positive)
    if log_n:
        length = None
    elif length is not None:
        checked_length(length, len(positive))
    config = one_head(
        task,
        n_letters,
        d_model=1 if len(positive) < 3 else 2,
        n_heads=len(positive),
        score_scale="sqrt_d_head_log_n" if log_n else "sqrt_d_head",
    )
    if len(positive) == 1:
        return _one(config, positive, length)
    if length is None and not log_n:
        return contains_two(config, positive)
    if len(positive) == 2 and length is not None and mlp:
        return one_neuron(config, positive, length)
    return _several(config, positive, length)


def _one(config: ClassifierConfig, letter: str, length: int | None) -> Construction:
    if config.log_n:
        weights = {"W_E": embedding(config, -0.5, {letter: 1.0}), "W_Q": -2 * LOG_N_SHARPNESS}
        how = "one head returns the weight of the letter, at least 4/5 where it occurs"
        return written(config, {**weights, "W_K": 1, "W_V": 1, "W_O": 1, "W_U": 1}, how, None)
    how = "the share of the letter, by uniform attention"
    finite = length is not None and config.n_letters > 1
    threshold = 1 / (length + 0.5) if length is not None and finite else 0.0
    weights = {"W_E": embedding(config, -threshold, {letter: 1.0}), "W_V": 1, "W_O": 1, "W_U": 1}
    return written(config, weights, how, length if finite else None, exactly=finite)


def _several(config: ClassifierConfig, positive: str, length: int | None) -> Construction:
    corners, count = directions(len(positive)), len(positive)
    nearest = max(0.0, float(np.sort(corners @ corners[0])[-2]))
    low = count - 1 + nearest  # the most that a string without one of the letters can reach
    if length is None:
        # A positive string reaches low + (1 - nearest) / count: the documentation proves it.
        sharpness, threshold = LOG_N_SHARPNESS / (1 - nearest), low + (1 - nearest) / (2 * count)
        how = "one head per letter; log n times 2 keeps each letter ahead at every length"
    else:
        threshold = low
        sharpness = _sharpness(corners, config.n_letters > len(positive), threshold, length)
        how = "one head per letter, its scores just sharp enough for this length"
    exactly = length is not None and count == 2
    return written(config, _weights(config, positive, sharpness, threshold), how, length, exactly)


def directions(count: int) -> NDArray[np.float64]:
    """`[letter dimension]`: +1 and -1, or the corners of a regular polygon."""
    if count == 2:
        return np.array([[1.0], [-1.0]])
    angles = 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def mean_sum(corners: NDArray[np.float64], sharpness: float, counts: NDArray[np.float64]) -> float:
    """The sum over heads of what they return; `counts` are of the letters, then of all others."""
    points = np.vstack([corners, np.zeros(corners.shape[1])])
    values = corners @ points.T
    scores = sharpness * values
    weights = counts * np.exp(scores - scores.max(axis=1, keepdims=True))
    return float(((weights * values).sum(1) / weights.sum(1)).sum())


def _sharpness(corners: NDArray[np.float64], others: bool, threshold: float, length: int) -> float:
    """The least S for which one of each letter and a filler to `length` is still positive.

    Half a letter more than `length` is where the logit is zero, so that the next length is wrong.
    """
    count = len(corners)
    fillers = range(count + 1 if others else count)

    def worst(sharpness: float) -> float:
        sums = []
        for filler in fillers:
            counts = np.array([1.0] * count + [0.0])
            counts[filler] += length + 0.5 - count
            sums.append(mean_sum(corners, sharpness, counts))
        return min(sums) - threshold

    high = 1.0
    while worst(high) <= 0:
        high *= 2
    return float(brentq(worst, 1e-9, high, xtol=1e-14, rtol=1e-14))


def _weights(
    config: ClassifierConfig, positive: str, sharpness: float, threshold: float
) -> dict[str, ArrayLike]:
    """Scores are a product of four weights: each is the fourth root, so that none is large.

    The first coordinate of CLS makes queries and, through the read-out, the threshold.
    """
    corners, d = directions(len(positive)), config.d_model
    size = sharpness**0.25
    cls = np.zeros(d)
    cls[0] = -size
    first = np.eye(d)[0]
    query = np.broadcast_to(first * -size, (len(positive), d))
    return {
        "W_E": embedding(config, cls, dict(zip(positive, size * corners, strict=True))),
        "W_Q": query[..., None],
        "W_K": (size * corners)[..., None],
        "W_V": corners[..., None],
        "W_O": np.broadcast_to(first / threshold, (len(positive), d))[:, None, :],
        "W_U": first[:, None],
    }


def contains_two(config: ClassifierConfig, positive: str) -> Construction:
    """Plain softmax at every length, with a logit that vanishes as strings grow.

    A plain-softmax model that is right at every length has a limit of exactly zero on long
    strings (documentation, theory/construct). That can be built. All scores are zero, so
    that one head returns the shares p of its tokens, CLS attended to; with E(x) = GELU(x) +
    GELU(-x), which is even and convex on [0, 1], the logit is

        E(p_a + p_b) - E(p_a - p_b) - E(p_CLS).

    Without a or without b the first two terms cancel. With both, they are at least E(2 p_CLS),
    which is twice the third or more. It falls like 1 / n^2, which float32 cannot hold for long.

    GELU(x) - GELU(-x) = x, so three neurons and the residual stream do for six.
    """
    if len(positive) != 2:
        raise UnsupportedError(
            f"plain softmax at every length is written down for two letters, not {len(positive)}: "
            "give max_length, or scores='log_n'"
        )
    wide = config.replace(d_model=4, n_heads=1, d_head=3, d_mlp=3, attend_cls=True)
    # Coordinates: the shares of the two letters and of CLS, and CLS's own embedding.
    first, second, cls, own = np.eye(4)
    weights = {
        "W_E": embedding(wide, own, {positive[0]: first, positive[1]: second}),
        "W_V": np.stack([first, second, own], axis=1),
        "W_O": np.stack([first, second, cls]),
        "W_in": np.stack([first + second, first - second, cls], axis=1),
        "W_out": 2 * np.stack([cls, -cls, -cls]),
        "W_U": cls - 2 * second,
    }
    how = "uniform attention and an even function of sums and differences of shares"
    return written(wide, weights, how, None)


# -- two letters with one head and one neuron: the fewest weights that can do it ------------------
#
# Measure positions from a threshold: a stands at -A, b at 1, every other letter at -C. The head
# weighs a letter at u by e^(K u): b weighs B = e^(K (1 + A)) times what a does, any other letter
# next to nothing, G = e^(-K (C - A)). With u the mean position in a string, one GELU neuron gives
# the logit the sign of
#
#     u (Phi(-2 u) / Phi(-2 h) - 1),    which is positive exactly where 0 < u < h.
#
# - Without b, u is negative. b alone stands at 1 > h, and c is too light to pull it below h.
# - One a among many b pulls the mean below h, and many a do not pull one b below 0.
#
# L letters a outweigh one b and L - 1 do not, which makes the horizon L. The other conditions hold
# for strings twice as long. The documentation (theory/construct) has the proofs, and shows that
# no model of this family has fewer weights.

GATE = 2.0
"""W_in: a larger one separates h from its neighbours better, until float32 loses Phi(-2 h)."""


@dataclass(frozen=True)
class Placed:
    """Where letters stand, in units of b's distance from the threshold."""

    sharpness: float
    """K."""
    a: float
    """A."""
    apart: int
    """C - A, how far the other letters are from a."""
    end: float
    """h."""


def placed(length: int) -> Placed:
    """Positions for a horizon of exactly `length`.

    Example:
        >>> placed(1000)  # doctest: +ELLIPSIS
        Placed(sharpness=1.0, a=0.002727..., apart=19, end=0.999816...)
    """
    sharpness = min(1.0, length / 10)
    # A = B / (L - 1/2) with B = e^(K (1 + A)): the smaller solution.
    a = -float(lambertw(-sharpness * math.exp(sharpness) / (length - 0.5)).real) / sharpness
    b, twice = math.exp(sharpness * (1 + a)), 2 * length
    beyond = (1 + a) / (1 + b * (twice - 1))  # 1 - u of one a among b
    apart = 1
    while _pulled(b, math.exp(-sharpness * apart), 1 + a + apart, twice) > beyond:
        apart += 1
    return Placed(sharpness, a, apart, 1 - beyond)


def _pulled(b: float, other: float, distance: float, length: int) -> float:
    """1 - u of one b among other letters that weigh `other` and stand `distance` from it."""
    return distance * other * (length - 1) / (b + other * (length - 1))


def one_neuron(config: ClassifierConfig, positive: str, length: int) -> Construction:
    """The model for two letters, right up to exactly `length`: one head, one neuron."""
    small = config.replace(n_heads=1, d_mlp=1)
    at = placed(length)
    first, second = positive[0], positive[1]
    others = {t: at.apart for t in config.alphabet.letters if t not in positive}
    size = math.sqrt(at.sharpness / at.a)
    weights = {
        # The first letter is at the origin, and CLS plus the mean of the letters is -u.
        "W_E": embedding(small, at.a, {second: -(1 + at.a), **others}),
        "W_Q": -size,
        "W_K": size,
        "W_V": 1,
        "W_O": 1,
        "W_in": GATE,
        "W_out": -1 / (GATE * ndtr(-GATE * at.end)),
        "W_U": 1,
    }
    how = f"one head finds {second}, {first} pulls it back, and a neuron makes an interval positive"
    return written(small, weights, how, length, exactly=True)
