"""The questions put to general verifiers are the ones `tsc.verify` answers."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import torch

import tsc_interp as tsc
from studies.constructed import carry_adder
from studies.keep import model
from studies.verifiers import page
from studies.verifiers.questions import CountsNetwork, Heads, PromptNetwork, digit_box, sums
from studies.verifiers.run import line, supports


def test_counts_give_the_logit_of_the_model() -> None:
    relu = model("relu")
    strings = ["ab", "c", "aab{7}c{3}", "b{9}c"]
    counts = torch.from_numpy(relu.config.alphabet.count_matrix(strings)).double()
    found = CountsNetwork(Heads.of(relu))(counts)[:, 0]
    assert torch.allclose(found.float(), tsc.load(relu)(strings), atol=1e-4)


def test_the_horizon_that_lengths_are_about() -> None:
    found: Any = tsc.horizon(model("relu"), prove=False)
    assert found.length == 351
    assert [label for _, label in supports()] == [False, False, False, True, False, False, True]


def test_boxes_hold_every_pair_once_with_its_digit() -> None:
    base, task = 3, tsc.tasks.Addition(digits=2, base=3)
    seen: Counter[tuple[Any, ...]] = Counter()
    for box in sums(task):
        prompts = product(*(sorted(some) for some in box.letters[: task.prompt_length]))
        for a1, a0, _, b1, b0, _ in prompts:
            total = base * (a1 + b1) + a0 + b0
            assert box.label == total // base**box.step % base
            seen[box.step, a1, a0, b1, b0] += 1
    assert len(seen) == 3 * base**4
    assert set(seen.values()) == {1}


def test_embedded_digits_give_the_outputs_of_the_adder() -> None:
    adder = carry_adder(2, 3)
    task: Any = adder.config.task
    letters = np.array([[2, 1, 3, 0, 2, 4, 0], [0, 0, 3, 2, 2, 4, 2]])
    network = PromptNetwork(adder, task.prompt_length + 1)
    found = network(torch.tensor(np.where(letters < 3, letters, 0)).double())
    assert torch.allclose(found.float(), tsc.load(adder)(torch.from_numpy(letters + 2)), atol=1e-3)
    box = next(one for one in sums(task) if one.step == 1)
    low, high = digit_box(box, 3)
    assert bool((low <= high).all())
    assert len(low) == task.prompt_length + 1


def test_every_stored_row_can_be_said() -> None:
    assert page.rows
    for row in page.rows:
        assert line(row)
        assert page.said(row)
    answers = {(row.get("length"), row["right"]) for row in page.rows if row["answered"]}
    assert all(right == (length != 352) for length, right in answers)
