"""Are failures predictable from the problem, and are wrong answers roughly right?

A paper on transformers that do mathematics (Charton, 2022) finds that nearly all failures can be
predicted from properties of the problem, that wrong answers stay roughly right, and that the
training distribution decides what generalises and how fast it is learned. Here every string up to a
length is decided exactly, so predictions are scored on all strings instead of a sample. Precision
is the share of predicted failures that are wrong, recall the share of wrong strings that were
predicted; each vector of counts weighs one.

    cone rule      a positive string fails where that letter has no more of the weight than in the
                   first error it caused: a linear inequality in the counts, so the region is a
                   cone; a negative string fails where its most frequent letter outweighs the other
                   by at least as much as in the first error over the same letters
    largest ratio  the source's method: a threshold on one number of the string, here the largest
                   ratio of counts, between the 98th percentile of right strings and the 2nd of
                   wrong ones, of one seed

*Roughly right* is measured by the size of wrong logits, by how many letters have to be added or
dropped until the answer is right, and by monotonicity: a letter added to a string that contains a
and b leaves it so. *Training distribution* compares exact horizons of models trained on strings of
other lengths, other skews, or all strings of a length, and the steps until half the strings of
either label, weighed alike, are right to 99 %, over all strings of up to 30 letters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import UsageError
from tsc_interp.laboratories.base import (
    Finding,
    LabeledArray,
    LabOptions,
    LabResult,
    Progress,
    Table,
    option,
)
from tsc_interp.results.intervals import sign_test, told_mean, told_median, told_share
from tsc_interp.results.views import Bars, Rows, shown

if TYPE_CHECKING:
    from tsc_interp.checkpoints.checkpoint import Checkpoint
    from tsc_interp.laboratories.every_string import Judged
    from tsc_interp.training.config import TrainingConfig

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
RULES = FROM_WEIGHTS, FROM_PROBLEM = ("cone rule", "largest ratio")
SCORES = ("precision", "recall")
ROUGHLY = ("wrong logit, median size", "right logit, median size", "letters to a right string")
USUAL = "length=10"
"""The source report's own training distribution."""
GOOD, LONGEST, EVERY = 0.99, 30, 6
"""Good enough; on strings up to this length; looked at after every so many steps."""
_FAR = 100_000


class FailuresOptions(LabOptions):
    QUICK: ClassVar = {
        "seeds": 4, "epochs": 8, "max_length": 100, "cells": "length=10,length=20",
    }  # fmt: skip

    seeds: int = option(16, "Models trained in each cell.", ge=2, le=64)
    epochs: int = option(10, "Each is trained for, at most.", ge=1, le=30)
    fit_seed: int = option(2, "The seed that the largest ratio is fitted on.", ge=0)
    max_length: int = option(200, "Every string up to it.", ge=20, le=200)
    cells: str = option(
        "length=5,length=10,length=20,length=40,alpha=0.1,alpha=10,all strings",
        "Training distributions, between commas: length=L, alpha=A, all strings.",
    )


