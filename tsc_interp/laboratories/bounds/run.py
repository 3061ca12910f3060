"""What does a validation set say about a model, and what does it not?

You choose among M models with N validation strings. With probability 1 - delta, every validation
error is within sqrt(ln(2M / delta) / (2N)) of the model's risk (Hoeffding and a union bound); the
source ends with the looser sqrt(ln(M / delta) / N). For one model the Clopper-Pearson interval is
exact. For all models, and so for the chosen one, it is valid at delta / M.

Here the risk itself is known: the balanced stream's distribution over count vectors is a product
(distribution.py), and every vector is decided, so the risk is a sum. The laboratory draws thousands
of validation sets in three ways: independent strings; stratified sets with fixed numbers of each
kind, as the stream makes them (strings are independent within each kind, so Hoeffding's bound holds
too); and sets taken from the stream itself. It counts how often each claim holds, and how much
wider than necessary it is.

These bounds say nothing about longer strings. The exact risk at each length shows that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import BalancedStream
from tsc_interp.data.balanced import budgets
from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.laboratories.bounds.distribution import (
    draw_errors,
    error_patterns,
    probabilities,
    subsets_of,
)
from tsc_interp.laboratories.bounds.result import CHOICE, CLAIMS, DRAWS, BoundsOptions, BoundsResult
from tsc_interp.laboratories.bounds.statistics import (
    chance_within,
    chi_square,
    derive,
    source_bound,
    uniform_bound,
)
from tsc_interp.laboratories.every_string import Floats, Integers, judge, vectors_up_to
from tsc_interp.laboratories.trained import trained
from tsc_interp.results.intervals import clopper_pearson
from tsc_interp.training.config import TrainingConfig

QUANTILES = ("median", "1 - delta", "largest")
FIT = ("strings", "chi-square", "degrees of freedom", "p-value", "total variation", "expected")


def run(asked: BoundsOptions, progress: Progress) -> BoundsResult:
    config = ClassifierConfig()
    stream = BalancedStream(
        max_length=asked.max_length, alpha=asked.alpha, batches=asked.batches, seed=asked.seed
    )
    n = stream.batch_size * asked.batches
    progress(f"training {asked.seeds} models")
    models = trained(config, range(asked.seeds), TrainingConfig(max_epochs=asked.epochs))

    progress("deciding every string")
    vectors = vectors_up_to(config.n_letters, asked.max_length)
    wrong = np.stack([judge(model, vectors).wrong for model in models])
    chances = probabilities(stream, config, vectors)
    risks = wrong @ chances

    progress(f"taking {asked.stream_sets} validation sets from the stream")
    sampled = stream.replace(batches=asked.batches * asked.stream_sets).epoch(config, 0)
    places = _places(vectors, sampled)
    seen = wrong[:, places].reshape(asked.seeds, asked.stream_sets, n).sum(axis=2).T
    fit = _fit(places, chances)

    progress(f"simulating {asked.sets} validation sets")
    strata = subsets_of(config, vectors)
    patterns, table = error_patterns(wrong, chances, strata)
    rng = np.random.default_rng(asked.seed)
    sizes = [asked.batches * budget for budget in budgets(stream.batch_size, 2)]
    errors = {
        DRAWS[0]: draw_errors(rng, patterns, table, n, asked.sets),
        DRAWS[1]: draw_errors(rng, patterns, table, sizes, asked.sets),
        DRAWS[2]: seen.astype(np.float64),
    }
    first = seen[0]
    progress("the risk at each length")
    by_length = _by_length(models, stream, asked.lengths)
    fields = _claims(errors, risks, n, asked.delta)
    tried = sorted({stream.batch_size, 4 * stream.batch_size, n})
    choosing = [
        _choice(draw_errors(rng, patterns, table, size, asked.sets), risks, size, asked.delta)
        for size in tried
    ]
    return BoundsResult(
        options=asked,
        strings=n,
        bounds=LabeledArray.of(
            [uniform_bound(asked.seeds, n, asked.delta), source_bound(asked.seeds, n, asked.delta)],
            bound=CLAIMS[:2],
        ),
        risks=LabeledArray.of(
            np.stack([risks, first, first / n], axis=1),
            seed=range(asked.seeds),
            quantity=("exact risk", "errors", "validation error"),
        ),
        best=tuple(np.flatnonzero(first == first.min()).tolist()),
        imperfect=int((risks > 0).sum()),
        choosing=LabeledArray.of(choosing, strings=tried, quantity=CHOICE),
        by_length=LabeledArray.of(by_length, seed=range(asked.seeds), length=asked.lengths),
        fit=LabeledArray.of(fit, quantity=FIT),
        binomial_gap=_binomial_gap(errors[DRAWS[0]], risks, n),
        derivation=derive(errors[DRAWS[0]] / n, risks, n, asked.delta),
        **fields,
    )


def _places(vectors: Integers, sampled: Integers) -> Integers:
    """The place of each sampled string among all vectors."""
    base = int(vectors.max()) + 1
    weigh = base ** np.arange(vectors.shape[1])
    keys = vectors @ weigh
    order = np.argsort(keys)
    return np.asarray(order[np.searchsorted(keys[order], sampled @ weigh)])


def _fit(places: Integers, chances: Floats) -> Floats:
    """Chi-square, and total variation beside what so many draws would have by chance alone."""
    total = len(places)
    observed = np.bincount(places, minlength=len(chances)).astype(np.float64)
    statistic, freedom, p_value = chi_square(observed, chances * total)
    distance = np.abs(observed / total - chances).sum() / 2
    # E |X - np| of a Poisson number, by the normal for large means and 2 m e^-m for small ones.
    mean = chances * total
    apart = np.where(mean < 1, 2 * mean * np.exp(-mean), np.sqrt(2 * mean / np.pi))
    return np.array([total, statistic, freedom, p_value, distance, apart.sum() / total / 2])


def _claims(errors: dict[str, Floats], risks: Floats, n: int, delta: float) -> dict[str, Any]:
    """How often each claim holds and how wide it is, for each kind of draw."""
    models = len(risks)
    held, wide, far = [], [], []
    allowed = (uniform_bound(models, n, delta), source_bound(models, n, delta))
    for drawn in errors.values():
        distance = np.abs(drawn / n - risks).max(axis=1)
        one, every = (clopper_pearson(drawn, n, share) for share in (delta, delta / models))
        inside = [(low <= risks) & (risks <= high) for low, high in (one, every)]
        held.append(
            [
                *((distance <= bound).mean() for bound in allowed),
                inside[0].mean(),
                inside[1].all(axis=1).mean(),
            ]
        )
        wide.append([*allowed, *(((high - low) / 2).mean() for low, high in (one, every))])
        far.append([np.median(distance), np.quantile(distance, 1 - delta), distance.max()])
    return {
        "coverage": LabeledArray.of(held, draws=DRAWS, claim=CLAIMS),
        "widths": LabeledArray.of(wide, draws=DRAWS, claim=CLAIMS),
        "farthest": LabeledArray.of(far, draws=DRAWS, quantile=QUANTILES),
    }


def _choice(drawn: Floats, risks: Floats, n: int, delta: float) -> list[float]:
    """Among the models that have a risk: a model without errors is known by its risk of zero."""
    risky = risks > 0
    if not risky.any():
        return [0.0, 0.0, 1.0, 1.0]
    drawn, risks = drawn[:, risky], risks[risky]
    best = drawn.argmin(axis=1)
    own, truth = drawn[np.arange(len(best)), best], risks[best]
    held = []
    for share in (delta, delta / len(risks)):
        low, high = clopper_pearson(own, n, share)
        held.append(float(((low <= truth) & (truth <= high)).mean()))
    return [float(own.mean()) / n, float(truth.mean()), *held]


def _binomial_gap(drawn: Floats, risks: Floats, n: int) -> float:
    """Simulated against the binomial: how often each model's error is within a deviation of it."""
    gaps = []
    for errors, risk in zip(drawn.T, risks, strict=True):
        distance = float(np.sqrt(risk * (1 - risk) / n))
        within = np.abs(errors - n * risk) <= n * distance + 1e-9
        gaps.append(abs(float(within.mean()) - chance_within(risk, n, distance)))
    return max(gaps)


def _by_length(
    models: list[Checkpoint], stream: BalancedStream, lengths: tuple[int, ...]
) -> Floats:
    """`[seed length]`: the risk on the stream's strings given their length."""
    config = models[0].config
    risks = np.zeros((len(models), len(lengths)))
    for i, length in enumerate(lengths):
        vectors = vectors_up_to(config.n_letters, length, length)
        chances = probabilities(stream, config, vectors, given_length=True)
        risks[:, i] = [judge(model, vectors).wrong @ chances for model in models]
    return risks
