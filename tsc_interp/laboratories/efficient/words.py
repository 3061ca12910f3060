"""What the efficient laboratory found, in sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsc_interp.laboratories.base import Finding, LabeledArray
from tsc_interp.laboratories.efficient.result import (
    FEATURES,
    GLOBAL,
    LEARNED,
    PARTS,
    RANDOM,
    WINDOW,
    EfficientResult,
)


def findings(result: EfficientResult) -> tuple[Finding, ...]:
    statements = [
        _global(result), _features(result), _rank(result), _projections(result), _weights(result)
    ]  # fmt: skip
    statements += [] if result.layers is None else [_layers(result, result.layers)]
    return (*statements, *([] if result.clock is None else [_clock(result, result.clock)]))


def reach(horizon: float) -> str:
    return "any length" if np.isinf(horizon) else f"{horizon:,.0f} letters"


def _global(result: EfficientResult) -> Finding:
    """Budget and length at which the difference is plainest: the longest and the largest below."""
    length = result.options.lengths[-1]
    budgets = [b for b in result.options.budgets if b < length] or [result.options.budgets[0]]
    budget = budgets[-1]
    window = result.errors.at(way=WINDOW, length=length, budget=budget)
    whole = result.errors.at(way=GLOBAL, length=length, budget=budget)
    horizon = float(result.windows.at(budget=budget))
    return Finding.of(
        f"A window with random keys does not work here unless CLS reads everything. If CLS "
        f"reads {budget} of {length} letters, {window[1]:.1%} of the answers flip and the exact "
        f"horizon is {reach(horizon)}, because an unread letter can change the label but not the "
        f"logit. With CLS as a global token {whole[1]:.1%} flip (logits differ by {whole[0]:.1e}), "
        f"and the horizon is that of the model itself, {reach(result.own_horizon)}.",
        {"flips": float(window[1]), "horizon": horizon, "own": result.own_horizon},
        "failure",
    )


def _features(result: EfficientResult) -> Finding:
    features = [int(m) for m in result.horizons.labels["features"]]
    fewest, most = result.horizons.array[:, 0], result.horizons.array[:, -1]
    length = result.options.lengths[-1]
    flips = result.errors.at(way=FEATURES, length=length)[:, 1]
    return Finding.of(
        "Random features estimate exp(q·k) badly where one score must be much larger than the "
        f"others. With {features[0]} features the exact horizon is {_between(fewest)}, with "
        f"{features[-1]:,} it is {_between(most)}; the model itself has "
        f"{reach(result.own_horizon)}. At {length} letters and {result.options.budgets[-1]} "
        f"features {flips[-1]:.1%} of the answers flip.",
        {
            f"best with {features[-1]}": float(most.max()),
            "own": result.own_horizon,
            "flips": float(flips[-1]),
        },
        "warning",
    )


def _between(horizons: NDArray[np.float64]) -> str:
    low, high = float(horizons.min()), float(horizons.max())
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f} (over draws)"


def _rank(result: EfficientResult) -> Finding:
    error, flips = result.ranks.at(statistic="largest error"), result.ranks.at(statistic="flips")
    by_rank = "; ".join(
        f"rank {rank}: {flip:.1%} of the count vectors flip, a logit is up to {miss:.2g} off"
        for rank, flip, miss in zip(result.ranks.labels["rank"], flips, error, strict=True)
    )
    return Finding.of(
        f"The n × n attention pattern has rank at most {result.n_letters}, the size of the "
        f"alphabet, for every n. Over all strings of up to {result.options.max_length} letters: "
        f"{by_rank}.",
        {
            "largest error at full rank": float(error[-1]),
            "flips at rank 1": float(flips[0]),
        },
        "good",
    )


def _projections(result: EfficientResult) -> Finding:
    """Learned against random, at the largest budget below the longest length learned for."""
    learned = result.errors.at(way=LEARNED, statistic="flips")
    tried = np.argwhere(np.isfinite(learned))
    i, j = max(
        (
            (int(i), int(j))
            for i, j in tried
            if result.options.budgets[j] < result.options.lengths[i]
        ),
        default=(0, 0),
    )
    length, budget = result.options.lengths[i], result.options.budgets[j]
    cells = {
        way: result.errors.at(way=way, length=length, budget=budget) for way in (RANDOM, LEARNED)
    }
    return Finding.of(
        f"A projection of {length} positions to {budget} mixes keys before the softmax can "
        f"separate them: {cells[RANDOM][1]:.1%} of the answers flip with a random projection, "
        f"{cells[LEARNED][1]:.1%} with one learned for this length ({result.options.steps} steps). "
        "The needed letter may stand anywhere, and a few mixtures of positions cannot single it "
        "out.",
        {"random": float(cells[RANDOM][1]), "learned": float(cells[LEARNED][1])},
        "warning",
    )


def _weights(result: EfficientResult) -> Finding:
    wrong = result.unmoved.at(statistic="wrong")
    lengths = result.options.lengths
    return Finding.of(
        f"Full attention is wrong on {wrong[0]:.1%} of the {result.options.strings} strings "
        f"of {lengths[0]} letters and on {wrong[-1]:.1%} of those of {lengths[-1]}. A flip is a "
        "difference from full attention, not from the label.",
        {f"wrong at {n}": float(w) for n, w in zip(lengths, wrong, strict=True)},
    )


def _clock(result: EfficientResult, clock: LabeledArray) -> Finding:
    first, last = clock.labels["length"][0], clock.labels["length"][-1]
    full, same = clock.at(way="full"), clock.at(way="multiplicities")
    cheap = {way: clock.at(way=way)[-1] for way in clock.labels["way"][1:-1]}
    name = min(cheap, key=lambda way: float(cheap[way]))
    return Finding.of(
        f"From {first} to {last} letters ({int(last) // int(first)} times as many) full "
        f"attention takes {full[-1] / full[0]:,.1f} times as long on this machine; the number of "
        f"operations grows {(int(last) // int(first)) ** 2:,} times, and memory and other work "
        "change the rest. Attention with multiplicities is exact and takes "
        f"{same[-1] / same[0]:.1f} times as long. At {last} letters the two take "
        f"{1e3 * full[-1]:.3f} and {1e3 * same[-1]:.3f} ms, and the fastest approximation ({name}) "
        f"takes {1e3 * cheap[name]:.3f} ms.",
        {"full": float(full[-1]), "multiplicities": float(same[-1])},
        "good",
    )


def _layers(result: EfficientResult, layers: LabeledArray) -> Finding:
    """Of the longest strings: what depends on what after how many layers."""
    length = result.options.lengths[-1]
    first, second = layers.at(length=length).T
    heard, pairs = (dict(zip(PARTS, map(int, row), strict=True)) for row in (first, second))
    window, random, reads, read, every = PARTS
    return Finding.of(
        f"How many layers BigBird's parts need at {length} letters, for any weights: for CLS "
        f"to depend on every letter, a window alone needs {heard[window]} layers, {heard[random]} "
        f"with random links, and {heard[reads]} if CLS reads everything. For every letter to "
        f"depend on every other, the numbers are {pairs[window]}, {pairs[random]} and "
        f"{pairs[reads]}; if letters also attend to CLS it takes {pairs[read]} layers "
        f"({pairs[every]} with random links as well). These are lower bounds; training may need "
        "more.",
        {f"every other: {parts}": count for parts, count in pairs.items()},
    )
