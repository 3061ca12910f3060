"""The search for first errors, made once for all the probes that are asked about one model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.tasks.audit import labels_digest
from tsc_interp.verification.certificates import Certificate, certify_searches
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.horizon_result import Horizon
from tsc_interp.verification.search.search import SupportSearch, search_supports
from tsc_interp.verification.summaries import DEFAULT_LIMIT

BUDGET = 20_000
"""Boxes per set of letters: a report must not keep anyone waiting."""
_KEPT = 2  # a report compares two models


@dataclass
class Searched:
    """The search of every set of letters, and what follows from it."""

    model: CountModel
    searches: list[SupportSearch]

    @cached_property
    def certificate(self) -> Certificate:
        """What the checker confirms, and the first error of each set of letters."""
        return certify_searches(self.model, self.searches, DEFAULT_LIMIT)

    @cached_property
    def horizon(self) -> Horizon:
        """Of all sets of letters together."""
        return self.certificate.horizon


_known: dict[tuple[str, str, int], Searched] = {}


def searched(checkpoint: Checkpoint, budget: int = BUDGET) -> Searched:
    """The searches of every set of letters, for a proof; those of the last two models are kept.

    Args:
        checkpoint: The model; two with the same weights, configuration and labels are one.
        budget: The boxes examined per set of letters.
    """
    config = checkpoint.config
    key = checkpoint.weight_hash(), labels_digest(config.task, config.n_letters), budget
    if key not in _known:
        model = CountModel(checkpoint)
        found = Searched(model, search_supports(model, DEFAULT_LIMIT, budget, sure=False))
        while len(_known) >= _KEPT:
            del _known[next(iter(_known))]
        _known[key] = found
    return _known[key]
