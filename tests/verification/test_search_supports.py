"""The search on one set of letters: its first error, its proof and its limits, by brute force.

The oracle of signs is mpmath (`precise.py`), and every vector up to the limit is looked at.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.verification import precise
from tests.verification.models import hand_built, planted, random_checkpoint
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks.counts import AtLeast, Majority, Parity
from tsc_interp.verification.certificates import certify_searches
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.guess import Guess
from tsc_interp.verification.labels import all_supports
from tsc_interp.verification.search import search
from tsc_interp.verification.search.cutting import Box, halve_counts, halve_ratios, halves
from tsc_interp.verification.search.search import (
    SupportSearch,
    search_support,
    search_supports,
)
from tsc_interp.verification.search.ways import OPEN, TaskWays

LIMIT = 7
MODELS = {
    "plain": random_checkpoint(ClassifierConfig(), 1),
    "cls": random_checkpoint(ClassifierConfig(attend_cls=True), 4),
    "log n": random_checkpoint(ClassifierConfig(score_scale="sqrt_d_head_log_n"), 2),
    "at least": random_checkpoint(ClassifierConfig(task=AtLeast(letter="b", k=3)), 0),
    "majority": random_checkpoint(ClassifierConfig(task=Majority(letter="c")), 3),
    "parity": random_checkpoint(ClassifierConfig(task=Parity(letter="a")), 5),
    "deep": random_checkpoint(ClassifierConfig(n_layers=2, norm="rms", d_model=3), 2, 1.0),
    "planted": planted(6, -1.0),
    "ties": planted(4),
}


def vectors(size: int, limit: int) -> list[tuple[int, ...]]:
    """In the order of strings: shorter first, then the alphabet's."""
    every = (v for v in product(range(1, limit + 1), repeat=size) if sum(v) <= limit)
    return sorted(every, key=lambda v: (sum(v), [-n for n in v]))


def wrong_ones(
    checkpoint: Checkpoint, letters: tuple[int, ...], limit: int
) -> list[tuple[int, ...]]:
    found = []
    for vector in vectors(len(letters), limit):
        counts = [0] * checkpoint.config.n_letters
        for letter, count in zip(letters, vector, strict=True):
            counts[letter] = count
        sign, label = (
            precise.sign(checkpoint, counts),
            checkpoint.config.task.labels(np.array(counts)),
        )
        assert sign is not None
        if (sign > 0) != bool(label):
            found.append(vector)
    return found


def closed(found: SupportSearch) -> list[Box]:
    """The boxes that were not cut, as far as every vector in them is short enough to be right."""
    boxes, waiting = [], [found.whole]
    while waiting:
        low, high = waiting.pop()
        if (low, high) in found.cuts:
            waiting += halves(low, high, found.cuts[low, high])
        elif sum(low) <= found.verified_length:
            boxes.append((low, high))
    return boxes


def check_search(found: SupportSearch, wrong: list[tuple[int, ...]], limit: int) -> None:
    """The first error, and boxes that leave no shorter string out and hold no wrong one."""
    assert found.counterexample == (wrong[0] if wrong else None)
    assert found.verified_length == (sum(wrong[0]) - 1 if wrong else limit)
    boxes = [
        [range(a, b + 1) for a, b in zip(low, high, strict=True)] for low, high in closed(found)
    ]
    for vector in vectors(len(found.letters), limit):
        times = sum(all(n in side for n, side in zip(vector, box, strict=True)) for box in boxes)
        assert times <= 1, "boxes overlap"
        assert not (times and vector in wrong)
        assert times or sum(vector) > found.verified_length


@pytest.mark.parametrize("name", MODELS)
def test_the_first_error_and_the_boxes_before_it(name: str) -> None:
    checkpoint = MODELS[name]
    model = CountModel(checkpoint)
    for letters in all_supports(checkpoint.config):
        wrong = wrong_ones(checkpoint, letters, LIMIT)
        found = search_support(model, letters, LIMIT)
        check_search(found, wrong, LIMIT)
        assert not found.undecided
        assert found.label == checkpoint.config.task.label_of_support(
            frozenset("abc"[i] for i in letters)
        )
        # One letter less than the first error: no error, and proved.
        if wrong and sum(wrong[0]) > len(letters):
            short = search_support(model, letters, sum(wrong[0]) - 1)
            check_search(short, [], sum(wrong[0]) - 1)


