"""Smaller classifiers that do the same: heads, neurons and dimensions that are not needed."""

from tsc_interp.pruning.prune import Pruned, prune
from tsc_interp.pruning.smaller import narrow, remove

__all__ = ["Pruned", "narrow", "prune", "remove"]
