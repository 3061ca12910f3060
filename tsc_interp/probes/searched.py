"""The search for first errors, made once for all the probes that are asked about one model."""

from __future__ import annotations

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.tasks.audit import labels_digest
from tsc_interp.verification.bounds.supports import Supports
from tsc_interp.verification.search.search import SupportSearch, search_supports
from tsc_interp.verification.summaries import DEFAULT_LIMIT

BUDGET = 20_000
"""Boxes per set of letters: a report must not keep anyone waiting."""
_KEPT = 2  # a report compares two models
_known: dict[tuple[str, str, int], tuple[Supports, list[SupportSearch]]] = {}


def searched(checkpoint: Checkpoint, budget: int = BUDGET) -> tuple[Supports, list[SupportSearch]]:
    """The searches of every set of letters; those of the last two models are kept.

    Args:
        checkpoint: The model; two with the same weights, configuration and labels are one.
        budget: The boxes examined per set of letters.

    Returns:
        The bounds of the model's sets of letters, and the search of each.
    """
    config = checkpoint.config
    key = checkpoint.weight_hash(), labels_digest(config.task, config.n_letters), budget
    if key not in _known:
        supports = Supports(checkpoint)
        searches = supports, search_supports(supports, DEFAULT_LIMIT, budget)
        while len(_known) >= _KEPT:
            del _known[next(iter(_known))]
        _known[key] = searches
    return _known[key]