class FailuresResult(LabResult):
    probe: ClassVar[str] = "failures"

    options: FailuresOptions
    predicted: LabeledArray
    """`[rule seed score]`: of each seed with errors, except the one the ratio was fitted on."""
    roughly: Annotated[LabeledArray, Rows("How wrong wrong answers are, medians")]
    """`[seed quantity]`: of seeds with errors."""
    taken_back: Annotated[LabeledArray, Rows("Share of yes answers taken back by one more letter")]
    """`[seed letter]`."""
    horizons: LabeledArray
    """`[cell seed]`: of models trained on another distribution."""
    speed: Annotated[LabeledArray, Rows("Steps until 99 % of strings up to 30 letters are right")]
    """`[cell seed]`: inf if never within the epochs."""

    @shown(Rows("Exact horizon by training distribution"))
    def by_seed(self) -> Table:
        across = "seed {}".format
        return Table.of("Exact horizon by training distribution", self.horizons, "cell",
                        names=("trained on",), across=across, whole=True)  # fmt: skip

    @shown(Bars(
        "Median horizon by training distribution",
        "Of {result.options.seeds} seeds each: the exact length up to which every string is right. "
        "The findings have the intervals.",
        x="letters", form=",.0f", table=False, name="horizons",
    ))  # fmt: skip
    def medians(self) -> LabeledArray:
        cells = self.horizons.labels["cell"]
        return LabeledArray.of(np.median(self.horizons.array, axis=1), cell=cells)

    @shown(Rows("What predicts a failure"))
    def predictors(self) -> LabeledArray:
        means = self.predicted.array.mean(axis=1)
        return LabeledArray.of(means, rule=RULES, mean=SCORES)

    def told(self, rule: str) -> tuple[str, str]:
        """Precision and recall, with intervals over seeds."""
        precision, recall = (told_mean(self.predicted.at(rule=rule, score=s)) for s in SCORES)
        return precision, recall

    # -- findings ----------------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        yield self._training()
        yield self._from_weights()
        yield self._from_problem()
        yield self._roughly()
        yield self._speed()
        yield self._monotone()

    def _training(self) -> Finding:
        told, medians = [], {}
        for cell in self.horizons.labels["cell"]:
            reached = self.horizons.at(cell=cell)
            medians[cell] = float(np.median(reached))
            told.append(f"{cell} {told_median(reached)}, {int((reached == 0).sum())} fail at once")
        best = max(medians, key=lambda cell: medians[cell])
        return Finding.of(
            f"The training distribution changes the horizon. Median horizon of "
            f"{self.options.seeds} seeds: {'; '.join(told)}. The longest median is that of {best}.",
            dict(medians.items()),
        )

    def _from_weights(self) -> Finding:
        precision, recall = self.told(FROM_WEIGHTS)
        means = self.predicted.at(rule=FROM_WEIGHTS).mean(axis=0)
        seeds = len(self.predicted.labels["seed"])
        return Finding.of(
            "The cone rule predicts failures from a model's weights and its first errors. Over "
            f"{seeds} seeds, each with its own weights, {precision} of the strings it calls wrong "
            f"are wrong, and it finds {recall} of the wrong ones (every vector of counts, none "
            "sampled).",
            {"precision": float(means[0]), "recall": float(means[1]), "seeds": seeds},
            "good" if means.min() > 0.9 else "note",
        )

    def _from_problem(self) -> Finding:
        precision, recall = self.told(FROM_PROBLEM)
        means = self.predicted.at(rule=FROM_PROBLEM).mean(axis=0)
        return Finding.of(
            "From the string alone, as in the source, failures are predicted worse: a threshold on "
            f"the largest ratio of counts, fitted on seed {self.options.fit_seed}, has precision "
            f"{precision} and recall {recall} over the others. Which strings fail depends on the "
            "model.",
            {"precision": float(means[0]), "recall": float(means[1])},
            "warning",
        )

    def _roughly(self) -> Finding:
        wrong, right, steps = (self.roughly.at(quantity=name) for name in ROUGHLY)
        near, known = int((steps <= 2).sum()), int(np.isfinite(steps).sum())
        far = float(np.nanmax(steps, initial=0))
        farther = f" In the others it is up to {far:.0f} letters away." if near < known else ""
        return Finding.of(
            f"Wrong answers are roughly right: the median size of their logits is "
            f"{np.median(wrong):.2f}, that of right answers {np.median(right):.1f}. In "
            f"{told_share(near, known)} seeds the nearest string with the same label that is "
            f"answered right is one or two letters away (median).{farther}",
            {"wrong": float(np.median(wrong)), "right": float(np.median(right)), "near": near},
        )

    def _speed(self) -> Finding:
        cells = self.speed.labels["cell"]
        usual = USUAL if USUAL in cells else cells[0]
        told, faster, numbers = [], [], {}
        for cell in cells:
            steps, base = self.speed.at(cell=cell), self.speed.at(cell=usual)
            numbers[cell] = float(np.median(steps))
            ahead, behind = int((steps < base).sum()), int((steps > base).sum())
            # Two seeds that never get there are alike.
            chance = sign_test(np.where(steps == base, 0, np.sign(base - np.minimum(steps, 1e9))))
            paired = f" (seeds ahead {ahead}, behind {behind}, p = {chance:.2g})"
            told.append(f"{cell} {told_median(steps)}{paired if cell != usual else ''}")
            if ahead > behind and chance < 0.05 / max(1, len(cells) - 1):
                faster.append(cell)
        verdict = (
            f"{' and '.join(faster)} speed training up." if faster
            else "None is shown to speed training up."
        )  # fmt: skip
        return Finding.of(
            "Does a training distribution speed up learning, as the source finds? Median number of "
            f"steps (64 strings each) until {GOOD:.0%} of all strings up to {LONGEST} letters are "
            f"right, looked at every {EVERY} steps, against {usual} seed by seed (sign test): "
            f"{'; '.join(told)} (∞: not within {self.options.epochs} epochs). {verdict}",
            dict(numbers),
        )

    def _monotone(self) -> Finding:
        letters = self.taken_back.labels["letter"]
        shares = dict(zip(letters, np.nanmean(self.taken_back.array, axis=0).tolist(), strict=True))
        told = ", ".join(f"one more `{letter}` {share:.3%}" for letter, share in shares.items())
        kept = int((np.nan_to_num(self.taken_back.array) == 0).all(axis=1).sum())
        seeds = len(self.taken_back.array)
        return Finding.of(
            "Are models monotone? In the task, one more letter never turns yes into no. These "
            f"shares of the models' yes answers become no: {told} (means of {seeds} seeds over "
            f"every pair of count vectors). {told_share(kept, seeds)} models never do this.",
            dict(shares),
        )


