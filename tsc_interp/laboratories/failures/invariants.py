"""What wrong answers keep, and how soon a training distribution makes right ones.

The task is monotone: a letter added to a string that contains a and b leaves it so. A model that
answers yes and, after one more letter, no, breaks that. Every pair of vectors one letter apart is
counted. Steps of training are counted until half the strings of either label, weighed alike, are
right to a given share, over every vector of counts up to a length.
"""

from __future__ import annotations

import math

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.data import AllStrings
from tsc_interp.laboratories.every_string import (
    Floats,
    Judged,
    balanced,
    judge,
    vectors_up_to,
)
from tsc_interp.training.config import TrainingConfig

GOOD = 0.99
LONGEST = 30


def taken_back(judged: Judged) -> Floats:
    """Return, by letter, the share of yes answers that one more of this letter turns into no."""
    size = int(judged.lengths.max())
    answers = np.zeros((size + 2,) * judged.counts.shape[1], dtype=bool)
    answers[tuple(judged.counts.T)] = judged.positive
    inner = judged.positive & (judged.lengths < size)
    shares = []
    for letter in range(judged.counts.shape[1]):
        more = judged.counts[inner].copy()
        more[:, letter] += 1
        shares.append((~answers[tuple(more.T)]).mean() if len(more) else math.nan)
    return np.array(shares)


def steps_to_good(epochs: list[Checkpoint], training: TrainingConfig) -> float:
    """Return the steps after which an epoch is first good enough; infinite if none is."""
    every = vectors_up_to(epochs[0].config.n_letters, LONGEST)
    for count, model in enumerate(epochs, start=1):
        if balanced(judge(model, every)) >= GOOD:
            return float(count * steps_in_epoch(training, model.config.n_letters))
    return math.inf


def steps_in_epoch(training: TrainingConfig, n_letters: int) -> int:
    """Return the batches of one epoch."""
    train = training.train
    if isinstance(train, AllStrings):
        return -(-int(n_letters**train.length) // train.batch_size)
    return int(train.batches)
