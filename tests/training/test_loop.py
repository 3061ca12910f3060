"""The loop: the plain baseline's weights epoch by epoch, independence of members, endings."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import baseline
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import AllStrings, BalancedStream
from tsc_interp.model.initialise import linear_to_hooked
from tsc_interp.training.config import RunConfig, TrainingConfig
from tsc_interp.training.ensemble import start, train_ensemble
from tsc_interp.training.stopping import chosen_epoch, ending

LOW = {
    "d_model": 16,
    "embedding_init": "linear_like",
    "attention_init": "output_fan_out",
    "mlp_init": "output_fan_out",
}
LOW_BASELINE = {
    "d_model": 16,
    "linear_like_embedding": True,
    "attention_fan_out": True,
    "mlp_fan_out": True,
}
SHORT = TrainingConfig(
    train=BalancedStream(batches=7),
    validation=BalancedStream(max_length=20, batches=2),
    test=BalancedStream(max_length=40, batches=2),
    max_epochs=6,
)
NAMES = {
    "embedding.weight": "embed.W_E",
    "query.weight": "blocks.0.attn.W_Q",
    "key.weight": "blocks.0.attn.W_K",
    "value.weight": "blocks.0.attn.W_V",
    "output.weight": "blocks.0.attn.W_O",
    "mlp_in.weight": "blocks.0.mlp.W_in",
    "mlp_out.weight": "blocks.0.mlp.W_out",
    "readout.weight": "unembed.W_U",
    "norm1.weight": "blocks.0.ln1.w",
    "norm2.weight": "blocks.0.ln2.w",
}


def baseline_weights(config, state):
    shapes = config.weight_shapes()
    return {
        NAMES[name]: (
            value
            if ".ln" in NAMES[name]
            else linear_to_hooked(NAMES[name], value, shapes[NAMES[name]])
        ).numpy()
        for name, value in state.items()
    }


@pytest.mark.parametrize(
    ("options", "plain", "seed"),
    [
        ({}, {}, 5),
        ({"attend_cls": True}, {"attend_cls": True}, 8),
        ({**LOW, "n_heads": 16}, {**LOW_BASELINE, "n_heads": 16}, 1),
        ({"norm": "rms", "d_model": 5}, {"norm": "rms", "d_model": 5}, 1),
    ],
    ids=["default", "attend_cls", "many heads", "rms by autograd"],
)
def test_weights_follow_the_baseline(options, plain, seed):
    """Every weight within 1e-4 of the largest in its matrix, after each of the first epochs."""
    torch.set_num_threads(1)
    epochs = 2 if not options else 1  # the baseline is slow, and one epoch is 156 steps
    outcome = baseline.train(baseline.Options(**plain), seed, max_epochs=epochs)
    config = ClassifierConfig(**options)
    first = start(RunConfig(classifier=config), seed)
    for epoch, (member,) in enumerate([[first], *islice(train_ensemble([first]), epochs)]):
        expected = baseline_weights(config, outcome.states[epoch])
        assert expected.keys() == member.weights.keys()
        for name, weight in member.weights.items():
            scale = np.abs(expected[name]).max()
            np.testing.assert_allclose(weight, expected[name], rtol=0, atol=1e-4 * scale)
        if epoch:
            loss = member.metrics[-1].validation_loss
            assert loss == pytest.approx(outcome.losses[epoch - 1], rel=0.02)


def last_of_each(members):
    found = {}
    for active in train_ensemble(members):
        for member in active:
            found[member.config, member.seed] = member
    return [found[member.config, member.seed] for member in members]


def same(one, other):
    assert one.metrics == other.metrics
    for part in ("weights", "mean", "square"):
        for name, array in getattr(one, part).items():
            np.testing.assert_array_equal(array, getattr(other, part)[name])


@pytest.mark.parametrize(
    "options",
    [{}, {"d_model": 16}, {**LOW, "n_heads": 16}, {"attend_cls": True}, {"norm": "layer"}],
    ids=["default", "wide", "many heads", "attend_cls", "layer norm"],
)
def test_a_member_does_not_depend_on_the_others(options):
    """Bit for bit: alone, in company, and when the company leaves at different times."""
    # Stopping differs from seed to seed, so models leave the arrays while others go on.
    training = SHORT.replace(check_from=2, patience=1, max_epochs=4)
    config = RunConfig(classifier=ClassifierConfig(**options), training=training)
    together = last_of_each([start(config, seed) for seed in range(7)])
    for seed in (0, 3, 6):
        (alone,) = last_of_each([start(config, seed)])
        same(alone, together[seed])


def test_models_that_differ_in_initialisation_train_together():
    one = RunConfig(classifier=ClassifierConfig(d_model=16), training=SHORT)
    other = RunConfig(classifier=ClassifierConfig(**LOW), training=SHORT)
    mixed = last_of_each([start(one, 1), start(other, 1), start(other, 2)])
    same(mixed[1], last_of_each([start(other, 1)])[0])
    with pytest.raises(ValueError, match="differ in shapes"):
        list(train_ensemble([start(one, 0), start(RunConfig(training=SHORT), 0)]))


@pytest.mark.parametrize(
    "options",
    [
        {"dropout": 0.2},
        {"n_positions": 41},
        {"n_layers": 2, "norm": "rms"},
        {"score_scale": "sqrt_d_head_log_n"},
        {"n_heads": 0},
    ],
    ids=["dropout", "positions", "two layers", "log n", "no attention"],
)
def test_everything_else_trains_through_the_same_door(options):
    config = RunConfig(
        classifier=ClassifierConfig(**options), training=SHORT.replace(max_epochs=2, check_from=9)
    )
    members = [start(config, seed) for seed in (0, 4)]
    ends = last_of_each(members)
    for member, end in zip(members, ends, strict=True):
        assert end.epoch == 2
        assert end.metrics[1].train_loss < end.metrics[0].train_loss
        moved = [np.abs(end.weights[n] - w).max() for n, w in member.weights.items()]
        assert max(moved) > 1e-3
    same(ends[1], last_of_each([members[1]])[0])


@pytest.mark.parametrize("options", [{}, {"dropout": 0.2}], ids=["closed form", "dropout"])
def test_going_on_from_any_epoch_is_exact(options):
    config = RunConfig(classifier=ClassifierConfig(**options), training=SHORT)
    states = [active[0] for active in train_ensemble([start(config, 2)])]
    for state in states[:-1]:
        same(last_of_each([state])[0], states[-1])


def test_all_strings_have_a_short_last_batch():
    training = SHORT.replace(
        train=AllStrings(length=5, batch_size=50), max_epochs=2
    )  # 243 = 4*50+43
    config = RunConfig(training=training)
    states = [active[0] for active in train_ensemble([start(config, 0)])]
    same(last_of_each([states[0]])[0], states[-1])  # the step count survives


def test_a_diverging_member_is_stopped_and_the_others_are_not_touched():
    config = RunConfig(training=SHORT)
    healthy, sick = start(config, 0), start(config, 1)
    broken = {name: weight * np.float32(1e30) for name, weight in sick.weights.items()}
    ends = last_of_each([healthy, type(sick)(config, 1, broken, sick.mean, sick.square)])
    assert ends[1].ending == "diverged"
    assert ends[1].epoch == 1
    assert not math.isfinite(ends[1].metrics[0].validation_loss)
    same(ends[0], last_of_each([healthy])[0])


# -- endings -----------------------------------------------------------------------------------


def brute_force_ending(losses, training):
    """The rule as the report states it, step by step."""
    best, patience = float("inf"), training.patience
    for epoch, loss in enumerate(losses, 1):
        if epoch >= training.check_from:
            if loss < training.stop_below:
                return epoch, "good_enough"
            if loss < best:
                best, patience = loss, training.patience
            else:
                patience -= 1
                if patience == 0:
                    return epoch, "no_improvement"
        if epoch == training.max_epochs:
            return epoch, "last_epoch"
    return None


@given(
    st.lists(st.sampled_from([0.01, 0.05, 0.2, 0.3, 0.7, 2.0]), min_size=30, max_size=30),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 30),
)
def test_the_stopping_rule(losses, check_from, patience, max_epochs):
    training = TrainingConfig(check_from=check_from, patience=patience, max_epochs=max_epochs)
    expected = brute_force_ending(losses, training)
    for epoch in range(1, expected[0]):
        assert ending(losses[:epoch], training) is None
    assert ending(losses[: expected[0]], training) == expected[1]


def test_the_chosen_epoch():
    assert chosen_epoch([3.0, 1.0, 1.0, 2.0]) == 2
    assert chosen_epoch([float("nan"), 5.0]) == 2
    assert chosen_epoch([float("inf")]) == 0
    assert ending([1.0, float("nan")], TrainingConfig()) == "diverged"


def test_the_learning_rate_is_torchs():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([parameter], lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, 30)
    for epoch in range(1, 36):
        assert TrainingConfig().rate(epoch) == pytest.approx(schedule.get_last_lr()[0], rel=1e-12)
        optimizer.step()
        schedule.step()