# -- the run ---------------------------------------------------------------------------------------


def run(asked: FailuresOptions, progress: Progress) -> FailuresResult:
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.laboratories.every_string import judge, vectors_up_to
    from tsc_interp.laboratories.trained import trained
    from tsc_interp.model.threads import one_thread
    from tsc_interp.training.config import TrainingConfig
    from tsc_interp.verification.horizons import horizon

    if asked.fit_seed >= asked.seeds:
        raise UsageError(f"fit_seed must be one of the {asked.seeds} seeds, got {asked.fit_seed}")
    training, config = TrainingConfig(max_epochs=asked.epochs), ClassifierConfig()
    seeds = range(asked.seeds)
    sources = training_sources(asked.cells, training)
    progress(f"training {asked.seeds} models")
    models = trained(config, seeds, training)
    progress(f"deciding every string up to {asked.max_length} letters")
    vectors = vectors_up_to(3, asked.max_length)
    judged = [judge(model, vectors) for model in models]
    progress("predicting failures")
    fields = predictions(asked, models, judged)
    horizons, speed = [], []
    for name, source in sources.items():
        progress(f"training {asked.seeds} models on {name}")
        own = trained(config, seeds, source)
        horizons.append([horizon(x, limit=_FAR, prove=False).verified_length for x in own])
        with one_thread():
            speed.append(steps_to_good(source, seeds))
    return FailuresResult(
        options=asked,
        taken_back=LabeledArray.of(
            [taken_back(verdict) for verdict in judged], seed=seeds, letter=config.alphabet.letters
        ),
        horizons=LabeledArray.of(horizons, cell=tuple(sources), seed=seeds),
        speed=LabeledArray.of(speed, cell=tuple(sources), seed=seeds),
        **fields,
    )


def training_sources(cells: str, training: TrainingConfig) -> dict[str, TrainingConfig]:
    """`length=5` and the like, as what to train on."""
    from tsc_interp.data import TRAIN, AllStrings

    sources = {}
    for cell in filter(None, (part.strip() for part in cells.split(","))):
        name, _, value = cell.partition("=")
        try:
            if cell == "all strings":
                train: Any = AllStrings()
            elif name in ("length", "alpha"):
                option_of = {"length": ("max_length", int), "alpha": ("alpha", float)}[name]
                train = TRAIN.replace(**{option_of[0]: option_of[1](value)})
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


