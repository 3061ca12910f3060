"""A classifier's heads as numbers per kind of token, and what they answer with other patterns.

Without positions a pattern matters only through its sum over each kind of letter, so a model is
asked with an intervention on `blocks.0.attn.hook_pattern` of the compressed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.laboratories.every_string import beyond_plain
from tsc_interp.model.classifier import Classifier

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PATTERN = "blocks.0.attn.hook_pattern"


@dataclass(frozen=True)
class Heads:
    """Kinds of token are CLS and then the letters; only letters are attended to."""

    model: Classifier
    queries: Floats
    """`[kind head d_head]`, divided by the square root of d_head."""
    keys: Floats
    """`[letter head d_head]`."""
    values: Floats
    """`[letter head d_head]`."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Heads:
        config = checkpoint.config
        if obstacles := beyond_plain(config):
            raise UnsupportedError(
                "the efficient laboratory takes one layer of plain softmax attention without "
                "positions or norms, CLS reading letters only; this model has "
                f"{', '.join(obstacles)}"
            )
        model = Classifier.from_checkpoint(checkpoint).double()
        every = model.counts(np.ones((1, config.n_letters), dtype=np.int64))
        with torch.no_grad():
            cache = model.run_with_cache(every)[1]
        q, k, v = (cache[f"blocks.0.attn.hook_{part}"][0].numpy() for part in "qkv")
        return cls(model, q / math.sqrt(config.d_head), k[1:], v[1:])

    @property
    def scores(self) -> Floats:
        """`[head kind letter]`: of every kind of query for every letter."""
        return np.asarray(np.einsum("qhd,khd->hqk", self.queries, self.keys))

    def logits(self, counts: Ints, weights: Floats | None = None) -> Floats:
        """`[string]`; `weights [string head letter]` is what CLS gives to each letter in all."""
        inputs = self.model.counts(counts)

        def replace(pattern: torch.Tensor, hook: object) -> torch.Tensor:
            pattern = pattern.clone()
            pattern[:, :, 0, 1:] = torch.as_tensor(weights)
            return pattern

        with torch.no_grad():
            if weights is None:
                return np.asarray(self.model(inputs).numpy())
            return np.asarray(
                self.model.run_with_hooks(inputs, fwd_hooks=[(PATTERN, replace)]).numpy()
            )

    def labels(self, counts: Ints) -> NDArray[np.bool_]:
        return np.asarray(self.model.config.task.classes(counts)) > 0


def random_strings(rng: np.random.Generator, n_letters: int, length: int, many: int) -> Ints:
    """`[string position]`, letters from 0: some letters absent, some rare, in any order."""
    rows = np.zeros((many, length), dtype=np.int64)
    for row in rows:
        present = rng.permutation(n_letters)[: rng.integers(1, min(n_letters, length) + 1)]
        shares = rng.dirichlet(np.full(len(present), 0.3))
        drawn = 1 + rng.multinomial(length - len(present), shares)
        row[:] = rng.permutation(np.repeat(present, drawn))
    return rows


def counts_of(rows: Ints, n_letters: int) -> Ints:
    return np.asarray((rows[:, :, None] == np.arange(n_letters)).sum(axis=1))


def by_letter(pattern: Floats, rows: Ints, n_letters: int) -> Floats:
    """`[string head letter]` from `[string head position]`."""
    kinds = (rows[:, :, None] == np.arange(n_letters)).astype(np.float64)
    return np.asarray(np.einsum("shp,spl->shl", pattern, kinds))
