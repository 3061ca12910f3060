"""Models trained for a laboratory: in memory only, nothing is left on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.training.config import TrainingConfig
from tsc_interp.training.jobs import train_seeds


def trained(
    config: ClassifierConfig, seeds: Sequence[int], training: TrainingConfig | None = None
) -> list[Checkpoint]:
    """The chosen epoch of every seed."""
    with tempfile.TemporaryDirectory() as folder:
        runs = train_seeds(config, seeds, training, runs=folder)
        return [run.checkpoint() for run in runs]
