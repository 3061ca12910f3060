"""The search against 256-bit arithmetic on random models over random automata.

A few by default; `TSC_RANDOM_MODELS=500 pytest tests/verification/test_trellis_random.py` for more.
"""

from __future__ import annotations

import os
import random
from time import monotonic
from unittest.mock import patch

import numpy as np
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
from tsc_interp.tasks import Addition, Regions
from tsc_interp.verification.order import partition
from tsc_interp.verification.order.running import run, searches_of
from tsc_interp.verification.order.union import lifted, union_count
from tsc_interp.verification.order.verify import described, verify_order

MANY = int(os.environ.get("TSC_RANDOM_MODELS", "6"))
SEEDS = st.integers(0, 10**9)


@settings(max_examples=MANY, deadline=None, derandomize=MANY <= 6)
@given(SEEDS, st.booleans())
def test_counts_and_first_errors_of_random_models(seed: int, wide: bool) -> None:
    """Every option of the family."""
    draw = random.Random(seed)
    config = wide_config(seed) if wide else random_config(seed)
    checkpoint = ordered_checkpoint(config, seed, draw.choice([0.5, 1.0, 2.0, 4.0]))
    task = random_automaton(config.n_letters, max(config.n_outputs, 2), seed)
    length = longest(config, 27)
    wrong = precise_ordered.wrong_strings(checkpoint, task, length)
    if wrong is None:
        return
    with patch.object(partition, "FEW", 1):
        verdict = verify_order(checkpoint, [length], task=task)
    assert (verdict.wrong, verdict.undecided) == (len(wrong), 0)
    assert verdict.parts[0].first() == (wrong[0] if wrong else None)
    if wrong and verdict.first_wrong is not None:
        assert verdict.first_wrong.answer in (None, precise_ordered.answer(checkpoint, wrong[0]))
    assert {tuple(row) for row in verdict.sample(5)} <= set(wrong)


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
