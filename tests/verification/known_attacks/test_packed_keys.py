"""Stages with more letters than one 64-bit number holds: rows were taken for each other."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tsc_interp as tsc
from tests.verification.known_attacks.models import zeros
from tsc_interp.tasks import Transducer


@pytest.mark.parametrize("n_prompt", [20, 45])
def test_inputs_of_a_wide_stage_are_counted_once(n_prompt: int) -> None:
    prompts = [[2] * (n_prompt - 6) + list(row) for row in product((0, 1), repeat=6)]
    outputs = [prompt[-6:-4] for prompt in prompts]
    edges = [[0, *prompt, *out, 0] for prompt, out in zip(prompts, outputs, strict=True)]
    places = list(range(n_prompt + 2))
    stages = [{"places": places, "edges": edges}]
    task = Transducer(length=n_prompt + 2, write=2, stages=stages)
    checkpoint = zeros(n_letters=3, n_outputs=3, task=task, n_positions=n_prompt + 3)
    checkpoint.weights["embed.W_E"][:] = 1
    checkpoint.weights["unembed.W_U"][:] = [[1, 0, 0]]  # always answers a
    verdict = tsc.verify(checkpoint, seconds=20)
    assert (verdict.inputs, verdict.wrong, verdict.undecided) == (64, 48, 0)
    stage = task.whole().stages[0]
    found = stage.located(places, np.zeros(len(stage), dtype=np.int64), stage.letters)
    assert found.tolist() == list(range(len(stage)))
