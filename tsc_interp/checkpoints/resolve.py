"""Whatever stands for a model, as a checkpoint: one rule for every function that takes one.

A model may be given as a hooked model, a `Checkpoint`, a bundled name, a path (a file, or a run
directory) or a run. Nothing here needs torch, and anything else is a `UsageError`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.locate import load_checkpoint, open_run
from tsc_interp.errors import UsageError


@runtime_checkable
class HoldsWeights(Protocol):
    """A model in memory, such as a `HookedClassifier`."""

    def to_checkpoint(self) -> Checkpoint: ...


@runtime_checkable
class HoldsEpochs(Protocol):
    """A run: without a number, the chosen epoch's weights."""

    @property
    def path(self) -> Path: ...
    def checkpoint(self, epoch: int | None = None) -> Checkpoint: ...


ModelLike = HoldsWeights | Checkpoint | HoldsEpochs | str | os.PathLike[str]

_EXPECTED = (
    "a hooked model, a Checkpoint, a bundled name, the path of a .safetensors file or of a run "
    "directory, a run's address, or a run"
)


def as_checkpoint(model: ModelLike, *, epoch: int | None = None) -> Checkpoint:
    """Return the weights and configuration of a model, however it is given.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        epoch: The epoch of a run, by default the chosen one.

    Raises:
        UsageError: It is none of these.

    Example:
        >>> as_checkpoint("walkthrough").config.n_heads
        2
    """
    if isinstance(model, str | os.PathLike):
        return load_checkpoint(model, epoch=epoch)
    if isinstance(model, HoldsEpochs):
        return model.checkpoint(epoch)
    if epoch is not None:
        raise UsageError("an epoch can be picked from a run only")
    if isinstance(model, Checkpoint):
        return model
    if isinstance(model, HoldsWeights) and not isinstance(model, type):
        return model.to_checkpoint()
    if hasattr(model, "cfg") and hasattr(model, "W_U"):
        raise UsageError(
            f"a {type(model).__name__} has to be imported first, so that it is known which of "
            "its tokens are letters and where its answer is read: tsc.from_transformer_lens(model, "
            'tokens={0: "a", 1: "b"}, query=..., task=...)'
        )
    raise UsageError(f"a model is {_EXPECTED}; got {_described(model)}")


def run_path(model: Any) -> Path | None:
    """The run directory `model` comes from, or None where it is not given as one."""
    if isinstance(model, str | os.PathLike):
        run = open_run(model)
        return None if run is None else run.path
    return model.path if isinstance(model, HoldsEpochs) else None


def _described(value: object) -> str:
    text = repr(value)
    kind = value.__name__ if isinstance(value, type) else type(value).__name__
    return f"{kind} {text}" if len(text) <= 60 else f"a {kind}"
