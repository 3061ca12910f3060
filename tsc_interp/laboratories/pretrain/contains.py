"""Contains a and b, from few labelled strings, with and without span corruption before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np
import torch

from tsc_interp.config import ClassifierConfig
from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.laboratories.every_string import (
    Floats,
    balanced,
    judge,
    letter_scores,
    letter_weights,
    vectors_up_to,
)
from tsc_interp.laboratories.pretrain.corruption import (
    best_restoration,
    corrupted,
    spans,
    uneven_strings,
)
from tsc_interp.laboratories.pretrain.result import BOTH, STAGES, TRAINED, PretrainOptions
from tsc_interp.laboratories.pretrain.training import (
    Batch,
    Strings,
    Weights,
    checkpoint,
    logits,
    repeated,
    train,
    with_new_read_out,
)
from tsc_interp.model.initialise import initial_ensemble
from tsc_interp.verification import horizon

LONGEST = 10
"""Letters in a string of the corpus, and in a labelled one, as the report trains on."""
SPAN = 3
RATE = 1e-2
TASK = ClassifierConfig(d_model=8, n_heads=4, d_mlp=8)
CORPUS = TASK.replace(n_outputs=TASK.n_letters)
Arms = dict[str, Weights]


def study(asked: PretrainOptions, progress: Progress) -> dict[str, Any]:
    """The arrays of a result that are about few labels.

    Every arm starts from the same initial weights, on the same labelled strings, seed by seed.
    """
    seeds = range(asked.seed, asked.seed + asked.seeds)
    rng = np.random.default_rng([asked.seed, 1])
    fresh = initial_ensemble(CORPUS, seeds)
    progress("contains a and b: span corruption")
    pretrained = train(CORPUS, fresh, _corpus(asked, rng), RATE)
    labelled = few_labels(asked, rng)
    progress("contains a and b: fine-tuning")
    arms = _arms(asked, list(seeds), fresh, pretrained, labelled)
    shape = (len(TRAINED), len(asked.labels), asked.seeds)
    accuracy, horizons = (np.zeros(shape) for _ in range(2))
    every = vectors_up_to(TASK.n_letters, asked.max_length)
    for i, arm in enumerate(TRAINED):
        progress(f"deciding every string: {arm}")
        for j, k in np.ndindex(shape[1:]):
            model = checkpoint(TASK, arms[arm], j * asked.seeds + k)
            judged = judge(model, every)
            accuracy[i, j, k] = balanced(judged)
            known = horizon(model, prove=False, limit=asked.limit)
            horizons[i, j, k] = known.verified_length
    most = slice((len(asked.labels) - 1) * asked.seeds, None)
    last = {name: weight[most] for name, weight in arms[BOTH].items()}
    heads = [_read(weights, asked.seeds) for weights in (fresh, pretrained, last)]
    axes = {"arm": TRAINED, "labels": asked.labels, "seed": seeds}
    return {
        "contains": LabeledArray.of(accuracy, **axes),
        "horizons": LabeledArray.of(horizons, **axes),
        "heads": LabeledArray.of(
            heads, stage=STAGES, seed=seeds, head=range(TASK.n_heads), letter=TASK.alphabet.letters
        ),
        "gaps": LabeledArray.of(
            _gaps(pretrained, asked.seeds), restoring=("pre-trained", "all letters alike")
        ),
    }


def few_labels(asked: PretrainOptions, rng: np.random.Generator) -> Batch:
    """For each number of labels and each seed, half strings of either label, none twice."""
    every = vectors_up_to(TASK.n_letters, LONGEST)
    labels = np.asarray(TASK.task.labels(every))
    kinds = [np.flatnonzero(labels), np.flatnonzero(~labels)]
    most = max(asked.labels)
    shape = (len(asked.labels), asked.seeds, most)
    counts = np.zeros((*shape, TASK.n_letters), dtype=np.int64)
    targets, kept = np.zeros(shape), np.zeros(shape, dtype=bool)
    for k in range(asked.seeds):
        drawn = [rng.permutation(kind)[: most // 2] for kind in kinds]
        mixed = np.stack(drawn, axis=1).ravel()
        counts[:, k], targets[:, k] = every[mixed], labels[mixed]
    for j, count in enumerate(asked.labels):
        kept[j, :, :count] = True  # fewer labels are the first of more
    members = len(asked.labels) * asked.seeds
    return Batch(
        Strings.of_counts(counts.reshape(members, most, -1)),
        targets.reshape(members, most),
        kept.reshape(members, most),
    )


def _corpus(asked: PretrainOptions, rng: np.random.Generator) -> Iterator[Batch]:
    for _ in range(asked.pretrain_steps):
        letters, lengths = uneven_strings(rng, (asked.seeds, asked.batch), TASK.n_letters, LONGEST)
        yield corrupted(letters, spans(lengths, SPAN, rng, LONGEST), TASK.n_letters, counted=True)


def _arms(
    asked: PretrainOptions, seeds: list[int], fresh: Weights, pretrained: Weights, labelled: Batch
) -> Arms:
    steps = asked.finetune_steps, asked.finetune_steps, asked.finetune_steps + asked.pretrain_steps
    trained = {}
    for arm, body, count in zip(TRAINED, (pretrained, fresh, fresh), steps, strict=True):
        start = repeated(with_new_read_out(TASK, body, seeds), len(asked.labels))
        trained[arm] = train(TASK, start, repeat(labelled, count), RATE)
    return trained


def _read(weights: Weights, seeds: int) -> Floats:
    """`[seed head letter]`: what each head makes of a string with each letter once."""
    config = CORPUS if weights["unembed.W_U"].shape[-1] > 1 else TASK
    once = np.ones((1, TASK.n_letters))
    scores = [letter_scores(checkpoint(config, weights, k)) for k in range(seeds)]
    return np.array([letter_weights(score, once)[0] for score in scores])


def _gaps(pretrained: Weights, seeds: int) -> tuple[float, float]:
    visible = vectors_up_to(TASK.n_letters, LONGEST - 1)
    strings = Strings.of_counts(np.repeat(visible[None], seeds, axis=0))
    with torch.no_grad():
        chances = logits(CORPUS, pretrained, strings).softmax(-1).numpy()
    best = best_restoration(visible)
    gap, blind = (np.abs(p - best).sum(-1).mean() / 2 for p in (chances, 1 / TASK.n_letters))
    return float(gap), float(blind)