def test_strings_shorter_than_their_letters_there_are_none() -> None:
    model = CountModel(planted(6))
    found = search_support(model, (0, 1, 2), 2)
    assert (found.verified_length, found.counterexample, found.examined) == (2, None, 0)
    found = search_support(model, (0, 1, 2), 3)
    assert (found.verified_length, found.examined, closed(found)) == (
        3,
        1,
        [((1, 1, 1), (1, 1, 1))],
    )


@pytest.mark.parametrize("budget", [1, 2, 5, 60])
def test_a_budget_is_kept_and_what_it_proves_is_true(budget: int) -> None:
    """One a against 5000 b's is wrong: with few boxes less is proved, never something false."""
    found = search_support(CountModel(planted(5000, -1.0)), (0, 1), 10**6, budget)
    assert found.examined < budget + search._BATCH
    if found.counterexample is None:
        assert budget <= found.examined
    else:
        assert found.counterexample == (1, 5000)
    assert 1 <= found.verified_length <= 5000
    # Every vector no longer than that is in a box: looked at for a few lengths.
    for length in {n for n in (2, 3, found.verified_length // 2, found.verified_length) if n > 1}:
        for a in {1, length // 2, length - 1} if length <= found.verified_length else ():
            assert any(
                all(x <= n <= y for x, n, y in zip(low, (a, length - a), high, strict=True))
                for low, high in closed(found)
            )


def test_few_boxes_decide_a_far_error() -> None:
    """Best first, cut where it matters: about two boxes per halving, not one per length."""
    for letters, end, boxes in (((0, 1), 100_000, 100), ((0, 1, 2), 100_001, 4000)):
        found = search_support(CountModel(planted(100_000, -1.0)), letters, 10**6)
        assert found.verified_length == end
        assert found.examined < boxes


def test_what_no_precision_decides_is_undecided() -> None:
    cancelling = hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0)
    found = search_support(CountModel(cancelling), (0, 1), 5)
    assert found.verified_length == 1
    assert found.counterexample is None
    assert (1, 1) in found.undecided
    assert closed(found) == []


# -- verdicts --------------------------------------------------------------------------------------


def test_verdicts_without_a_budget_for_exact_signs() -> None:
    """What intervals decide they decide; the rest is undecided, and costs nothing."""
    given, yes = np.array([[1, 1], [1, 4], [1, 5], [1, 90]]), [2, 2, 1, 1]
    model = CountModel(planted(5, -1.0))
    assert TaskWays(model).decided((0, 1), given).tolist() == yes
    model.exact_work = 0
    assert TaskWays(model).decided((0, 1), given).tolist() == yes
    cancelling = CountModel(hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0))
    cancelling.exact_work = 0
    assert TaskWays(cancelling).decided((0, 1), given).tolist() == [OPEN] * 4


class Mistaken(Guess):
    """Float64 that is wrong where it matters: about some corners, or about every box."""

    corners: set[tuple[int, ...]] | None = None
    boxes: float | None = None

    def outputs(self, letters: Any, counts: Any) -> Any:
        outputs = super().outputs(letters, counts).copy()
        for i, row in enumerate(np.asarray(counts).tolist()):
            if self.corners is not None and tuple(row) in self.corners:
                outputs[i] = outputs[i][::-1]
        return outputs

    def gaps(self, letters: Any, low: Any, high: Any, winner: Any) -> Any:
        gaps = super().gaps(letters, low, high, winner)
        return gaps if self.boxes is None else np.full_like(gaps, self.boxes)


@pytest.mark.parametrize("sure", [True, False])
@pytest.mark.parametrize("boxes", [1.0, -1.0, np.nan, None])
def test_a_wrong_guess_costs_time_only(boxes: float | None, sure: bool) -> None:
    """All boxes look right, or none does; right corners look wrong, and wrong ones right."""
    model = CountModel(planted(5, -1.0))
    guess = Mistaken(model.read, model.judge.counts)
    guess.boxes, guess.corners = boxes, {(1, 1), (1, 5), (2, 3), (1, 7)}
    model.guess = guess
    found = search_support(model, (0, 1), 8)
    check_search(found, wrong_ones(model.checkpoint, (0, 1), 8), 8)
    searches = search_supports(model, 8, 10**6, sure=sure)
    made = certify_searches(model, searches, 8)
    assert made.horizon.proved
    assert (made.horizon.length, made.horizon.verified_length) == (5, 5)


def test_exact_work_ends_a_support(monkeypatch: pytest.MonkeyPatch) -> None:
    model = CountModel(planted(6))
    monkeypatch.setattr(search, "EXACT_WORK", -1)
    found = search_support(model, (0, 1), 100)
    assert (found.examined, found.verified_length) == (0, 1)
    monkeypatch.setattr(search, "EXACT_WORK", 0)
    assert search_support(model, (0, 1), 100).verified_length == 6


# -- all sets of letters ---------------------------------------------------------------------------


class Costly(CountModel):
    """Every box takes this long."""

    def cost(self, letters: tuple[int, ...]) -> int:
        return 1000


def test_costs_are_told_before_anything_is_searched() -> None:
    """Seven sets, 500 boxes each, a millisecond a box: 3.5 seconds are the least."""
    model = Costly(planted(6))
    assert len(search_supports(model, 10, 10**6, seconds=3.5)) == 7
    fewer = r"7 sets of letters, 500 boxes.*seconds=4\) or horizon\(model, boxes=499\)"
    with pytest.raises(UnsupportedError, match=fewer):
        search_supports(model, 10, 10**6, seconds=3.499)
    assert len(search_supports(model, 10, 499)) == 7


def test_a_budget_that_one_set_leaves_is_there_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares: list[int] = []

    def spend(model: Any, letters: Any, limit: int, budget: int, sure: bool) -> SupportSearch:
        shares.append(budget)
        return SupportSearch(letters, None, examined=10 if len(shares) < 3 else budget)

    monkeypatch.setattr(search, "search_support", spend)
    search_supports(Costly(planted(6)), 10, 10**6, seconds=3.5)
    # 3,500 boxes in all: a seventh; then a sixth of what is left, 3,490; a fifth of 3,480, ...
    assert shares == [500, 581, 696, 696, 696, 696, 696]
    shares.clear()
    search_supports(Costly(planted(6)), 10, 550, seconds=3.5)
    assert shares == [500, 550, 550, 550, 550, 550, 550]


# -- cutting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "axis", "middle"),
    [
        ((1,), (100,), 0, 10),
        ((1,), (2,), 0, 1),
        ((4,), (9,), 0, 6),
        ((5, 1), (50, 9), 0, 15),
        ((5, 1), (50, 16), 1, 4),
        ((10**9 - 1,), (10**9,), 0, 10**9 - 1),
        ((1, 1), (7, 7), 0, 2),  # the first of equally long sides
    ],
)
def test_counts_are_cut_at_the_geometric_middle(
    low: tuple[int, ...], high: tuple[int, ...], axis: int, middle: int
) -> None:
    (_, first), (second, _) = halves(low, high)
    assert (first[axis], second[axis]) == (middle, middle + 1)
    lows, highs = halve_counts(np.array([low]), np.array([high]))
    assert (highs[0, axis], lows[1, axis]) == (middle, middle + 1)


