"""A trellis holds every input once, with its label: compared with all strings, one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsc_interp.errors import UsageError
from tsc_interp.tasks import (
    Addition,
    AtLeast,
    Automaton,
    Before,
    Brackets,
    ContainsAll,
    Copy,
    EndsWith,
    Majority,
    Maximum,
    MostFrequent,
    Palindrome,
    Parity,
    Regex,
    Regions,
    Stage,
    SumSign,
    Trellis,
    trellis_of,
)
from tsc_interp.tasks.base import OwnTask
from tsc_interp.tasks.regions import first_path
from tsc_interp.tasks.stack import stacked

RULES = [
    ContainsAll(), AtLeast(letter="b", k=2), Parity(letter="b"), Majority(letter="a"),
    MostFrequent(), Maximum(), Before(), SumSign(values=[1, -1, 0]), Brackets(depth=2),
    EndsWith(suffix="aba"), Palindrome(), Regex("(a|b)*c"), Regex("a{2,3}(b|c)?[^a]*"),
]  # fmt: skip


def every_string(rule: Any, n_letters: int, length: int) -> tuple[Any, Any]:
    rows = np.array(list(product(range(n_letters), repeat=length)))
    counts = (rows[:, :, None] == np.arange(n_letters)).sum(1)
    return rows, rule.classes(rows if rule.ordered else counts)


def check_trellis(trellis: Trellis, rows: Any, labels: Any) -> None:
    """Per label: the same strings, their number, the first of them, and samples from them."""
    assert set(trellis.labels) == set(labels.tolist())
    for label in trellis.labels:
        wanted = sorted(map(tuple, rows[labels == label]))
        whole = Regions.whole(trellis.of_label(label))
        _, found = whole.strings()
        assert sorted(map(tuple, found)) == wanted
        assert whole.counts() == [len(wanted)]
        assert first_path([whole]) == wanted[0]
        assert {tuple(row) for row in whole.sample(5)} <= set(wanted)
        assert whole.any_path(0) in set(wanted)
        assert all(whole.holds(row)[0] == (tuple(row) in set(wanted)) for row in rows[::7])
    check_stack(trellis, rows, labels)


def check_stack(trellis: Trellis, rows: Any, labels: Any) -> None:
    """One region per label with the same strings; all of them together begin with the first."""
    stack = stacked([trellis.of_label(label) for label in trellis.labels])
    whole = Regions.whole(stack)
    part, found = whole.strings()
    known = zip(map(tuple, found), stack.label[part], strict=True)
    assert sorted(known) == sorted(zip(map(tuple, rows), labels, strict=True))
    assert whole.counts() == [int((labels == label).sum()) for label in stack.label]
    assert first_path([whole[i : i + 1] for i in range(len(whole))]) == tuple(rows[0])
    assert all(
        stack.label_of(row) == label for row, label in zip(rows[::7], labels[::7], strict=True)
    )
    assert (stack.labels_of(rows) == labels).all()
    for number, own in enumerate(stack.own):
        parts = stack.stages[1:], stack.parts[number].stages, own[1:]
        for stage, mine, edges in zip(*parts, strict=True):
            assert (stage.letters[edges] == mine.letters).all()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.describe())
def test_a_trellis_holds_every_string_of_its_label_once(rule: Any) -> None:
    for length in (1, 2, 5):
        check_trellis(trellis_of(rule, 3, length), *every_string(rule, 3, length))


machines = st.integers(1, 5).flatmap(
    lambda states: st.tuples(
        st.lists(
            st.lists(st.integers(0, states - 1), min_size=2, max_size=2),
            min_size=states, max_size=states,
        ),
        st.lists(st.integers(0, 2), min_size=states, max_size=states),
        st.integers(0, states - 1),
    )
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(machines, st.integers(1, 6))
def test_random_automata(parts: Any, length: int) -> None:
    step, label, start = parts
    task = Automaton(states=len(step), start=start, step=step, label=label)
    rows, labels = every_string(task, 2, length)
    check_trellis(trellis_of(task, 2, length), rows, labels)
    small = task.machine(2, length).minimised()
    assert (small.classes(rows) == labels).all()
    assert len(small) <= task.reachable


@settings(max_examples=40, deadline=None)
@given(machines, st.integers(2, 6), st.integers(0, 10**6))
def test_cuts_partition_the_paths(parts: Any, length: int, seed: int) -> None:
    step, _, start = parts
    task = Automaton(states=len(step), start=start, step=step, label=[0] * len(step))
    draw = np.random.default_rng(seed)
    regions = Regions.whole(trellis_of(task, 2, length).of_label(0))
    for _ in range(4):
        stage = int(draw.integers(len(regions.masks)))
        part = draw.random(regions.masks[stage].shape) < 0.5
        inside, outside = (
            regions.with_masks(
                [m & side if i == stage else m for i, m in enumerate(regions.masks)]
            ).pruned()[0]
            for side in (part, ~part)
        )
        regions = inside.joined([outside])
        assert sum(regions.counts()) == 2**length
        region, found = regions.strings()
        assert len({tuple(row) for row in found}) == 2**length
        assert np.bincount(region, minlength=len(regions)).tolist() == regions.counts()


def number(digits: Any, order: str, base: int) -> int:
    digits = digits if order == "most" else digits[::-1]
    return int(sum(int(d) * base**i for i, d in enumerate(digits[::-1])))


@pytest.mark.parametrize(("operands", "total", "carry", "end"), product(
    ["most", "least"], ["most", "least"], [True, False], [(), (5,)],
))  # fmt: skip
def test_addition_adds(operands: str, total: str, carry: bool, end: tuple[int, ...]) -> None:
    task = Addition(digits=2, base=3, operands=operands, total=total, carry_digit=carry, end=end)
    assert task.n_steps == 2 + carry + len(end)
    for step in range(task.n_steps):
        trellis, seen = task.step_trellis(step), 0
        for label in trellis.labels:
            _, rows = Regions.whole(trellis.of_label(label)).strings()
            seen += len(rows)
            for row in rows:
                assert (row[2], row[5]) == (3, 4)
                a, b = (number(part, operands, 3) for part in (row[:2], row[3:5]))
                digits = [(a + b) // 3**i % 3 for i in range(2 + carry)]
                digits = [*(digits[::-1] if total == "most" else digits), *end]
                assert [*row[6:], label] == digits[: step + 1]
        assert seen == 81
    assert task.labels(np.array([[1, 2, 3, 0, 1, 4, -1]])).shape == (1,)


def test_counts_are_exact_beyond_64_bits() -> None:
    task = SumSign(values=[0, 1, 2, 3, 4, 5, -5, -4, -3, -2, -1])
    trellis = trellis_of(task, 11, 20)
    counts = [Regions.whole(trellis.of_label(label)).counts()[0] for label in range(3)]
    assert sum(counts) == 11**20
    assert counts[0] == counts[2]
    ten = [Addition().step_trellis(10).of_label(carry) for carry in range(2)]
    sums = [Regions.whole(one).counts()[0] for one in ten]
    assert sums == [10**20 - sums[1], (10**10 - 1) * 10**10 // 2]


def test_copies_and_reverses() -> None:
    task = Copy(length=3, letters=2, backwards=True)
    _, rows = Regions.whole(task.step_trellis(2).of_label(1)).strings()
    assert {tuple(row) for row in rows} == {(1, b, c, 2, c, b) for b in (0, 1) for c in (0, 1)}


def test_tasks_of_ones_own_are_enumerated_or_counted() -> None:
    class SameEnds(OwnTask):
        kind: Any = "same_ends_trellis"
        ordered = True

        def labels(self, letters: Any) -> Any:
            last = (letters >= 0).sum(1) - 1
            return letters[:, 0] == letters[np.arange(len(letters)), last]

    class EvenTotal(OwnTask):
        kind: Any = "even_total_trellis"

        def labels(self, counts: Any) -> Any:
            return (counts[..., 0] + 2 * counts[..., 1]) % 3 == 0

    for rule in (SameEnds(), EvenTotal()):
        check_trellis(trellis_of(rule, 3, 4), *every_string(rule, 3, 4))
    with pytest.raises(UsageError, match="Automaton"):
        trellis_of(SameEnds(), 10, 12)


def test_malformed_trellises_are_refused() -> None:
    zero = np.zeros(2, dtype=np.int64)
    twice = Stage((0,), zero, zero, np.array([[1], [1]]))
    with pytest.raises(UsageError, match="same letters"):
        Trellis(1, (), (twice,), 0, zero)
    once = Stage((0,), zero, zero, np.array([[0], [1]]))
    with pytest.raises(UsageError, match="each of 2"):
        Trellis(2, (), (once,), 0, zero)
    with pytest.raises(UsageError, match="never reached"):
        Trellis(1, (), (Stage((0,), zero, zero + 1, np.array([[0], [1]])),), 0, zero)
    with pytest.raises(UsageError, match="one label per edge"):
        Trellis(1, (), (once,), 0, zero[:1])