def steps_to_good(training: TrainingConfig, seeds: Sequence[int]) -> Floats:
    """By seed, the steps after which a model is first good enough; infinite if never."""
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.laboratories.every_string import vectors_up_to
    from tsc_interp.training.config import RunConfig
    from tsc_interp.training.engine import batches, engine_for, shape_of
    from tsc_interp.training.ensemble import start
    from tsc_interp.training.losses import loss_named
    from tsc_interp.training.optimizer import AdamW

    config = ClassifierConfig()
    members = [start(RunConfig(classifier=config, training=training), seed) for seed in seeds]
    engine = engine_for(shape_of(config), loss_named(training.loss, 1))
    parameters, mean, square = (
        engine.pack([getattr(member, part) for member in members])
        for part in ("weights", "mean", "square")
    )
    optimizer = AdamW(mean, square, steps=0, weight_decay=training.weight_decay)
    vectors = vectors_up_to(config.n_letters, LONGEST)
    labels, prepared = np.asarray(config.task.labels(vectors), dtype=bool), engine.prepare(vectors)
    first, step = np.full(len(members), math.inf), 0
    for epoch in range(1, training.max_epochs + 1):
        for strings, answers in batches(engine, training.train, epoch - 1):
            gradient, _ = engine.gradient(parameters, strings, answers)
            optimizer.step(parameters, gradient, training.rate(epoch))
            step += 1
            if step % EVERY == 0:
                yes = engine.logits(parameters, prepared) > 0
                right = (yes[:, labels].mean(axis=1) + (~yes[:, ~labels]).mean(axis=1)) / 2
                first[(right >= GOOD) & np.isinf(first)] = step
        if np.isfinite(first).all():
            break
    return first


# -- what predicts a failure -----------------------------------------------------------------------


