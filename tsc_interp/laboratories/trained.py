"""Models trained for a laboratory: in memory only, nothing is left on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.training.config import TrainingConfig
from tsc_interp.training.jobs import train


def trained(
    config: ClassifierConfig, seeds: Sequence[int], training: TrainingConfig
) -> list[Checkpoint]:
    """The chosen epoch of every seed."""
    with tempfile.TemporaryDirectory() as folder:
        runs = train(config, folder, seeds=seeds, training=training)
        return [run.checkpoint() for run in runs]
