"""Where the search ends: numbers beyond float64, logits of zero, models too large to search."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verification.enumeration import same_counts
from tests.verification.models import (
    hand_built,
    planted,
    random_checkpoint,
    rescaled,
    shifted,
    unfailing,
    with_cancelling_heads,
)
from tsc_interp import verify
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.verification.count_model import EXACT_WORK, CountModel
from tsc_interp.verification.horizon_result import Horizon
from tsc_interp.verification.horizons import horizon
from tsc_interp.verification.search import search
from tsc_interp.verification.search.cutting import (
    halve_counts,
    halve_ratios,
    halves,
    longest_sides,
)
from tsc_interp.verification.search.search import search_support, search_supports
from tsc_interp.verification.summaries import counterexample

LOG_N = {"score_scale": "sqrt_d_head_log_n"}
CANCELLING = hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0)


def searched(checkpoint: Checkpoint, limit: int = 10**6) -> Horizon:
    """What the search says by itself; what the checker makes of it is tested elsewhere."""
    return horizon(checkpoint, limit=limit, prove=False)


# -- the same function has the same errors ---------------------------------------------------------


def same_answers(one: Checkpoint, other: Checkpoint, limit: int = 60, longest: int = 9) -> None:
    expected, found = searched(one, limit), searched(other, limit)
    assert (found.length, found.verified_length) == (expected.length, expected.verified_length)
    assert (found.shortest and found.shortest.string) == (
        expected.shortest and expected.shortest.string
    )
    assert [support.verified_length for support in found.by_letters] == [
        support.verified_length for support in expected.by_letters
    ]
    assert same_counts(verify(other, longest).tally, verify(one, longest).tally)


@pytest.mark.parametrize("by", [2.0**30, 2.0**60, 2.0**100, 2.0**127])
def test_scores_of_any_size(by: float) -> None:
    """Attention does not see what is added to all scores, with log n or without."""
    same_answers(planted(7, -1.0), shifted(planted(7, -1.0), by))
    for scores in ([[0.5, 0, -1]], [[-1, 0, 0.5]], [[0, 0.25, 0]]):
        model = hand_built(scores, [[3, -1, 2]], 1.0, **LOG_N)
        assert searched(model, 60).shortest is not None
        same_answers(model, shifted(model, by))


def test_two_heads_with_scores_of_any_size() -> None:
    """At 2^60 both scores of a pair are the same float64 number; their difference decides."""
    for by in (2.0**60, 2.0**127):
        found = searched(shifted(unfailing(), by), 300)
        assert (found.length, found.verified_length) == (None, 300)
        assert verify(shifted(unfailing(), by), 8).correct


@pytest.mark.parametrize("power", [-90, -50, 50, 90])
def test_residual_streams_of_any_size(power: int) -> None:
    for model in (planted(7, -1.0), load_checkpoint("generalization-errors")):
        same_answers(model, rescaled(model, power), limit=100)


def test_heads_that_cancel() -> None:
    """Float64 cannot see past them, so every vector is decided exactly."""
    same_answers(planted(4, -1.0), with_cancelling_heads(planted(4, -1.0), 2.0**90), limit=7)
    found = searched(with_cancelling_heads(planted(4, -1.0), 2.0**90), 7)
    assert found.shortest is not None
    assert found.shortest.logit == pytest.approx(3.5 / 7.5 - 0.5, abs=1e-6)


# -- logits that cannot be told from zero ----------------------------------------------------------


def test_a_logit_that_is_zero_everywhere_ends_the_search() -> None:
    """No precision tells it from zero: undecided, not proved, and soon given up."""
    found = searched(CANCELLING, 1000)
    assert not found.complete
    assert found.length is None
    # One letter alone needs no division that rounds, two do: ab cannot be decided.
    assert found.verified_length == 1
    for support in found.by_letters:
        assert len(support.letters) == 1 or (support.boxes < 10_000 and not support.complete)


def test_many_undecided_vectors_end_a_search() -> None:
    one = search_support(CountModel(CANCELLING), (0, 1), 10**6)
    assert search.MANY_UNDECIDED <= len(one.undecided) < 2 * search.MANY_UNDECIDED
    assert one.verified_length == 1


def test_exact_decisions_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    model = CountModel(planted(5))
    assert model.answer((1, 2, 0)) == 1
    model.exact_work = 0
    assert model.answer((1, 2, 0)) is None
    # A support that needs them all the time ends when they have taken too long.
    monkeypatch.setattr(search, "EXACT_WORK", 20_000)
    every = CountModel(with_cancelling_heads(planted(400, -1.0), 2.0**90))
    one = search_support(every, (1, 2), 10**6)
    assert one.examined < 20_000
    assert one.counterexample is None
    assert 1 <= one.verified_length < 10**6
    assert EXACT_WORK - every.exact_work < 100 * 20_000


def test_the_logit_of_a_counterexample_is_sharp() -> None:
    """128 bits do not show what is left when 2^120 cancels; its value is (w - 5) / 2 (w + 5)."""
    every = CountModel(with_cancelling_heads(planted(5), 2.0**120))
    one = counterexample(every, (0, 1), (1, 5))
    assert one.logit == pytest.approx((4.5 - 5) / (2 * (4.5 + 5)), rel=1e-6)


# -- models too large to search --------------------------------------------------------------------


def test_what_costs_too_much_is_refused_with_what_works() -> None:
    large = ClassifierConfig(n_letters=10, n_layers=3, d_model=64, n_heads=8, d_head=8, d_mlp=256)
    with pytest.raises(
        UnsupportedError, match=r"1,023 sets of letters.*hours.*seconds=\d+.*boxes=\d+"
    ):
        horizon(random_checkpoint(large, 0))


def test_alphabets_too_large_for_all_sets_of_letters() -> None:
    twenty = random_checkpoint(ClassifierConfig(n_letters=20), 0)
    with pytest.raises(UnsupportedError, match=r"1,048,575 sets.*12 letters.*max_length=3"):
        horizon(twenty)
    assert verify(twenty, 3).tally.vectors == 20 + 210 + 1540


def test_all_sets_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred boxes' worth for all seven sets; what is proved is still right."""
    every = CountModel(planted(5000, -1.0))
    seconds = 300 * every.cost((0, 1, 2)) / 1e6
    monkeypatch.setattr(search, "_FEWEST", 3)
    searches = search_supports(every, 10**6, 200_000, seconds=seconds)
    assert sum(one.examined for one in searches) < 300 + 7 * search._BATCH
    assert min(one.verified_length for one in searches) <= 5000
    full = search_supports(CountModel(planted(5000, -1.0)), 10**6, 20)
    assert [one.letters for one in full] == [one.letters for one in searches]


