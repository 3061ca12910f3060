"""The checker holds no more bytes than it is allowed: small certificates cannot make it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

import tsc_interp as tsc
from tests.verification.models import planted, random_checkpoint
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import Maximum
from tsc_interp.verification import CertificateError, check
from tsc_interp.verification.checker.agreement import check_agreement
from tsc_interp.verification.checker.budget import Budget, Kept
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.coverage import covered


def overlapping(n: int) -> list[list[list[int]]]:
    """Boxes of one letter's counts, each of which shares strings with all the others."""
    return [[[1 + i], [n + i]] for i in range(n)]


def started(seconds: float, memory: int) -> Budget:
    budget = Budget(seconds, memory)
    budget.restart()
    return budget


# -- overlapping boxes ------------------------------------------------------------------------


def test_overlapping_boxes_hold_no_more_than_is_counted() -> None:
    n, most = 500, [0]

    def pay(held: int) -> None:
        most[0] = max(most[0], held)

    boxes = [(low, [high[0] + 1]) for low, high in overlapping(n)]
    tracemalloc.start()
    try:
        assert covered(([1], [2 * n - 1]), boxes, None, pay)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 4 * n * n / 2 < most[0]  # pieces wait with lists of up to n boxes, in n steps
    assert peak < 1.2 * most[0] + 100_000


def test_a_claim_of_overlapping_boxes_is_rejected_when_memory_ends() -> None:
    checkpoint, n = planted(2000), 200
    claim = {"kind": "right_up_to", "letters": "a", "length": n, "boxes": overlapping(n)}
    assert Checker(checkpoint, memory=10**6).derive([claim]).verified_length["a"] == n
    claim["length"] = 2 * n - 1
    assert Checker(checkpoint).derive([claim]).verified_length["a"] == 2 * n - 1
    with pytest.raises(CertificateError, match="more than 50,000 bytes of memory are needed"):
        Checker(checkpoint, memory=50_000).derive([claim])


def test_the_cap_is_an_argument_of_every_check() -> None:
    checkpoint = load_checkpoint("generalization-errors")
    document = tsc.certify(checkpoint, limit=20).document
    assert check(document, checkpoint, memory=10**7) == check(document, checkpoint)
    with pytest.raises(CertificateError, match="bytes of memory"):
        check(document, checkpoint, memory=1000)
    same = tsc.diff(checkpoint, checkpoint).document
    assert check_agreement(same, checkpoint, checkpoint, memory=10**7).everywhere


# -- tables -----------------------------------------------------------------------------------


def test_tables_are_forgotten_before_they_are_too_many() -> None:
    made: list[int] = []

    def table(n: int) -> Any:
        return kept.get(n, 10, lambda: made.append(n) or n)

    kept = Kept(memory=10_000)  # 5,000 bytes: two tables of ten balls
    assert [table(n) for n in (1, 1, 2, 1, 3, 3, 1)] == [1, 1, 2, 1, 3, 3, 1]
    assert made == [1, 2, 3, 1]
    assert kept.held <= kept.most
    with pytest.raises(CertificateError, match="more than 10,000 bytes"):
        kept.get("large", 1000, lambda: pytest.fail("refused before it is made"))


@pytest.mark.parametrize("memory", [40_000, 1 << 30])
def test_a_checker_that_forgets_says_the_same(memory: int) -> None:
    several = ClassifierConfig(task=Maximum(), n_outputs=3)
    checkpoint = random_checkpoint(several, 3)
    document = tsc.certify(checkpoint, limit=6).document
    checker = Checker(checkpoint, memory=memory)
    assert checker.check(document) == check(document, checkpoint)
    assert checker.model._kept.held <= memory // 2
