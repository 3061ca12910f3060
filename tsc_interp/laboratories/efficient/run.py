"""What do cheaper forms of attention cost a classifier, and what is exact at no cost?

Full attention over n positions takes n² steps. The laboratory puts cheaper forms into a trained
classifier, as interventions on its pattern (`blocks.0.attn.hook_pattern`) or its scores, at a
budget:

    low rank            the n × n pattern cut to its largest singular values (Linformer's argument)
    projection          softmax(q (E K)ᵀ) (E V), E of budget × n, random or learned (Linformer)
    window and random   CLS reads half of the budget next to it and half anywhere (BigBird)
      ... and CLS       the same with CLS a global token, which reads everything
    random features     φ(q)·φ(k) for exp(q·k), φ(x) = exp(ω·x - |x|²/2) / √m (Performer)

It measures the error of the logit and the share of answers that flip, on random strings of each
length. Two results are exact. A model with random features is a model with other keys, so its
**horizon** can be computed over all lengths. And if CLS reads only b positions, chosen without
looking at the letters, then `b{n}` and the same string with an unread `a` have the same logit. So
the horizon is at most b, and at most that of the model itself.

**Multiplicities.** Without positions all copies of a letter have the same key, so one key per
letter, with its count as a multiplicity, gives exactly the same attention at a cost that does not
grow with n. For the same reason the rank of the pattern is at most the number of letters, so low
rank is exact from that rank on.
"""

from __future__ import annotations

import numpy as np

from tsc_interp.checkpoints.resolve import as_checkpoint
from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.laboratories.efficient import exact, graph, timing, ways
from tsc_interp.laboratories.efficient.heads import (
    Floats,
    Heads,
    Ints,
    by_letter,
    counts_of,
    random_strings,
)
from tsc_interp.laboratories.efficient.result import (
    FEATURES,
    GLOBAL,
    LEARNED,
    RANDOM,
    RANK,
    WAYS,
    WINDOW,
    EfficientOptions,
    EfficientResult,
)
from tsc_interp.laboratories.efficient.ways import learn
from tsc_interp.laboratories.every_string import exact_horizon
from tsc_interp.model.threads import one_thread

STATISTICS = ("logit error", "flips", "wrong")
LONGEST_LEARNED = 64
"""A projection is learned for one length; beyond this one it takes too long to fit."""
MOST_LEARNED = 16


@one_thread()
def run(asked: EfficientOptions, progress: Progress) -> EfficientResult:
    checkpoint = as_checkpoint(asked.model)
    heads = Heads.of(checkpoint)
    errors, unmoved = _errors(heads, asked, progress)
    progress("exact horizons")
    own = exact_horizon(checkpoint)
    horizons = np.zeros((asked.draws, len(asked.features)))
    for draw, place in np.ndindex(horizons.shape):
        progress(f"exact horizon with {asked.features[place]} features, draw {draw}")
        rng = np.random.default_rng([asked.seed, 1, draw, place])
        scores = ways.feature_scores(heads, rng, asked.features[place])
        horizons[draw, place] = exact_horizon(exact.with_scores(checkpoint, heads, scores))
    n_letters, n_heads = heads.keys.shape[:2]
    ranks = range(1, n_letters + 1)
    progress(f"low rank on every string up to {asked.max_length} letters")
    cut = [exact.low_rank_errors(heads, asked.max_length, rank) for rank in ranks]
    progress("timing")
    seconds = timing.measure(
        heads, np.array(asked.clock_lengths), np.random.default_rng([asked.seed, 2])
    )
    return EfficientResult(
        options=asked,
        n_letters=n_letters,
        n_heads=n_heads,
        own_horizon=own,
        errors=errors,
        unmoved=unmoved,
        ranks=LabeledArray.of(
            cut, rank=ranks, statistic=("largest error", "flips", "wrong", "right through")
        ),
        horizons=LabeledArray.of(horizons, draw=range(asked.draws), features=asked.features),
        windows=LabeledArray.of(
            [exact.window_horizon(heads, budget, own) for budget in asked.budgets],
            budget=asked.budgets,
        ),
        layers=graph.study(asked),
        clock=LabeledArray.of(seconds, way=timing.TIMED, length=asked.clock_lengths),
    )


def _errors(
    heads: Heads, asked: EfficientOptions, progress: Progress
) -> tuple[LabeledArray, LabeledArray]:
    n_letters = len(heads.keys)
    shape = (len(WAYS), len(asked.lengths), len(asked.budgets), len(STATISTICS))
    errors, unmoved = np.full(shape, np.nan), np.zeros((len(asked.lengths), 1))
    for i, length in enumerate(asked.lengths):
        rng = np.random.default_rng([asked.seed, 0, length])
        rows = random_strings(rng, n_letters, length, asked.strings)
        counts = counts_of(rows, n_letters)
        full, labels = heads.logits(counts), heads.labels(counts)
        unmoved[i] = ((full > 0) != labels).mean()
        for w, way in enumerate(WAYS):
            progress(f"{way}, {length} letters")
            for j, budget in enumerate(asked.budgets):
                rng = np.random.default_rng([asked.seed, 3, w, length, budget])
                weights = _weights(heads, way, rows, counts, budget, rng, asked.steps)
                if weights is None:
                    continue
                logits = heads.logits(counts, weights)
                flips, wrong = (logits > 0) != (full > 0), (logits > 0) != labels
                errors[w, i, j] = np.abs(logits - full).mean(), flips.mean(), wrong.mean()
    axes = {"length": asked.lengths, "budget": asked.budgets, "statistic": STATISTICS}
    return (
        LabeledArray.of(errors, way=WAYS, **axes),
        LabeledArray.of(unmoved, length=asked.lengths, statistic=("wrong",)),
    )


def _weights(
    heads: Heads, way: str, rows: Ints, counts: Ints, budget: int, rng: np.random.Generator,
    steps: int,
) -> Floats | None:  # fmt: skip
    """`[string head letter]`, or None where a way is not tried at this length and budget."""
    n_letters, length = len(heads.keys), rows.shape[1]
    if way == RANK:
        return ways.low_rank(heads, counts, budget)
    if way == FEATURES:
        return ways.featured(counts, ways.feature_scores(heads, rng, budget))
    if way in (WINDOW, GLOBAL):
        read = ways.positions_read(rng, budget, length, reads_all=way == GLOBAL)
        return by_letter(ways.sparse(heads, rows, read), rows, n_letters)
    if way == RANDOM:
        mix = ways.random_projection(rng, budget, length)
        return by_letter(ways.projected(heads, rows, mix, mix), rows, n_letters)
    assert way == LEARNED
    if length > LONGEST_LEARNED or budget > MOST_LEARNED:
        return None
    return by_letter(
        ways.projected(heads, rows, *learn(heads, rng, budget, length, steps)), rows, n_letters
    )
