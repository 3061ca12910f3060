"""Whatever `verify` decides, `certify` writes and `check` accepts, and every input agrees.

Random models of the whole family over random automata and random adders; `TSC_THOROUGH=1` for more.
"""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest

import tsc_interp as tsc
from tests.sizes import many
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
    with_task,
)
from tests.verification.test_trellis_search import adder, oracle, random_automaton
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.verification.order import partition
from tsc_interp.verification.order.certificate_result import PartProved
from tsc_interp.verification.order.running import judge_of

SCALES = (0.01, 0.5, 1.0, 2.0, 4.0, 10.0)


def proved(checkpoint: Checkpoint, lengths: list[int] | None, float32: bool) -> list[PartProved]:
    """What the checker says of the certificate as it would be read from a file."""
    certificate = tsc.certify(checkpoint, lengths=lengths, float32=float32)
    found: Any = tsc.check(json.loads(json.dumps(certificate.document)), checkpoint)
    return list(found.parts)


@pytest.mark.parametrize("seed", range(many(24, 600)))
def test_lengths(seed: int) -> None:
    """By bounds alone, or input by input, as it comes."""
    draw = random.Random(seed)
    config = wide_config(seed) if seed % 2 else random_config(seed)
    config = config if config.needs_order else config.replace(n_positions=4)
    task = random_automaton(config.n_letters, max(config.n_outputs, 2), seed)
    checkpoint = with_task(ordered_checkpoint(config, seed, draw.choice(SCALES)), task)
    length = longest(config, draw.choice([64, 64, many(64, 256)]))
    wrong = oracle(checkpoint, task, length)
    with patch.object(partition, "FEW", draw.choice([1, 1 << 20])):
        verdict: Any = tsc.verify(checkpoint, lengths=[length])
        (part,) = proved(checkpoint, [length], draw.random() < 0.3)
    counts = (config.n_letters**length, len(wrong), 0)
    assert (verdict.inputs, verdict.wrong, verdict.undecided) == counts
    assert (part.inputs, part.wrong, part.undecided) == counts
    assert part.first_wrong == (wrong[0] if wrong else None)


@pytest.mark.parametrize("seed", range(many(4, 60)))
def test_steps(seed: int) -> None:
    """Two binary digits; every pair is run through every step after the right digits so far."""
    draw = random.Random(seed)
    turned: dict[str, Any] = {"positions": "rotary", "rotary_dim": 2}
    turned = turned if draw.random() < 0.5 else {}
    gated = draw.random() < 0.5
    checkpoint = adder(seed, draw.choice(SCALES), gated_mlp=gated, **turned)
    judge, wrong = judge_of(checkpoint), [0, 0, 0]
    for a, b in product(range(4), repeat=2):
        digits = [(a + b) >> i & 1 for i in range(3)]
        prompt = [a >> 1, a & 1, 2, b >> 1, b & 1, 3]
        for step, digit in enumerate(digits):
            wrong[step] += judge.answer_to_string([*prompt, *digits[:step]]) != digit
    with patch.object(partition, "FEW", draw.choice([1, 1 << 20])):
        verdict: Any = tsc.verify(checkpoint)
        parts = proved(checkpoint, None, draw.random() < 0.3)
    assert [(one.wrong, one.undecided) for one in verdict.steps] == [(n, 0) for n in wrong]
    assert [(one.wrong, one.undecided) for one in parts] == [(n, 0) for n in wrong]
