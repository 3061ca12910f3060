"""The search against 256-bit arithmetic on random models over random automata.

A few by default; `TSC_RANDOM_MODELS=500 pytest tests/verification/test_trellis_random.py` for more.
"""

from __future__ import annotations

import os
import random
from time import monotonic
from unittest.mock import patch

import numpy as np
import pytest
from flint import ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verification import precise_ordered
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
)
from tests.verification.test_trellis_search import adder, random_automaton
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.tasks import Addition, Regions, trellis_of
from tsc_interp.verification.order import partition
from tsc_interp.verification.order.bounds import Bounds
from tsc_interp.verification.order.exact import OrderedExact
from tsc_interp.verification.order.keys import keys_of
from tsc_interp.verification.order.running import run, searches_of
from tsc_interp.verification.order.tangent import tangent_of
from tsc_interp.verification.order.union import lifted, union_count
from tsc_interp.verification.order.verify import described, verify_order

MANY = int(os.environ.get("TSC_RANDOM_MODELS", "6"))
SEEDS = st.integers(0, 10**9)


@settings(max_examples=MANY, deadline=None, derandomize=MANY <= 6)
@given(SEEDS, st.booleans(), st.booleans())
def test_counts_and_first_errors_of_random_models(seed: int, wide: bool, near: bool) -> None:
    """Every option of the family; `near` decides every region it can around one input."""
    draw = random.Random(seed)
    config = wide_config(seed) if wide else random_config(seed)
    checkpoint = ordered_checkpoint(config, seed, draw.choice([0.5, 1.0, 2.0, 4.0]))
    task = random_automaton(config.n_letters, max(config.n_outputs, 2), seed)
    length = longest(config, 27)
    wrong = precise_ordered.wrong_strings(checkpoint, task, length)
    if wrong is None:
        return
    with patch.object(partition, "FEW", 1), patch.object(partition, "STILL", float(near)):
        verdict = verify_order(checkpoint, [length], task=task)
    assert (verdict.wrong, verdict.undecided) == (len(wrong), 0)
    assert verdict.parts[0].first() == (wrong[0] if wrong else None)
    if wrong and verdict.first_wrong is not None:
        assert verdict.first_wrong.answer in (None, precise_ordered.answer(checkpoint, wrong[0]))
    assert {tuple(row) for row in verdict.sample(5)} <= set(wrong)


@pytest.mark.parametrize(("seed", "sharp"), [*((seed, 1.0) for seed in range(10)), (22, 14.0)])
def test_margins_around_one_input_hold_for_all_paths(seed: int, sharp: float) -> None:
    """Each path's margins are computed on their own, and lie in the ranges that slopes give.

    With `sharp` scores the weights of two paths differ by a hundred orders of magnitude.
    """
    checkpoint = ordered_checkpoint(wide_config(seed), seed, 1.0)
    changed = dict(checkpoint.weights)
    for name, factor in (("W_V", 0.01), ("W_Q", sharp), ("W_K", sharp)):
        key = f"blocks.0.attn.{name}"
        changed[key] = changed[key] * np.float32(factor)
    checkpoint = Checkpoint(checkpoint.config, changed)
    config, exact = checkpoint.config, OrderedExact(checkpoint)
    task = random_automaton(config.n_letters, max(config.n_outputs, 2), seed)
    trellis = trellis_of(task, config.n_letters, longest(config, 40))
    bounds = Bounds(config, trellis, keys_of(exact, trellis))
    region = Regions.whole(trellis)
    if config.reads == "last_letter":
        stage = trellis.stages[-1]
        masks = [*region.masks[:-1], region.masks[-1] & (stage.letters[None, :, 0] == 0)]
        region = region.with_masks(masks).pruned()[0]
    near = tangent_of(bounds, exact, region, 0, 1)
    if near is None and sharp > 1:
        return
    assert near is not None
    classes = np.arange(len(near.margin))
    letters, low, high = near.paths(classes)
    assert len(letters) == region.counts()[0]
    least, most = near.ranges()
    for row, bottom, top in zip(letters.tolist(), low, high, strict=True):
        with ctx.workprec(256):
            gaps = exact.scaled_gaps(exact.stream(row), 1)[0].tolist()[0]
        for j in classes[~bounds.keys.maps.same[1]]:
            assert max(least[j], bottom[j]) <= float(gaps[j].upper())
            assert float(gaps[j].lower()) <= min(top[j], most[j])
    # The path it was made around is known almost exactly.
    own = np.flatnonzero((letters == region.any_path(0)).all(1))[0]
    kept = ~bounds.keys.maps.same[1]
    width = high[own, kept] - low[own, kept]
    assert (width <= 1e-12 * (1 + np.abs(high[own, kept]))).all()


def test_wrong_inputs_of_all_steps_are_counted_once_or_not_at_all() -> None:
    """The union of regions against sets of prompts, and a time that is over."""
    checkpoint = adder(3)
    task = checkpoint.config.task
    with patch.object(partition, "FEW", 1):
        asked = [(6 + k, k) for k in range(3)]
        parts = run(checkpoint, searches_of(checkpoint, task, asked), monotonic() + 60)
    families = [[lifted(one, task.whole()) for one in part.regions()] for part in parts]
    rows = np.concatenate([part.wrong_inputs[:, :6] for part in parts])
    prompts = {tuple(row) for row in rows.tolist()}
    for part in parts:
        for one in part.regions():
            prompts |= {tuple(row[:6]) for row in one.strings()[1].tolist()}
    assert prompts
    assert union_count(task.whole(), families, rows, monotonic() + 60) == len(prompts)
    if sum(map(len, families)) > 1:
        assert union_count(task.whole(), families, rows, 0.0) is None


def test_wrong_regions_in_words() -> None:
    """A carry that runs through digits, and letters at named places."""
    task = Addition(digits=3)
    trellis = task.step_trellis(2)
    region = Regions.whole(trellis)
    for digit, kept in ((0, lambda a, b: (a, b) == (9, 1)), (1, lambda a, b: a + b == 9)):
        letters = trellis.stages[digit].letters[:, :2].tolist()
        part = np.array([[kept(a, b) for a, b in letters]])
        masks = list(region.masks)
        masks[digit] = masks[digit] & part
        region = region.with_masks(masks).pruned()[0]
    said = described(region, 0, task, str)
    assert said == "a + b = 9 at digit 1 (a carry runs through), a0 is 9, b0 is 1, s0 is 0, s1 is 0"
    assert described(Regions.whole(trellis), 0, task, str) == "any input"