@pytest.mark.parametrize(
    ("low", "high", "axis", "middle"),
    [
        ((0.0,), (1.0,), 0, 1 / 64),
        ((0.25,), (1.0,), 0, 0.5),
        ((0.5, 0.25), (1.0, 1.0), 1, 0.5),
        ((0.25, 0.5), (1.0, 1.0), 0, 0.5),
        ((0.5, 0.0), (1.0, 2.0**-90), 1, 2.0**-96),  # 0 counts as 1e-30, however small the top
        ((0.0, 0.5), (2.0**-110, 1.0), 1, float(np.float16(0.5**0.5))),
        ((2.0**-20,), (2.0**-10,), 0, 2.0**-15),  # below 1e-3: a power of two
        ((2.0**-18,), (2.0**-1,), 0, float(np.float16(2.0**-9.5))),
        ((1.0 - 2.0**-13,), (1.0,), 0, 1.0 - 2.0**-14),  # too close for 11 bits: halfway
        ((0.0,), (2.0**-599,), 0, 2.0**-605),
    ],
)
def test_ratios_are_cut_at_the_geometric_middle(
    low: tuple[float, ...], high: tuple[float, ...], axis: int, middle: float
) -> None:
    (_, first), (second, _) = halve_ratios(low, high)
    assert first[axis] == second[axis] == middle


def test_ratios_that_are_not_cut() -> None:
    assert halve_ratios((0.0,), (2.0**-600,)) == []
    assert halve_ratios((), ()) == []
    # No float64 lies between.
    assert halve_ratios((1.0 - 2.0**-53,), (1.0,)) == []
    # The longest side is too small to cut, so the next one is.
    (_, first), _ = halve_ratios((0.0, 0.5), (2.0**-600, 1.0))
    assert first[0] == 2.0**-600
    assert 0.5 < first[1] < 1.0
