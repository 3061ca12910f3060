"""A task on order is asked of strings in their order, everywhere a label is told."""

from __future__ import annotations

import pytest

import tsc_interp as tsc
from tests.playground.pages import fresh
from tsc_interp.model.classifier import Classifier
from tsc_interp.probes.registry import run_probe
from tsc_interp.tasks.order import Before
from tsc_interp.verification import verify_ordered

STRINGS = ["ab", "ba", "cab", "cba", "ca", "c"]
LABELS = (1, 0, 1, 0, 1, 0)


@pytest.fixture(scope="module")
def checkpoint():
    return fresh(tsc.ClassifierConfig(task="before", n_positions=9), seed=1)


def test_labels_are_those_of_the_order(checkpoint):
    """They were those of the letters' counts, read as if they were places."""
    assert tuple(one.label for one in tsc.evaluate(checkpoint, STRINGS)) == LABELS
    model = Classifier.from_checkpoint(checkpoint)
    assert run_probe("trace", model, STRINGS).labels == LABELS
    assert run_probe("attribution", model, STRINGS).labels == LABELS


def test_a_models_own_task_is_verified(checkpoint):
    """It was refused: no rule for boxes of the task 'before'."""
    own, named = (verify_ordered(checkpoint, 5, task=task) for task in (None, Before()))
    assert own.lengths == named.lengths
    assert own.task == "an a before any b"
