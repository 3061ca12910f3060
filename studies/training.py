"""Trained models in memory: the report's data, stopping rule and choice of epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tsc_interp as tsc
from tsc_interp.checkpoints.checkpoint import Checkpoint, WeightArrays
from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.training.config import RunConfig, TrainingConfig
from tsc_interp.training.ensemble import TrainingState, start, train_ensemble
from tsc_interp.training.stopping import chosen_epoch
from tsc_interp.verification.horizon_result import Horizon
from tsc_interp.verification.horizons import first_error

LIMIT = 10**6
BUDGET = 200_000

Begin = Callable[[RunConfig, int], TrainingState]


@dataclass(frozen=True)
class Trained:
    """One seed: the chosen weights, and those of every epoch."""

    seed: int
    config: ClassifierConfig
    initial: WeightArrays
    epochs: tuple[WeightArrays, ...]
    losses: tuple[float, ...]

    @property
    def chosen(self) -> int:
        return chosen_epoch(self.losses)

    @property
    def checkpoint(self) -> Checkpoint:
        return self.at(self.chosen)

    def at(self, epoch: int) -> Checkpoint:
        weights = self.epochs[epoch - 1] if epoch else self.initial
        return Checkpoint(self.config, weights)


def trained(
    config: ClassifierConfig,
    seeds: Sequence[int],
    *,
    begin: Begin = start,
    training: TrainingConfig | None = None,
) -> list[Trained]:
    run = RunConfig(classifier=config, training=training or TrainingConfig())
    first = {seed: begin(run, seed) for seed in seeds}
    weights: dict[int, list[WeightArrays]] = {seed: [] for seed in seeds}
    last = dict(first)
    for members in train_ensemble(list(first.values())):
        for member in members:
            weights[member.seed].append(member.weights)
            last[member.seed] = member
    return [
        Trained(
            seed,
            config,
            first[seed].weights,
            tuple(weights[seed]),
            tuple(row.validation_loss for row in last[seed].metrics),
        )
        for seed in seeds
    ]


def judged(checkpoint: Checkpoint, *, prove: bool = False, limit: int = LIMIT) -> dict[str, Any]:
    """The first error, and what is known: proved (for ever), wrong, or none found up to `limit`."""
    found: Horizon = first_error(checkpoint, limit=limit, boxes=BUDGET, prove=prove)
    shortest = found.shortest
    outcome = "proved" if found.infinite else "wrong" if shortest else "open"
    return {
        "outcome": outcome,
        "first_error": None if shortest is None else shortest.length,
        "string": None if shortest is None else shortest.string,
    }


def scores(weights: WeightArrays) -> np.ndarray[Any, np.dtype[np.float32]]:
    """`[head letter]`: what CLS's query gives each letter; one layer, no norm."""
    x = weights["embed.W_E"]
    q = np.einsum("d,hdk->hk", x[CLS], weights["blocks.0.attn.W_Q"])
    k = np.einsum("td,hdk->htk", x[FIRST_LETTER:], weights["blocks.0.attn.W_K"])
    found = np.einsum("hk,htk->ht", q, k)
    factor = weights.get("blocks.0.attn.log_n_factor")
    return found if factor is None else found * factor[:, None]


def reads(weights: WeightArrays) -> str:
    """The letter each head scores highest, sorted."""
    return "".join(sorted("abcdefghijkl"[i] for i in scores(weights).argmax(axis=1)))


def mark(checkpoint: Checkpoint) -> str:
    """Enough of the weights' hash to tell whether they are the same to the last bit."""
    return checkpoint.weight_hash()[:6]


SMALL: dict[str, Any] = {
    "embedding_init": "linear_like",
    "attention_init": "output_fan_out",
    "mlp_init": "output_fan_out",
}
"""The source report's initialisation of lower magnitude."""

Config = tsc.ClassifierConfig
