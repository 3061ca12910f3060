"""Checkpoints: their format, where to find them, and the models that come with the package."""

from tsc_interp.checkpoints.checkpoint import Checkpoint, read_checkpoint
from tsc_interp.checkpoints.locate import bundled_names, load_checkpoint

__all__ = ["Checkpoint", "bundled_names", "load_checkpoint", "read_checkpoint"]
