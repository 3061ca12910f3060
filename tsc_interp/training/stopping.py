"""When a run ends and which epoch it keeps: functions of its validation losses, nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tsc_interp.checkpoints.run_records import Ending
from tsc_interp.training.config import TrainingConfig


def ending(losses: Sequence[float], training: TrainingConfig) -> Ending | None:
    """Why the run ends after these epochs, or None if it goes on. `losses[0]` is epoch 1's."""
    if losses and not math.isfinite(losses[-1]):
        return "diverged"
    best, patience = math.inf, training.patience
    for loss in losses[training.check_from - 1 :]:
        if loss < training.stop_below:
            return "good_enough"
        if loss < best:
            best, patience = loss, training.patience
        else:
            patience -= 1
            if patience == 0:
                return "no_improvement"
    return "last_epoch" if len(losses) >= training.max_epochs else None


def chosen_epoch(losses: Sequence[float]) -> int:
    """The epoch with the lowest loss, the first on ties; 0 (as initialised) if none is finite."""
    finite = [(loss, epoch) for epoch, loss in enumerate(losses, 1) if math.isfinite(loss)]
    return min(finite)[1] if finite else 0
