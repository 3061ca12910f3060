"""The checker holds no more bytes than it is allowed: small certificates cannot make it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.verification.models import planted, random_checkpoint
from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import Maximum
from tsc_interp.tasks import Automaton
from tsc_interp.verification import CertificateError, check
from tsc_interp.verification.checker.agreement import check_agreement
from tsc_interp.verification.checker.budget import Budget, Kept
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.coverage import covered
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.trellis import TrellisChecker
from tsc_interp.verification.checker.trellis_claims import Claim
from tsc_interp.verification.questions import verify_ordered


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


# -- order ------------------------------------------------------------------------------------


def ordered_model(**options: Any) -> Any:
    config = ClassifierConfig(
        n_letters=2, d_model=3, n_heads=2, d_head=2, positions="learned", n_positions=9, **options
    )
    return ordered_checkpoint(config, 1)


def test_an_ordered_certificate_needs_its_memory() -> None:
    checkpoint = ordered_model(d_mlp=2)
    certificate = verify_ordered(checkpoint, 4, certify=True).certificate
    assert certificate is not None
    assert TrellisChecker(checkpoint).check(certificate.document) == certificate.checked
    with pytest.raises(CertificateError, match="bytes of memory"):
        TrellisChecker(checkpoint, memory=50).check(certificate.document)


def many_states(states: int, memory: int) -> TrellisChecker:
    """Every letter leads from each state to another: a stage of `3 * states` edges."""
    rng = np.random.default_rng(0)
    step = rng.integers(0, states, (states, 3)).tolist()
    task = Automaton(states=states, start=0, step=step, label=[s % 2 for s in range(states)])
    config = ClassifierConfig(
        n_letters=3, n_outputs=2, task=task, d_model=3, d_mlp=2, reads="last_letter",
        attend_cls=True,
    )  # fmt: skip
    return TrellisChecker(ordered_checkpoint(config, 1), memory=memory)


def test_what_is_derived_at_once_is_counted_before_it_is_made() -> None:
    """Batches fit the memory that is allowed; where one leaf does not, it is refused by name."""
    tree = [["open"]]
    parts = [{"length": 12, "groups": [{"labels": [0, 1], "tree": tree}]}]
    large = many_states(800, 1 << 30).derive(parts).parts[0]
    assert (large.inputs, large.undecided) == (3**12, 3**12)
    tracemalloc.start()
    try:
        small = many_states(800, 1 << 21)
        made = tracemalloc.get_traced_memory()[0]
        with pytest.raises(CertificateError, match="more than 2,097,152 bytes of memory"):
            small.derive(parts)
        assert tracemalloc.get_traced_memory()[1] - made < 1 << 21
    finally:
        tracemalloc.stop()


def test_leaves_are_derived_as_many_at_a_time_as_memory_allows() -> None:
    memory = 1 << 23
    checker = many_states(20, memory)
    trellis = checker.trellis("length", 6).of_labels([0, 1])
    whole = Sets.whole(trellis)
    masks = [np.repeat(mask, 300, axis=0) for mask in whole.masks]
    claims = [Claim("right")] * 300
    tracemalloc.start()
    try:
        assert not checker.hold(trellis, masks, claims).any()  # two labels: nothing is shown
        assert tracemalloc.get_traced_memory()[1] < memory
        last = np.isin(np.arange(masks[-1].shape[1]), np.flatnonzero(trellis.label == 0)[:1])
        masks[-1] = masks[-1] & last
        checker.hold(trellis, masks, claims)
        assert tracemalloc.get_traced_memory()[1] < memory + 300 * trellis.n_edges
    finally:
        tracemalloc.stop()