@pytest.mark.parametrize("limit", [0, -1, 10**9 + 1, 2.5, True, "10", None])
def test_limits_and_budgets_are_checked(limit: object) -> None:
    with pytest.raises(UsageError, match=r"from 1( to|, got)"):
        horizon(planted(3), limit=limit)  # type: ignore[arg-type]
    if limit != 10**9 + 1:
        with pytest.raises(UsageError, match="boxes is a whole number from 1"):
            horizon(planted(3), boxes=limit)  # type: ignore[arg-type]
    if limit in (0, -1, True, "10", None):
        with pytest.raises(UsageError, match="seconds is a number above 0"):
            horizon(planted(3), seconds=limit)  # type: ignore[arg-type]


# -- cutting ---------------------------------------------------------------------------------------

SIDE = st.tuples(st.integers(1, 10**9), st.integers(0, 10**9))


@given(st.lists(SIDE, min_size=1, max_size=4).filter(lambda sides: any(s[1] for s in sides)))
def test_halves_of_counts_are_a_partition(sides: list[tuple[int, int]]) -> None:
    low, high = tuple(s[0] for s in sides), tuple(s[0] + s[1] for s in sides)
    first, second = halves(low, high)
    assert (first[0], second[1]) == (low, high)
    changed = [i for i in range(len(low)) if first[1][i] != high[i]]
    assert len(changed) == 1
    (axis,) = changed
    assert low[axis] <= first[1][axis] < high[axis]
    assert second[0] == (*low[:axis], first[1][axis] + 1, *low[axis + 1 :])
    ratios = [b / a for a, b in zip(low, high, strict=True)]
    assert ratios[axis] == max(ratios)


def test_a_side_along_which_nothing_changes_counts_for_less() -> None:
    def logits(counts: np.ndarray) -> np.ndarray:
        return counts[:, 0] / counts[:, 1] + 1e-9 * counts[:, 2]  # the third is hardly heard

    wide, narrow = ((1, 1, 1), (9, 8, 1000)), ((50, 60, 1), (51, 61, 1000))
    assert longest_sides([wide, narrow], None) == [2, 2]
    assert longest_sides([wide, narrow], logits) == [0, 2]  # but is cut once others are short
    assert longest_sides([((3, 3, 1), (3, 3, 2))], logits) == [2]


def test_many_halves_at_once() -> None:
    """The same cuts as one by one, and each a partition."""
    rng = np.random.default_rng(0)
    low = rng.integers(1, 10 ** rng.integers(1, 9, (500, 1)), (500, 3))
    high = low + rng.integers(1, 10 ** rng.integers(1, 9, (500, 1)), (500, 3))
    lows, highs = (end.tolist() for end in halve_counts(low, high))
    for i, (first, second) in enumerate(map(halves, map(tuple, low.tolist()), high.tolist())):
        assert (lows[i], highs[i]) == (list(first[0]), list(first[1]))
        assert (lows[i + 500], highs[i + 500]) == (list(second[0]), list(second[1]))
    low, high = np.array([[1, 1], [5, 7]]), np.array([[4, 2], [5, 8]])
    lows, highs = halve_counts(low, high)
    points = [
        set(product(*(range(a, b + 1) for a, b in zip(*box, strict=True))))
        for box in zip(lows.tolist(), highs.tolist(), strict=True)
    ]
    assert points[0] | points[2] == set(product(range(1, 5), range(1, 3)))
    assert not points[0] & points[2]
    assert points[1] | points[3] == {(5, 7), (5, 8)}
    assert not points[1] & points[3]


EDGE = st.sampled_from([0.0, 2.0**-1074, 2.0**-700, 2.0**-599, 1e-30, 1e-3, 0.3, 0.5, 1.0])


@given(st.lists(st.tuples(EDGE, EDGE).map(sorted), min_size=0, max_size=4))
def test_halves_of_ratios_are_a_partition_or_none(sides: list[list[float]]) -> None:
    low, high = tuple(s[0] for s in sides), tuple(s[1] for s in sides)
    parts = halve_ratios(low, high)
    if not parts:
        # Nothing is left to cut: every side is a point, or tiny.
        assert all(a == b or b <= 2.0**-600 for a, b in sides)
        return
    (first_low, first_high), (second_low, second_high) = parts
    assert (first_low, second_high) == (low, high)
    (axis,) = [i for i in range(len(low)) if first_high[i] != high[i]]
    middle = first_high[axis]
    assert low[axis] < middle < high[axis]
    assert first_high == (*high[:axis], middle, *high[axis + 1 :])
    assert second_low == (*low[:axis], middle, *low[axis + 1 :])
