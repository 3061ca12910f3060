"""Branch and bound over strings in their order against every string at 256 bits."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch

from tests.verification import precise_ordered
from tests.verification.ordered_models import (
    copying,
    labels_of,
    longest,
    ordered_checkpoint,
    random_config,
    random_task,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.tasks.counts import Maximum
from tsc_interp.tasks.order import Before
from tsc_interp.verification import verify, verify_ordered
from tsc_interp.verification.order.verify import written


@pytest.mark.parametrize("block", range(12))
def test_counts_and_first_errors_are_those_of_every_string_at_256_bits(block):
    decided = 0
    for seed in range(block * 10, block * 10 + 10):
        config = random_config(seed)
        checkpoint, task = ordered_checkpoint(config, seed), random_task(config, seed)
        length = longest(config, 64)
        wrong = precise_ordered.wrong_strings(checkpoint, task, length)
        if wrong is None:
            continue
        decided += 1
        verdict = verify_ordered(checkpoint, length, min_length=length, task=task)
        assert (verdict.wrong, verdict.undecided) == (len(wrong), 0), config
        assert verdict.strings == config.n_letters**length
        if wrong:
            assert verdict.shortest.string == written(config, wrong[0])
            assert verdict.shortest.answer == precise_ordered.answer(checkpoint, wrong[0])
        else:
            assert verdict.shortest is None
            assert verdict.correct
    assert decided >= 8


@pytest.mark.parametrize("seed", range(200, 206))
def test_the_oracle_is_the_model(seed):
    """The 256-bit pass and the package's one forward pass, in float64."""
    config = random_config(seed)
    checkpoint = ordered_checkpoint(config, seed)
    model = Classifier.from_checkpoint(checkpoint).double()
    strings = list(product(range(config.n_letters), repeat=longest(config, 20)))
    with torch.no_grad():
        found = model([written(config, string) for string in strings])
    for row, string in zip(found.reshape(len(strings), -1), strings, strict=True):
        expected = [float(x) for x in precise_ordered.outputs_of(checkpoint, string)]
        np.testing.assert_allclose(row.numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("attend_cls", [False, True])
def test_without_positions_it_agrees_with_counting_vectors(attend_cls):
    """Where order does not matter, the count-space verifier answers the same question."""
    config = ClassifierConfig(attend_cls=attend_cls)
    for seed in range(3):
        checkpoint = ordered_checkpoint(config, seed, 3.0)
        counted, ordered = verify(checkpoint, 7), verify_ordered(checkpoint, 7)
        assert ordered.accuracy == counted.accuracy
        assert ordered.strings == counted.tally.strings


def test_a_maximum_copied_by_hand():
    """The largest letter outweighs the others until there are too many of them: e^s · 1 against k.

    With scores s · i, one c among k b's gets e^s against k: wrong from k > e^s on, and first there.
    """
    sharp = 1.5  # e^1.5 = 4.48: four b's are outweighed, five are not
    checkpoint = copying(sharpness=sharp)
    verdict = verify_ordered(checkpoint, 6, task=Maximum())
    expected = [0] * 6
    for length in range(1, 7):
        for string in product(range(3), repeat=length):
            votes = [string.count(i) * np.exp(sharp * i) for i in range(3)]
            votes[string[-1]] += sum(votes) / 8  # the residual stream itself
            expected[length - 1] += int(np.argmax(votes)) != max(string)
    assert [one.wrong for one in verdict.lengths] == expected
    assert any(expected)
    assert verdict.verified_length == next(i for i, wrong in enumerate(expected) if wrong)
    assert verdict.shortest.length == verdict.verified_length + 1


def test_lengths_and_accuracy_are_exact_integers():
    checkpoint = copying(sharpness=20.0)
    verdict = verify_ordered(checkpoint, 40, min_length=40, task=Maximum())
    assert verdict.correct
    assert verdict.strings == 3**40
    assert verdict.accuracy == Fraction(1)
    assert json.loads(json.dumps(verdict.to_dict()))["inputs"] == str(3**40)


def test_ties_go_to_the_lower_class():
    """Three equal columns: class 0 wins every string, and that is decided, not undecided."""
    checkpoint = copying()
    weights = dict(checkpoint.weights)
    weights["unembed.W_U"] = np.ones_like(weights["unembed.W_U"])
    verdict = verify_ordered(Checkpoint(checkpoint.config, weights), 3, task=Maximum())
    assert verdict.undecided == 0
    # Only strings of a's have 0 as their largest letter.
    assert [one.right for one in verdict.lengths] == [1, 1, 1]
    assert verdict.shortest.string == "b"
    assert verdict.shortest.answer == 0


def test_a_zero_logit_is_negative():
    config = ClassifierConfig(n_positions=5)
    weights = dict(ordered_checkpoint(config, 0).weights)
    weights["unembed.W_U"] = np.zeros_like(weights["unembed.W_U"])
    verdict = verify_ordered(Checkpoint(config, weights), task=Before())
    strings = [string for n in range(1, 5) for string in product(range(3), repeat=n)]
    positive = sum(Before().labels(np.array([one]))[0] for one in strings)
    assert verdict.undecided == 0
    assert verdict.wrong == positive


@pytest.mark.parametrize("size", [1e30, 3e38])
@pytest.mark.parametrize("part", ["W_V", "W_Q", "W_E", "W_U", "W_in"])
def test_huge_weights_prove_nothing_false(size, part):
    """What overflows in float64 is decided in exact arithmetic, refused, or undecided."""
    for seed in (0, 3, 7):
        config = ClassifierConfig(
            n_letters=2, n_positions=3, n_heads=2, norm=["off", "rms", "layer"][seed % 3]
        )
        weights = {
            name: np.sign(w) * np.float32(size) if name.endswith(part) else w
            for name, w in ordered_checkpoint(config, seed).weights.items()
        }
        checkpoint, task = Checkpoint(config, weights), config.task
        try:
            verdict = verify_ordered(checkpoint, 2, min_length=2)
        except UnsupportedError:
            continue
        (decided,) = verdict.parts
        wrong = {tuple(row) for one in decided.regions() for row in one.strings()[1].tolist()}
        wrong |= {tuple(row) for row in decided.wrong_inputs.tolist()}
        open_ = {tuple(row) for one in decided.regions(undecided=True)
                 for row in one.strings()[1].tolist()}  # fmt: skip
        open_ |= {tuple(row) for row in decided.undecided_inputs.tolist()}
        for string in product(range(2), repeat=2):
            said = precise_ordered.answer(checkpoint, string, bits=4096)
            label = labels_of(task, np.array([string]), 2)[0]
            if said is not None and string not in open_:
                assert (said != label) == (string in wrong)


def test_what_cannot_be_asked_is_refused_in_words():
    with pytest.raises(UsageError, match="say max_length"):
        verify_ordered(copying(), task=Maximum())
    small = ordered_checkpoint(ClassifierConfig(n_positions=4), 0)
    with pytest.raises(UsageError, match="strings of up to 3 letters, got 4"):
        verify_ordered(small, 4)
    for bad in (0, True, 2.0, "3"):
        with pytest.raises(UsageError):
            verify_ordered(small, bad)
    with pytest.raises(UsageError, match="seconds"):
        verify_ordered(small, seconds=0)


def test_it_shows_itself():
    verdict = verify_ordered(copying(sharpness=0.5), 3, task=Maximum())
    said = f"of 39 strings of length 1 to 3 {verdict.wrong} are wrong (the first "
    assert f"{said}{verdict.shortest.string})" in repr(verdict)
    assert verdict.shortest.string in verdict._repr_html_()