def predictions(
    asked: FailuresOptions, models: Sequence[Checkpoint], judged: Sequence[Judged]
) -> dict[str, Any]:
    own = judged[asked.fit_seed]
    if not own.wrong.any():
        raise UsageError(
            f"seed {asked.fit_seed} has no error up to {asked.max_length} letters to learn from; "
            "take another fit_seed, or a longer max_length"
        )
    ratio = largest_ratio(own)  # the same for every model: only the cone rule reads weights
    threshold = _threshold(ratio, own)
    scores, roughly = {}, {}
    for seed, (model, verdict) in enumerate(zip(models, judged, strict=True)):
        if not verdict.wrong.any():
            continue
        size, steps = np.abs(verdict.logits), steps_to_right(verdict, asked.max_length * 3 // 4)
        medians = [np.median(size[part]) for part in (verdict.wrong, ~verdict.wrong)]
        roughly[seed] = [*medians, np.median(steps) if len(steps) else math.nan]
        if seed != asked.fit_seed:
            said = (cone_rule(model, shares(model, verdict), verdict),
                    verdict.labels & (ratio > threshold))  # fmt: skip
            scores[seed] = [precision_and_recall(rule, verdict.wrong) for rule in said]
    by_rule = np.array(list(scores.values())).reshape(-1, len(RULES), 2).swapaxes(0, 1)
    return {
        "predicted": LabeledArray.of(by_rule, rule=RULES, seed=list(scores), score=SCORES),
        "roughly": LabeledArray.of(list(roughly.values()), seed=list(roughly), quantity=ROUGHLY),
    }


def largest_ratio(judged: Judged) -> Floats:
    """The most frequent letter's count over that of the rarest one that occurs."""
    counts = judged.counts
    rarest = np.where(counts > 0, counts, counts.max(initial=1) + 1).min(axis=1)
    return np.asarray(counts.max(axis=1) / rarest)


def _threshold(ratio: Floats, own: Judged) -> float:
    """Half-way, in logarithms, between the percentiles of right and of wrong positive strings."""
    logs = np.log(ratio)
    right, wrong = logs[own.labels & ~own.wrong], logs[own.labels & own.wrong]
    if not len(wrong):
        return math.inf
    return math.exp((np.percentile(right, 98) + np.percentile(wrong, 2)) / 2)


def shares(checkpoint: Checkpoint, judged: Judged) -> Floats:
    """`[vector letter]`, of the task's letters: the most weight that a head gives it."""
    from tsc_interp.construction.bound import letter_scores

    named = [checkpoint.config.alphabet.index(letter) for letter in checkpoint.config.task.needs]
    weights = letter_weights(letter_scores(checkpoint), judged.counts.astype(np.float64))
    return np.asarray(weights[:, :, named].max(axis=1))


def letter_weights(scores: Floats, counts: Floats) -> Floats:
    """`[vector head letter]`: attention weights of plain softmax, CLS not attended to."""
    heavy = counts[:, None, :] * np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(heavy / heavy.sum(axis=2, keepdims=True))


def cone_rule(checkpoint: Checkpoint, held: Floats, judged: Judged) -> Flags:
    """One number for each letter of the task, and for each set of letters with label 0."""
    from tsc_interp.laboratories.every_string import judge
    from tsc_interp.verification.horizons import horizon

    says = np.zeros(len(judged.counts), dtype=bool)
    critical = np.full(held.shape[1], -1.0)
    for support in horizon(checkpoint, prove=False, limit=_FAR).by_letters:
        if (error := support.shortest) is None:
            continue
        first = judge(checkpoint, np.array([error.counts]))
        if error.label:
            own = shares(checkpoint, first)[0]
            critical[own.argmin()] = max(critical[own.argmin()], own.min())
        else:  # the same letter is as far ahead or farther, over the same letters
            same = ((judged.counts > 0) == (first.counts > 0)).all(axis=1)
            leads = judged.counts.argmax(axis=1) == first.counts.argmax()
            says |= same & leads & (largest_ratio(judged) >= largest_ratio(first))
    worst = critical[held.argmin(axis=1)]
    return np.asarray(says | (judged.labels & (held.min(axis=1) <= worst + 1e-12)))


def precision_and_recall(said: Flags, wrong: Flags) -> tuple[float, float]:
    """The share of the predicted that is wrong, and of the wrong that is predicted; 0 if none."""
    both = int((said & wrong).sum())
    return both / max(1, int(said.sum())), both / max(1, int(wrong.sum()))


# -- how wrong -------------------------------------------------------------------------------------


def steps_to_right(judged: Judged, longest: int) -> NDArray[np.int64]:
    """For each wrong vector of at most `longest` letters: letters to add or drop until right.

    Right with the same label. Vectors are looked for up to the longest judged, so `longest` should
    be well below it.
    """
    from scipy.ndimage import distance_transform_cdt

    size = int(judged.lengths.max()) + 1
    nearest = []
    for label in (False, True):
        same = judged.labels == label
        grid = np.ones((size,) * judged.counts.shape[1], dtype=np.int8)
        grid[tuple(judged.counts[same & ~judged.wrong].T)] = 0
        if grid.all():
            continue
        away = distance_transform_cdt(grid, metric="taxicab")
        near = same & judged.wrong & (judged.lengths <= longest)
        nearest.append(away[tuple(judged.counts[near].T)])
    return np.concatenate(nearest) if nearest else np.zeros(0, dtype=np.int64)


def taken_back(judged: Judged) -> Floats:
    """By letter, the share of yes answers that one more of this letter turns into no."""
    size, letters = int(judged.lengths.max()), judged.counts.shape[1]
    answers = np.zeros((size + 2,) * letters, dtype=bool)
    answers[tuple(judged.counts.T)] = judged.positive
    inner = judged.counts[judged.positive & (judged.lengths < size)]
    more = [tuple((inner + step).T) for step in np.eye(letters, dtype=np.int64)]
    return np.array([(~answers[at]).mean() if len(inner) else math.nan for at in more])
