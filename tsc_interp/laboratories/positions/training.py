"""The models of the positions laboratory: trained in memory, the best epoch of each kept."""

from __future__ import annotations

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import BalancedStream
from tsc_interp.laboratories.positions.result import BEFORE, NONE, SINUSOIDAL, PositionsOptions
from tsc_interp.laboratories.trained import trained as train
from tsc_interp.rules import Before, ContainsAll
from tsc_interp.training.config import TrainingConfig

_GOOD_ENOUGH = 0.5
"""Validation loss, a sum over 640 strings."""


def classifier(task: str, kind: str, asked: PositionsOptions) -> ClassifierConfig:
    """Positions for the longest string that is decided; those beyond training are never trained."""
    return ClassifierConfig(
        task=Before() if task == BEFORE else ContainsAll(),
        d_model=asked.d_model,
        n_heads=4,  # with two, half of the seeds end in a bad minimum, whatever their positions
        d_mlp=asked.d_model,
        n_positions=0 if kind == NONE else asked.max_length + 1,
        positions="sinusoidal" if kind == SINUSOIDAL else "learned",
    )


def training(asked: PositionsOptions) -> TrainingConfig:
    """Shuffled strings of up to `train_length` letters, for every kind the same."""
    stream = BalancedStream(max_length=asked.train_length, order="shuffled")
    return TrainingConfig(
        train=stream.replace(batches=asked.batches),
        validation=stream.replace(batches=10, seed=1),
        test=stream.replace(batches=1, seed=2),
        max_epochs=asked.epochs,
        schedule_epochs=asked.epochs,
        final_factor=0.2,
        check_from=min(3, asked.epochs),
        stop_below=_GOOD_ENOUGH,
        patience=asked.epochs,
    )


def trained(task: str, kind: str, asked: PositionsOptions) -> list[tuple[int, Checkpoint]]:
    """Each seed with its best epoch by validation loss."""
    seeds = range(asked.seed, asked.seed + asked.seeds)
    models = train(classifier(task, kind, asked), seeds, training(asked))
    return list(zip(seeds, models, strict=True))
