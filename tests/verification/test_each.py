"""Models of several layers, verified input by input: against their own forward pass."""

from __future__ import annotations

from itertools import count, product

import pytest

import tsc_interp as tsc
from tests.verification.models import random_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks import Copy, EndsWith
from tsc_interp.verification.order import each

READS = ["first", "last", "last_letter"]


def deep(reads: str, **options: object) -> tsc.Checkpoint:
    config = ClassifierConfig(
        n_layers=2, n_positions=7, d_model=6, n_heads=2, d_head=3, d_mlp=5, biases=True,
        reads=reads, attend_cls=True, **options,
    )  # fmt: skip
    return random_checkpoint(config, 3)


@pytest.mark.parametrize("reads", READS)
def test_every_string_is_decided_as_the_model_answers_it(reads, monkeypatch):
    monkeypatch.setattr(each, "_AT_ONCE", 20)  # so that regions are cut
    checkpoint = deep(reads, task=EndsWith(suffix="ab"))
    verdict = tsc.verify(checkpoint, lengths=[2, 4])
    strings = ["".join(s) for n in (2, 4) for s in product("abc", repeat=n)]
    wrong = [one.string for one in tsc.evaluate(checkpoint, strings) if not one.correct]
    assert (verdict.inputs, verdict.undecided) == (9 + 81, 0)
    assert 0 < verdict.wrong == len(wrong)
    assert verdict.first_wrong.string in wrong
    found = {"".join("abc"[i] for i in row) for part in verdict.parts for row in part.wrong_inputs}
    assert found == {s for s in strings if not tsc.evaluate(checkpoint, [s])[0].correct}
    every = tsc.falsify(checkpoint, frame=None, exhaustive=True, seconds=60).enumerated
    assert every.wrong >= verdict.wrong


def test_steps_of_a_model_that_writes():
    task = Copy(length=2, letters=2)
    checkpoint = deep("last_letter", task=task, n_outputs=3)
    verdict = tsc.verify(checkpoint)
    every = tsc.falsify(checkpoint, exhaustive=True).enumerated
    assert (verdict.inputs, verdict.wrong, verdict.undecided) == (4, every.wrong, 0)


def test_what_time_leaves_is_undecided(monkeypatch):
    monkeypatch.setattr(each, "_AT_ONCE", 30)
    task, ticks = EndsWith(suffix="ab"), count()
    monkeypatch.setattr(each, "monotonic", lambda: next(ticks))
    checkpoint = deep("first", task=task)
    (part,) = each.Each(checkpoint).parts(task, [(5, None)], 5)
    (whole,) = each.Each(checkpoint).parts(task, [(5, None)], 10**6)
    assert 0 < part.undecided < part.inputs == 3**5
    assert 0 < part.wrong < whole.wrong
    assert whole.wrong <= part.wrong + part.undecided
    assert whole.undecided == 0
    known = {tuple(row) for row in whole.wrong_inputs.tolist()}
    assert {tuple(row) for row in part.wrong_inputs.tolist()} <= known


def test_too_many_inputs_are_refused_with_their_number():
    config = ClassifierConfig(n_layers=2, n_positions=40, d_model=4, n_heads=1, d_head=4)
    with pytest.raises(UnsupportedError, match=r"20,000,000 of them, and these are 6,078,"):
        tsc.verify(random_checkpoint(config, 0))
    with pytest.raises(UnsupportedError, match="no certificate"):
        tsc.verify(deep("first"), lengths=[2], certify=True)
