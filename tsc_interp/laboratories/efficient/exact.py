"""What is decided for every string: horizons with random features, and low rank on all counts.

Random features give every letter another score, whatever the string: the model stays a classifier
of counts, with other keys. Written into the weights it is verified like any other.
"""

from __future__ import annotations

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.changes import Set
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Part
from tsc_interp.interventions.weights import edit
from tsc_interp.laboratories.efficient import ways
from tsc_interp.laboratories.efficient.heads import Floats, Heads
from tsc_interp.laboratories.every_string import vectors_up_to


def with_scores(checkpoint: Checkpoint, heads: Heads, scores: Floats) -> Checkpoint:
    """The model with keys that give CLS these scores, `[head letter]`."""
    changes = []
    for h, head in enumerate(scores):
        query = heads.queries[0, h]
        size = float(query @ query)
        if size < 1e-12:
            raise UnsupportedError(f"head {h} asks for nothing (its query is 0), so no key matters")
        for letter, score in zip(checkpoint.config.alphabet.letters, head, strict=True):
            key = tuple(float(x) for x in query * score / size)
            changes.append(Intervention(Part("key", 0, h, letter), Set(key)))
    return edit(checkpoint, changes)


def window_horizon(heads: Heads, budget: int, own: float) -> float:
    """Where CLS reads `budget` positions, chosen whatever stands there.

    Up to that length it reads all. Beyond, one position is not read, and a needed letter there
    changes the label and not the logit, as soon as there is room for the other needed letters.
    """
    needed = len(heads.model.config.task.needs)
    return min(own, float(max(budget + 1, needed) - 1))


def low_rank_errors(heads: Heads, max_length: int, rank: int) -> tuple[float, float, float, float]:
    """Largest error of a logit, flipped and wrong vectors, and the horizon up to the length."""
    counts = vectors_up_to(heads.model.config.n_letters, max_length)
    full, labels = heads.logits(counts), heads.labels(counts)
    cut = heads.logits(counts, ways.low_rank(heads, counts, rank))
    wrong = (cut > 0) != labels
    shortest = counts[wrong].sum(axis=1).min() if wrong.any() else max_length + 1
    flips = (cut > 0) != (full > 0)
    error = float(np.abs(cut - full).max())
    return error, float(flips.mean()), float(wrong.mean()), float(shortest - 1)
