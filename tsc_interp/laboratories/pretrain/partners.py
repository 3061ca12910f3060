"""A letter's partner: facts that are in no question, and can only be held in weights.

Names, partners and other letters share one alphabet. Each name has a partner, drawn anew for each
seed. A sentence of the corpus is a name, its partner and two other letters in any order; a question
is a name and one letter that the corpus does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np
import torch

from tsc_interp.config import ClassifierConfig
from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.laboratories.every_string import Floats, Integers
from tsc_interp.laboratories.pretrain.corruption import corrupted, spans
from tsc_interp.laboratories.pretrain.result import (
    ALONE,
    BOTH,
    GROUPS,
    LONGER,
    ONLY,
    PretrainOptions,
)
from tsc_interp.laboratories.pretrain.training import Batch, Strings, Weights, logits, train
from tsc_interp.model.initialise import initial_ensemble

SHOWN, HELD_OUT, STRANGERS = 12, 24, 12
NAMES = SHOWN + HELD_OUT + STRANGERS
PARTNERS, OTHERS = 20, 6
QUESTION = NAMES + PARTNERS + OTHERS
N_LETTERS = QUESTION + 1
PER_SENTENCE = 4
SPAN = 2
RATE = 3e-3
CONFIG = ClassifierConfig(
    n_letters=N_LETTERS, n_outputs=N_LETTERS, d_model=32, n_heads=4, d_head=8, d_mlp=64
)
GROUP_OF = np.repeat(np.arange(len(GROUPS)), (SHOWN, HELD_OUT, STRANGERS))
"""Names in this order: asked about in fine-tuning, in the corpus only, nowhere."""


def study(asked: PretrainOptions, progress: Progress) -> dict[str, Any]:
    """The arrays of a result that are about partners."""
    seeds = range(asked.seed, asked.seed + asked.seeds)
    rng = np.random.default_rng([asked.seed, 2])
    facts = rng.integers(PARTNERS, size=(asked.seeds, NAMES))
    fresh = initial_ensemble(CONFIG, seeds)
    progress("a letter's partner: span corruption")
    pretrained = train(CONFIG, fresh, _corpus(asked, facts, rng), RATE)
    progress("a letter's partner: fine-tuning")
    shown = _questions(facts, SHOWN)
    steps = asked.finetune_steps
    arms = {
        BOTH: train(CONFIG, pretrained, repeat(shown, steps), RATE),
        ALONE: train(CONFIG, fresh, repeat(shown, steps), RATE),
        LONGER: train(CONFIG, fresh, repeat(shown, steps + asked.pretrain_steps), RATE),
        ONLY: pretrained,
    }
    right, sure = np.swapaxes([_scores(weights, facts) for weights in arms.values()], 0, 1)
    axes = {"arm": arms, "group": GROUPS, "seed": seeds}
    return {
        "partners": LabeledArray.of(right, **axes),
        "confidence": LabeledArray.of(sure, **axes),
        "constant": LabeledArray.of(constant_answer(facts), seed=seeds),
    }


def constant_answer(facts: Integers) -> Floats:
    """`[seed]`: the share of held-out names that have the shown names' most frequent partner."""
    asked = (facts[:, :SHOWN, None] == np.arange(PARTNERS)).sum(1)
    held_out = facts[:, GROUP_OF == 1]
    return np.asarray((held_out == asked.argmax(1)[:, None]).mean(1))


def sentences(facts: Integers, names: Integers, rng: np.random.Generator) -> Integers:
    """`[seed sentence letter]`: each name, its partner and two other letters, shuffled."""
    partners = NAMES + np.take_along_axis(facts, names, axis=1)
    others = NAMES + PARTNERS + rng.integers(OTHERS, size=(*names.shape, PER_SENTENCE - 2))
    rows = np.concatenate([names[..., None], partners[..., None], others], axis=-1)
    return np.asarray(rng.permuted(rows, axis=-1))


def _corpus(asked: PretrainOptions, facts: Integers, rng: np.random.Generator) -> Iterator[Batch]:
    """Strangers do not occur."""
    for _ in range(asked.pretrain_steps):
        names = rng.integers(SHOWN + HELD_OUT, size=(asked.seeds, asked.batch))
        rows = sentences(facts, names, rng)
        lengths = np.full(rows.shape[:2], PER_SENTENCE)
        yield corrupted(rows, spans(lengths, SPAN, rng, PER_SENTENCE), N_LETTERS, counted=False)


def _questions(facts: Integers, first: int) -> Batch:
    """About the first so many names, padded to a sentence's length."""
    rows = np.full((len(facts), first, PER_SENTENCE), -1)
    rows[..., 0], rows[..., 1] = np.arange(first), QUESTION
    return Batch(Strings.of_letters(rows), np.eye(N_LETTERS)[NAMES + facts[:, :first]])


def _scores(weights: Weights, facts: Integers) -> Floats:
    """`[quantity group seed]`: right answers, and confidence."""
    with torch.no_grad():
        chances = logits(CONFIG, weights, _questions(facts, NAMES).strings).softmax(-1).numpy()
    right = chances.argmax(-1) == NAMES + facts
    tables = [right.astype(np.float64), chances.max(-1).astype(np.float64)]
    return np.array(
        [[table[:, group == GROUP_OF].mean(1) for group in range(len(GROUPS))] for table in tables]
    )
