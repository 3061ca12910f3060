"""How laboratories train: our classifiers without files, and any other network by Adam."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.training.config import TrainingConfig
from tsc_interp.training.jobs import train


def trained(
    config: ClassifierConfig, seeds: Sequence[int], training: TrainingConfig
) -> list[Checkpoint]:
    """The chosen epoch of every seed; nothing is left on disk."""
    with tempfile.TemporaryDirectory() as folder:
        runs = train(config, folder, seeds=seeds, training=training)
        return [run.checkpoint() for run in runs]


def descend(
    parameters: Iterable[Any],
    losses: Iterable[Any],
    rate: float,
    schedule: Callable[[Any], Any] | None = None,
) -> None:
    """Take a step of Adam down each loss, which is computed when its turn comes.

    Args:
        parameters: Tensors, changed in place.
        losses: As many as there are steps.
        rate: The learning rate.
        schedule: Makes one of torch's schedulers of the rate, given the optimiser.
    """
    import torch

    optimiser = torch.optim.Adam(parameters, lr=rate)
    rates = None if schedule is None else schedule(optimiser)
    for loss in losses:
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if rates is not None:
            rates.step()
