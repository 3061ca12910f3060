"""Counting the plain way, every count vector up to a length: the oracle of regions."""

from __future__ import annotations

from typing import Any

import tsc_interp as tsc
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.verification.bounds.labels import all_supports
from tsc_interp.verification.bounds.supports import Supports
from tsc_interp.verification.counting.costs import EXACT_BUDGET
from tsc_interp.verification.counting.enumeration import PascalRows, positive_vectors, record
from tsc_interp.verification.counting.tally import Tally
from tsc_interp.verification.search.search import failures


def enumerate_counts(supports: Supports, max_length: int) -> Tally:
    """Every count vector of at most `max_length` letters, one by one."""
    config = supports.config
    tally = Tally(max_length, config.n_letters, supports.multiclass)
    supports.exact.budget = EXACT_BUDGET
    pascal = PascalRows()
    for letters in all_supports(config, max_length):
        for vectors in positive_vectors(len(letters), max_length):
            members = failures(supports, letters, vectors)
            for side, member in zip(tally.sides, members, strict=False):
                record(supports, letters, vectors[member], side, pascal)
    tally.out_of_budget = supports.exact.budget <= 0
    return tally


def same_counts(one: Tally, other: Tally) -> bool:
    """Whether two tallies agree on every number and every shortest string."""
    return all(
        (a.vectors, a.strings, a.shortest) == (b.vectors, b.strings, b.shortest)
        for a, b in zip(one.sides, other.sides, strict=True)
    )


def verify_both_ways(checkpoint: Checkpoint, max_length: int, **options: Any) -> tsc.Verdict:
    """`tsc.verify`, after its counts were compared with those of enumeration."""
    verdict = tsc.verify(checkpoint, max_length, **options)
    assert isinstance(verdict, tsc.Verdict)
    assert same_counts(verdict.tally, enumerate_counts(Supports(checkpoint), max_length))
    return verdict
