"""Are failures predictable from the problem, and are wrong answers roughly right?

A paper on transformers that do mathematics finds that nearly all failures can be predicted from
properties of the problem, that wrong answers stay roughly right, and that the training distribution
decides what generalises. Here every string up to a length is decided exactly, so predictions are
scored on all strings instead of a sample. Precision is the share of predicted failures that are
wrong, recall the share of wrong strings that were predicted; each count vector counts once, or each
string once.

Predictors are fitted on one seed and its shorter strings, and tested on its longer strings and on
other seeds. They are: rules read off the weights (rules.py); a tree of depth 3 and a logistic model
on features of the problem; and the source's method, a threshold on one feature between the 98th
percentile of right strings and the 2nd of wrong ones.

*Roughly right* is measured by the size of wrong logits, by which half of the rule is violated, and
by how many letters have to be added or dropped until the answer is right. *Training distribution*
compares exact horizons of models trained on strings of other lengths, other skews, or all strings
of a length.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import TRAIN, AllStrings
from tsc_interp.errors import UsageError
from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.laboratories.every_string import Flags, Floats, Judged, judge, vectors_up_to
from tsc_interp.laboratories.failures import invariants, learned, rules
from tsc_interp.laboratories.failures.result import (
    RULES,
    SCORES,
    TESTS,
    WEIGHTS,
    FailuresOptions,
    FailuresResult,
)
from tsc_interp.laboratories.trained import trained, trained_by_epoch
from tsc_interp.training.config import TrainingConfig
from tsc_interp.verification.horizons import horizon

PERCENTILES = ("ratio, right 98 %", "ratio, wrong 2 %", "share, right 2 %", "share, wrong 98 %")
LOGITS = ("wrong, median size", "wrong, largest", "right, median size", "wrong below 1")
HALVES = ("false negatives", "false positives")
STEPS = ("median", "90 %", "largest")
_FAR = 100_000


def run(asked: FailuresOptions, progress: Progress) -> FailuresResult:
    training = TrainingConfig(max_epochs=asked.epochs)
    sources = _sources(asked.cells, training)
    if asked.fit_seed >= asked.seeds or asked.fitted_to >= asked.max_length:
        raise UsageError("fit_seed must be one of the seeds, and fitted_to below max_length")
    progress(f"training {asked.seeds} models")
    models = trained(ClassifierConfig(), range(asked.seeds), training)
    progress(f"deciding every string up to {asked.max_length} letters")
    vectors = vectors_up_to(3, asked.max_length)
    judged = [judge(model, vectors) for model in models]
    progress("predicting failures")
    held = [rules.shares(model, verdict) for model, verdict in zip(models, judged, strict=True)]
    fields = _predicted(asked, models, judged, held, progress)
    progress("how wrong wrong answers are")
    fields |= _roughly(judged, held)
    horizons, speed = [], []
    for name, config in sources.items():
        progress(f"training {asked.seeds} models on {name}")
        own = trained_by_epoch(ClassifierConfig(), range(asked.seeds), config)
        speed.append([invariants.steps_to_good(epochs, config) for _, epochs in own])
        horizons.append(
            [horizon(model, limit=_FAR, prove=False).verified_length for model, _ in own]
        )
    return FailuresResult(
        options=asked,
        speed=LabeledArray.of(speed, cell=tuple(sources), seed=range(asked.seeds)),
        taken_back=LabeledArray.of(
            [invariants.taken_back(verdict) for verdict in judged],
            seed=range(asked.seeds),
            letter=models[0].config.alphabet.letters,
        ),
        horizons=LabeledArray.of(horizons, cell=tuple(sources), seed=range(asked.seeds)),
        **fields,
    )


def _sources(cells: str, training: TrainingConfig) -> dict[str, TrainingConfig]:
    """`length=5` and the like, as what to train on."""
    sources = {}
    for cell in filter(None, (part.strip() for part in cells.split(","))):
        name, _, value = cell.partition("=")
        try:
            if cell == "all strings":
                train: Any = AllStrings()
            elif name == "length":
                train = TRAIN.replace(max_length=int(value))
            elif name == "alpha":
                train = TRAIN.replace(alpha=float(value))
            else:
                raise ValueError
        except ValueError:
            raise UsageError(
                f"a training distribution is length=L, alpha=A or 'all strings', got {cell!r}"
            ) from None
        sources[cell] = training.replace(train=train)
    if not sources:
        raise UsageError("name one training distribution or more, such as length=20")
    return sources


# -- who foresees a failure ------------------------------------------------------------------------


def _predicted(
    asked: FailuresOptions,
    models: list[Checkpoint],
    judged: list[Judged],
    held: list[Floats],
    progress: Progress,
) -> dict[str, Any]:
    own = judged[asked.fit_seed]
    short = own.lengths <= asked.fitted_to
    table = rules.features(own)
    if not own.wrong[short].any():
        raise UsageError(
            f"seed {asked.fit_seed} has no error up to {asked.fitted_to} letters to learn from; "
            "take another fit_seed, or a longer fitted_to"
        )
    fitted = learned.fit(table[short], own.wrong[short], asked.fit_seed)
    threshold = _threshold(own, short)
    # Features of a string are the same for every model; only the rules read weights.
    learnt = {name: predictor(table) for name, predictor in fitted.tell.items()}
    others = [s for s in range(len(models)) if s != asked.fit_seed and judged[s].wrong.any()]
    log_strings = own.log_strings()
    weights = {"vectors": np.zeros(len(log_strings)), "strings": log_strings}
    scores = np.zeros((len(RULES), len(TESTS), len(WEIGHTS), len(SCORES)))
    singly = np.zeros((len(RULES), len(others), len(SCORES)))
    for seed in (asked.fit_seed, *others):
        progress(f"predicting failures of seed {seed}")
        predicted = {
            "margin rule": rules.margin_rule(held[seed], judged[seed]),
            "cone rule": rules.cone_rule(models[seed], held[seed], judged[seed]),
            **learnt,
            "largest ratio": judged[seed].labels & (rules.largest_ratio(judged[seed]) > threshold),
        }
        parts = {0: short, 1: ~short} if seed == asked.fit_seed else {2: np.ones_like(short)}
        share = 1 if seed == asked.fit_seed else len(others)
        for t, part in parts.items():
            for (r, rule), (w, weight) in product(enumerate(RULES), enumerate(WEIGHTS)):
                scored = rules.precision_and_recall(
                    predicted[rule][part], judged[seed].wrong[part], weights[weight][part]
                )
                scores[r, t, w] += np.array(scored) / share
                if t == 2 and weight == WEIGHTS[0]:
                    singly[r, others.index(seed)] = scored
    return {
        "scores": LabeledArray.of(scores, rule=RULES, test=TESTS, weight=WEIGHTS, score=SCORES),
        "tested": len(others),
        "by_seed": LabeledArray.of(singly, rule=RULES, seed=others, score=SCORES),
        "first_question": f"{rules.FEATURES[fitted.feature]} above {fitted.threshold:.2f}",
    }


def _threshold(own: Judged, short: Flags) -> float:
    """Half-way, in logarithms, between the percentiles of right and of wrong positive strings."""
    ratio = np.log(rules.largest_ratio(own))
    positive = short & own.labels
    right, wrong = ratio[positive & ~own.wrong], ratio[positive & own.wrong]
    if not len(wrong):
        return math.inf
    return math.exp((np.percentile(right, 98) + np.percentile(wrong, 2)) / 2)


# -- how wrong -------------------------------------------------------------------------------------


def _roughly(judged: list[Judged], held: list[Floats]) -> dict[str, Any]:
    """By seed, where there is something to be said: of errors, positive errors, near ones."""
    percentiles, logits, halves, steps = {}, {}, {}, {}
    for seed, own in enumerate(judged):
        if not own.wrong.any():
            continue
        size = np.abs(own.logits)
        bad = size[own.wrong]
        logits[seed] = [np.median(bad), bad.max(), np.median(size[~own.wrong]), (bad < 1).mean()]
        halves[seed] = [(own.wrong & own.labels).sum(), (own.wrong & ~own.labels).sum()]
        right, wrong = own.labels & ~own.wrong, own.labels & own.wrong
        if right.any() and wrong.any():
            ratio, share = rules.largest_ratio(own), held[seed].min(axis=1)
            percentiles[seed] = [
                *(np.percentile(ratio[chosen], at) for chosen, at in ((right, 98), (wrong, 2))),
                *(np.percentile(share[chosen], at) for chosen, at in ((right, 2), (wrong, 98))),
            ]
        moved = rules.steps_to_right(own, int(own.lengths.max()) * 3 // 4)
        if len(moved):
            steps[seed] = [np.median(moved), np.percentile(moved, 90), moved.max()]
    return {
        "percentiles": _by_seed(percentiles, quantity=PERCENTILES),
        "logits": _by_seed(logits, quantity=LOGITS),
        "halves": _by_seed(halves, kind=HALVES),
        "steps": _by_seed(steps, quantity=STEPS),
    }


def _by_seed(rows: dict[int, Any], **across: tuple[str, ...]) -> LabeledArray:
    (columns,) = across.values()
    values = np.array(list(rows.values()), dtype=np.float64).reshape(len(rows), len(columns))
    return LabeledArray.of(values, seed=list(rows), **across)
