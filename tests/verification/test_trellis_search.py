"""The search over trellises against every input looked at one by one, in ball arithmetic."""

from __future__ import annotations

import random
from itertools import product
from math import exp, factorial, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tsc_interp as tsc
from tests.verification.ordered_models import (
    copying,
    labels_of,
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError
from tsc_interp.tasks import Addition, Automaton, Copy, Maximum, Regex, Regions, SumSign, trellis_of
from tsc_interp.verification.order import partition, parts
from tsc_interp.verification.order.certificates import certify_order
from tsc_interp.verification.order.running import judge_of
from tsc_interp.verification.order.verify import verify_order


def random_automaton(n_letters: int, classes: int, seed: int) -> Automaton:
    draw = random.Random(seed)
    states = draw.randint(1, 4)
    return Automaton(
        states=states,
        start=0,
        step=[[draw.randrange(states) for _ in range(n_letters)] for _ in range(states)],
        label=[draw.randrange(classes) for _ in range(states)],
    )


def oracle(checkpoint: Checkpoint, task: Any, length: int) -> list[tuple[int, ...]]:
    """Every wrong string, in order."""
    judge = judge_of(checkpoint)
    rows = np.array(list(product(range(checkpoint.config.n_letters), repeat=length)))
    found = [judge.answer_to_string(row.tolist()) for row in rows]
    assert None not in found
    labels = labels_of(task, rows, checkpoint.config.n_letters)
    return [tuple(row.tolist()) for row, *pair in zip(rows, found, labels, strict=True)
            if pair[0] != pair[1]]  # fmt: skip


def check_against_oracle(checkpoint: Checkpoint, seed: int) -> int:
    config = checkpoint.config
    task = random_automaton(config.n_letters, max(config.n_outputs, 2), seed)
    length = longest(config, 100)
    wrong = oracle(checkpoint, task, length)
    verdict = verify_order(checkpoint, [length], task=task)
    assert (verdict.wrong, verdict.undecided) == (len(wrong), 0)
    assert verdict.right == config.n_letters**length - len(wrong)
    part = verdict.parts[0]
    assert part.first() == (wrong[0] if wrong else None)
    found = {tuple(row) for regions in part.regions() for row in regions.strings()[1].tolist()}
    found |= {tuple(path) for path in part.wrong_inputs.tolist()}
    assert found == set(wrong)
    assert {tuple(row) for row in verdict.sample(7)} <= set(wrong)
    return part.examined


@pytest.fixture
def regions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but single inputs is looked at one by one, so that bounds have to decide."""
    monkeypatch.setattr(partition, "FEW", 1)


def test_random_models_over_random_automata(regions_only: None) -> None:
    examined = 0
    for seed in range(24):
        scale = random.Random(seed).choice([0.5, 1.0, 2.0, 4.0])
        checkpoint = ordered_checkpoint(random_config(seed), seed, scale)
        examined += check_against_oracle(checkpoint, seed)
    assert examined > 50


def test_every_option_of_the_family(regions_only: None) -> None:
    for seed in range(12):
        checkpoint = ordered_checkpoint(wide_config(seed), seed)
        check_against_oracle(checkpoint, seed)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_random_models_with_small_regions_enumerated(seed: int) -> None:
    check_against_oracle(ordered_checkpoint(random_config(seed), seed), seed)


@pytest.mark.parametrize("labels", [1, 2, 16])
@pytest.mark.parametrize("reads", ["first", "last_letter"])
def test_labels_are_searched_in_stacks(
    labels: int, reads: str, regions_only: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many labels a stack has: the same wrong strings, and trees that the checker reads."""
    monkeypatch.setattr(parts, "_STACKED", labels)
    monkeypatch.setattr(parts, "_TOGETHER", 0)
    for seed in range(3):
        config = ClassifierConfig(
            n_letters=5, n_outputs=5, task=Maximum(), n_positions=4, reads=reads, attend_cls=True,
            d_model=4, d_head=2, n_heads=1, d_mlp=0, norm="off", biases=seed == 1,
        )  # fmt: skip
        checkpoint = ordered_checkpoint(config, seed, 1.5)
        wrong = oracle(checkpoint, Maximum(), 3)
        verdict = verify_order(checkpoint, [3])
        assert (verdict.wrong, verdict.undecided) == (len(wrong), 0)
        assert verdict.parts[0].first() == (wrong[0] if wrong else None)
        singly = {tuple(row) for row in verdict.parts[0].wrong_inputs.tolist()}
        for group in verdict.parts[0].groups:
            (label,), (regions, winners) = group.trellis.labels, group.wrong
            expected = {row for row in wrong if max(row) == label} - singly
            assert {tuple(row) for row in regions.strings()[1].tolist()} == expected
            assert sum(regions.counts()) == len(expected)
            assert (winners != label).all()
        certificate = certify_order(checkpoint, parts=verdict.parts)
        (proved,) = tsc.check(certificate.document, checkpoint).parts
        assert (proved.inputs, proved.right) == (125, 125 - len(wrong))


def adder(seed: int, scale: float = 2.0, **options: Any) -> Checkpoint:
    task = Addition(digits=2, base=2)
    whole: dict[str, Any] = {"d_mlp": 4, "norm": "rms", "final_norm": True}
    config = tsc.ClassifierConfig(
        n_letters=4, n_outputs=4, task=task, n_positions=9, reads="last_letter", attend_cls=True,
        d_model=5, d_head=3, n_heads=1, **whole | options,
    )  # fmt: skip
    return ordered_checkpoint(config, seed, scale)


LINEAR: dict[str, Any] = {"d_mlp": 0, "norm": "off", "final_norm": False}


@pytest.mark.parametrize("options", [{}, LINEAR], ids=["whole", "attention only"])
@pytest.mark.parametrize("seed", range(6))
def test_an_input_counts_once_at_its_first_wrong_step(
    seed: int, options: dict[str, Any], regions_only: None
) -> None:
    """Every pair is run through every step after the right digits so far."""
    checkpoint = adder(seed, **options)
    judge, wrong, firsts = judge_of(checkpoint), [0, 0, 0], set()
    for a, b in product(range(4), repeat=2):
        digits = [(a + b) >> i & 1 for i in range(3)]
        prompt = [a >> 1, a & 1, 2, b >> 1, b & 1, 3]
        for step, digit in enumerate(digits):
            if judge.answer_to_string([*prompt, *digits[:step]]) != digit:
                wrong[step] += 1
                firsts.add((a, b))
    verdict = tsc.verify(checkpoint)
    assert [step.wrong for step in verdict.steps] == wrong
    assert (verdict.inputs, verdict.wrong, verdict.undecided) == (16, len(firsts), 0)
    first = verdict.first_wrong
    if firsts:
        a, b = min(firsts)
        assert first.tokens[:6] == tuple("abcd"[x] for x in (a >> 1, a & 1, 2, b >> 1, b & 1, 3))
    else:
        assert first is None


def test_inputs_undecided_at_one_step_and_wrong_at_another_are_wrong() -> None:
    checkpoint = adder(1)
    full = tsc.verify(checkpoint)
    spent = tsc.verify(checkpoint, seconds=1e-9)
    assert (spent.right, spent.wrong, spent.undecided) == (0, 0, 16)
    assert spent.first_undecided
    assert not spent.correct
    assert full.undecided == 0


def test_generation_of_copies() -> None:
    task = Copy(length=2, letters=2)
    config = tsc.ClassifierConfig(
        n_letters=3, n_outputs=3, task=task, n_positions=4, reads="last_letter", attend_cls=True,
        d_model=3, d_head=2, n_heads=2, d_mlp=0,
    )  # fmt: skip
    checkpoint = ordered_checkpoint(config, 3)
    judge, wrong = judge_of(checkpoint), 0
    for a, b in product(range(2), repeat=2):
        wrong += judge.answer_to_string([a, b, 2]) != a or judge.answer_to_string([a, b, 2, a]) != b
    assert tsc.verify(checkpoint).wrong == wrong


def test_lengths_beyond_enumeration_are_counted() -> None:
    """Twelve letters, 3^12 strings: `copying` tells by counts and the last letter who wins."""
    length, sharpness, wrong = 12, 2.0, 0
    for a, b in product(range(length + 1), repeat=2):
        counts = [a, b, length - a - b]
        for last in range(3):
            if min(counts) < 0 or not counts[last]:
                continue
            total = sum(n * exp(sharpness * i) for i, n in enumerate(counts))
            outputs = [8 * n * exp(sharpness * i) / total for i, n in enumerate(counts)]
            outputs[last] += 1
            if outputs.index(max(outputs)) != max(i for i in range(3) if counts[i]):
                left = [n - (i == last) for i, n in enumerate(counts)]
                wrong += factorial(length - 1) // prod(map(factorial, left))
    verdict = verify_order(
        copying(sharpness=sharpness, n_positions=length), [length], task=Maximum()
    )
    assert (verdict.wrong, verdict.undecided, verdict.inputs) == (wrong, 0, 3**length)
    assert verdict.first_wrong is not None


def test_the_float_count_of_paths_is_right() -> None:
    regions = Regions.whole(trellis_of(SumSign(values=[1, -1, 0]), 3, 6).of_label(1))
    counts, totals = regions.through(), regions.sizes()
    assert totals.tolist() == regions.counts()
    for stage in counts:
        assert np.isclose(stage.sum(1), totals).all()


@pytest.mark.parametrize("call", [
    lambda cp: tsc.verify(cp, lengths=[0]),
    lambda cp: tsc.verify(cp, lengths=[99]),
    lambda cp: tsc.verify(cp, lengths=["2"]),
    lambda cp: tsc.verify(cp, lengths=[]),
    lambda cp: tsc.verify(cp, 2, lengths=[2]),
    lambda cp: tsc.verify(cp, lengths=[2], seconds=0),
    lambda cp: tsc.verify(cp, lengths=[2], horizon=True),
    lambda cp: tsc.verify(cp, lengths=[2], task="nothing"),
    lambda cp: tsc.verify("walkthrough", lengths=[2]),
    lambda cp: tsc.verify(cp, lengths=[2], task=Copy(length=2, letters=2)),
])  # fmt: skip
def test_wrong_use_is_refused(call: Any) -> None:
    with pytest.raises(TscError):
        call(copying(n_positions=5))


def test_where_all_inputs_are_few_they_are_looked_at_one_by_one(monkeypatch):
    """Sorted strings of 5 places over 5 letters: the same counts, after fewer bounds."""
    config = ClassifierConfig(
        n_letters=5, n_positions=6, d_model=8, n_heads=2, d_head=4, d_mlp=8, norm="layer",
        final_norm=True, biases=True, n_outputs=2, task=Regex("a*b*c*d*e*"),
    )  # fmt: skip
    checkpoint = ordered_checkpoint(config, 3)
    listed = tsc.verify(checkpoint, lengths=[5], seconds=600)
    monkeypatch.setattr(partition, "LISTED", 0)
    bounded = tsc.verify(checkpoint, lengths=[5], seconds=600)
    assert (listed.wrong, listed.undecided) == (bounded.wrong, 0)
    assert listed.first_wrong == bounded.first_wrong
    assert listed.parts[0].examined < bounded.parts[0].examined
    frame = tsc.falsify(checkpoint, frame="[0] x{5}; x=2..6; read=0", exhaustive=True, tries=0)
    assert frame.enumerated.wrong == listed.wrong


def test_a_listing_that_runs_out_of_time_leaves_the_rest_undecided(monkeypatch):
    """With a clock that each block of paths moves: nothing is lost, and nothing called right."""
    now = [0.0]
    inputs = partition.Partition._inputs

    def slow(self, letters, label):
        now[0] += 1.0
        return inputs(self, letters, label)

    monkeypatch.setattr(partition, "monotonic", lambda: now[0])
    monkeypatch.setattr(partition.Partition, "_inputs", slow)
    monkeypatch.setattr(partition, "_INPUTS_AT_ONCE", 1 << 7)
    monkeypatch.setattr(partition, "FEW", 1 << 6)
    config = ClassifierConfig(
        n_letters=4, n_positions=6, d_model=8, n_heads=2, d_head=4, d_mlp=8, n_outputs=2,
        task=Regex("a*b*c*d*"),
    )  # fmt: skip
    judge = judge_of(ordered_checkpoint(config, 3))
    search = partition.Partition(judge, trellis_of(config.task, 4, 5), 0.5)
    search.found.examined = 10**6
    assert not search.advance(0.5)
    part = parts.Part(5, None, 4**5, [search.found])
    assert 0 < part.undecided < 4**5
