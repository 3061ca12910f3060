"""Strings behind boxes, in closed form or row by row: always against plain loops over strings."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verification.enumeration import enumerate_counts
from tests.verification.models import random_checkpoint
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Parity
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.counting import binomial as runs
from tsc_interp.verification.counting import regions
from tsc_interp.verification.counting.binomial import Binomial, PartialSum, add_boxes, rows_of
from tsc_interp.verification.counting.costs import Work
from tsc_interp.verification.counting.tally import Side

Box = tuple[tuple[int, ...], tuple[int, ...]]


def work(limit: int) -> Work:
    return Work(ClassifierConfig(), limit)


def multinomial(vector: tuple[int, ...]) -> int:
    return prod(comb(sum(vector[: i + 1]), count) for i, count in enumerate(vector))


@st.composite
def disjoint_boxes(draw: st.DrawFn) -> tuple[list[Box], int]:
    """Some of the parts that random cuts leave of a block of counts, and a length limit."""
    size = draw(st.integers(1, 5))
    side = {1: 30, 2: 20, 3: 9, 4: 5, 5: 4}[size]
    boxes: list[Box] = [((1,) * size, (side,) * size)]
    for _ in range(draw(st.integers(0, 8))):
        low, high = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axis = draw(st.integers(0, size - 1))
        if low[axis] == high[axis]:
            boxes.append((low, high))
            continue
        cut = draw(st.integers(low[axis], high[axis] - 1))
        boxes.append((low, (*high[:axis], cut, *high[axis + 1 :])))
        boxes.append(((*low[:axis], cut + 1, *low[axis + 1 :]), high))
    kept = draw(st.lists(st.booleans(), min_size=len(boxes), max_size=len(boxes)))
    limit = draw(st.integers(size, size * side))
    # The verifier trims boxes to vectors that fit; so do we.
    trimmed = []
    for (low, high), keep in zip(boxes, kept, strict=True):
        slack = limit - sum(low)
        if keep and slack >= 0:
            trimmed.append((low, tuple(min(h, a + slack) for a, h in zip(low, high, strict=True))))
    return trimmed, limit


def by_loops(boxes: list[Box], limit: int) -> tuple[list[int], list[int]]:
    vectors, strings = [0] * (limit + 1), [0] * (limit + 1)
    for low, high in boxes:
        for vector in product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))):
            if sum(vector) <= limit:
                vectors[sum(vector)] += 1
                strings[sum(vector)] += multinomial(vector)
    return vectors, strings


@given(disjoint_boxes(), st.sampled_from([1, 7, 1 << 18]))
def test_boxes_against_loops(case: tuple[list[Box], int], rows_at_once: int) -> None:
    """However little fits in memory at once, and taken away again to the last string."""
    boxes, limit = case
    size = len(boxes[0][0]) if boxes else 1
    low, high = (
        np.array([box[i] for box in boxes], dtype=np.int32).reshape(-1, size) for i in (0, 1)
    )
    side = Side(limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "ROWS_AT_ONCE", rows_at_once)
        add_boxes(side, low, high, work(limit))
        assert (side.vectors, side.strings) == by_loops(boxes, limit)
        add_boxes(side, low, high, work(limit), sign=-1)
    assert not any(side.vectors)
    assert not any(side.strings)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_long_strings_of_many_letters(size: int) -> None:
    """Thousands of each of six letters: no 64-bit number can name a row."""
    limit = 18_000
    rng = np.random.default_rng(size)
    low = rng.integers(1, 3000, (12, size))
    high = low.copy()
    high[::2, 1] += 2
    side = Side(limit)
    add_boxes(side, low, high, work(limit))
    boxes = list(zip(map(tuple, low.tolist()), map(tuple, high.tolist()), strict=True))
    assert (side.vectors, side.strings) == by_loops(boxes, limit)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=20))
def test_binomials_in_any_order(asked: list[tuple[int, int]]) -> None:
    walk = Binomial()
    for n, k in asked:
        if k <= n:
            assert walk.at(n, k) == comb(n, k)


@given(st.lists(st.tuples(st.integers(1, 50), st.sets(st.integers(1, 50), min_size=1)),
                min_size=1, max_size=12))  # fmt: skip
def test_partial_sums_in_any_order(rows: list[tuple[int, set[int]]]) -> None:
    walk = PartialSum()
    for m, wanted in rows:
        places = {min(b, m) for b in wanted}
        expected = {b: sum(comb(m, j) for j in range(b)) for b in places}
        assert walk.of_row(m, places) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_whole_support(size: int) -> None:
    side = Side(7)
    side.add_whole_support(size)
    for length in range(1, 8):
        words = [word for word in product(range(size), repeat=length) if len(set(word)) == size]
        assert side.strings[length] == len(words)
        assert side.vectors[length] == len({tuple(sorted(word)) for word in words})


def test_rows_are_foreseen() -> None:
    """A box of 2 x 3 x 4: fixing the shortest side leaves 2 rows for each of 3 + 4 - 1 sums."""
    low, high = np.array([[1, 1, 1]]), np.array([[2, 3, 4]])
    assert rows_of(low, high) == 2 * 6
    assert rows_of(low[:, :2], high[:, :2]) == 4
    assert rows_of(low[:, :1], high[:, :1]) == 1


TASKS = [ContainsAll(letters="a"), ContainsAll(letters="ab"), AtLeast(letter="b", k=3),
         Majority(letter="a"), Parity(letter="b")]  # fmt: skip


def by_strings(checkpoint: Checkpoint, max_length: int) -> dict[str, Counter]:
    """Every string, one by one, its answer in balls."""
    config, model = checkpoint.config, CountModel(checkpoint)

    @cache
    def judged(counts: tuple[int, ...]) -> tuple[bool, bool]:
        answer = model.answer(counts)
        assert answer is not None
        return answer == 1, bool(config.task.labels(np.array(counts)))

    wrong: dict[str, Counter] = {"false_positives": Counter(), "false_negatives": Counter()}
    for length in range(1, max_length + 1):
        for word in product(range(config.n_letters), repeat=length):
            positive, label = judged(tuple(map(word.count, range(config.n_letters))))
            if positive != label:
                wrong["false_negatives" if label else "false_positives"][length] += 1
    return wrong


@settings(max_examples=40)
@given(
    st.integers(1, 5),
    st.sampled_from(TASKS),
    st.sampled_from([-8.0, 0.0, 8.0]),
    st.integers(0, 10**6),
    st.sampled_from([1, 5, 64]),
)
def test_both_methods_against_every_string(
    letters: int, task: object, shift: float, seed: int, leaf: int
) -> None:
    """With the logit shifted, supports are wrong as a whole, wrong but for a little, or mixed."""
    if letters == 1:
        task = ContainsAll(letters="a")
    config = ClassifierConfig(n_letters=letters, task=task)
    checkpoint = random_checkpoint(config, seed)
    weights = {**checkpoint.weights}
    # CLS embeds to something the read-out sees, whatever the string.
    read = weights["unembed.W_U"][:, 0]
    moved = weights["embed.W_E"].copy()
    moved[0] += np.float32(shift) * np.sign(read)
    weights["embed.W_E"] = moved.astype(np.float32)
    checkpoint = Checkpoint(config, weights)
    longest = {1: 9, 2: 8, 3: 6, 4: 5, 5: 4}[letters]
    expected = by_strings(checkpoint, longest)
    with pytest.MonkeyPatch.context() as patch:
        # Small leaves: boxes decide as much as they can.
        patch.setattr(regions, "_LEAF", leaf)
        by_regions = regions.count_regions(CountModel(checkpoint), longest)
    for tally in (by_regions, enumerate_counts(CountModel(checkpoint), longest)):
        for name, counted in expected.items():
            strings = getattr(tally, name).strings
            assert {n: s for n, s in enumerate(strings) if s} == counted
        assert tally.undecided.total_vectors == 0


def test_counts_beyond_float64_are_exact() -> None:
    """Six letters, wrong everywhere, to length 5,000: more vectors of a length than 2^53."""
    config = ClassifierConfig(n_letters=6, task=AtLeast(letter="a"), d_mlp=0, n_heads=0)
    weights = {name: np.zeros_like(w) for name, w in random_checkpoint(config, 0).weights.items()}
    weights["embed.W_E"][0] = weights["unembed.W_U"][:, 0] = 1
    side = regions.count_regions(CountModel(Checkpoint(config, weights)), 5000).false_positives
    # Always yes, so wrong on every string without an a: over exactly 1 to 5 other letters.
    expected = [comb(n + 4, 4) for n in range(5001)]
    assert side.vectors[1:] == expected[1:]
    assert side.strings[1:] == [5**n for n in range(1, 5001)]
    assert side.total_vectors > 2**53
