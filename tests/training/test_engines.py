"""The trainer's arithmetic, closed form and autograd, against float64 autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsc_interp.config import ClassifierConfig
from tsc_interp.data import BalancedStream
from tsc_interp.model.forward import forward
from tsc_interp.model.initialise import initial_weights
from tsc_interp.model.inputs import from_counts
from tsc_interp.training import closed_form
from tsc_interp.training.autograd import Autograd
from tsc_interp.training.closed_form import ClosedForm
from tsc_interp.training.losses import loss_named
from tsc_interp.training.optimizer import AdamW

SHAPES = {
    "default": {},
    "wide": {"d_model": 16, "n_heads": 3},
    "attend_cls": {"attend_cls": True, "d_model": 5},
    "large heads": {"d_model": 7, "n_heads": 2, "d_head": 3, "d_mlp": 11, "n_letters": 6},
    "no mlp": {"d_model": 3, "n_heads": 1, "d_head": 2, "d_mlp": 0},
    "log n": {"score_scale": "sqrt_d_head_log_n", "d_model": 5, "n_heads": 3},
    "log n, CLS": {"score_scale": "sqrt_d_head_log_n_cls", "attend_cls": True, "d_head": 2},
    "ssmax": {"score_scale": "sqrt_d_head_ssmax", "n_heads": 3, "d_head": 2, "d_mlp": 4},
}
MODELS = 4
STRINGS = 37


def weights_of(config, scale=1.0):
    return [
        {name: scale * w.numpy() for name, w in initial_weights(config, seed).items()}
        for seed in range(MODELS)
    ]


def strings_of(config):
    counts = BalancedStream(max_length=12, batch_size=STRINGS, batches=1).epoch(config, 0)
    return counts, config.task.labels(counts).astype(np.float32)


def oracle(config, many, counts, labels, loss_name):
    """Logits and gradients in float64, by torch."""
    stacked = {
        name: torch.tensor(np.stack([w[name] for w in many])).double().requires_grad_()
        for name in many[0]
    }
    logits = forward(config, stacked, from_counts(config, counts))
    x = logits
    if loss_name == "sigmoid_scaled":
        for _ in range(2):
            x = -x / (1 + x.sigmoid())
    target = torch.tensor(labels).double().expand(x.shape)
    values = torch.nn.functional.binary_cross_entropy_with_logits(x, target, reduction="none")
    values.mean(-1).sum().backward()
    gradients = [{n: w.grad[i].numpy() for n, w in stacked.items()} for i in range(MODELS)]
    return logits.detach().numpy(), values.detach().numpy(), gradients


@pytest.mark.parametrize("engine_type", [ClosedForm, Autograd])
@pytest.mark.parametrize("loss_name", ["cross_entropy", "sigmoid_scaled"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_autograds(shape, loss_name, engine_type):
    config = ClassifierConfig(**SHAPES[shape])
    many = weights_of(config, 1.5)
    counts, labels = strings_of(config)
    logits, values, expected = oracle(config, many, counts, labels, loss_name)
    loss = loss_named(loss_name)
    engine = engine_type(config, loss)
    gradient, measured = engine.gradient(engine.pack(many), engine.prepare(counts), labels)
    np.testing.assert_allclose(measured, logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loss.values(measured, labels), values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        engine.logits(engine.pack(many), engine.prepare(counts)), measured, atol=1e-6
    )
    for model, found in enumerate(engine.unpack(gradient)):
        for name, array in found.items():
            np.testing.assert_allclose(
                array, expected[model][name], rtol=1e-4, atol=1e-6, err_msg=f"{model} {name}"
            )


@pytest.mark.parametrize("d_head", [1, 2])
def test_scores_too_far_apart_for_exponentials(d_head):
    """Gaps of hundreds: exp overflows, yet a string of two distant letters has a real answer."""
    config = ClassifierConfig(n_letters=4, d_model=3, n_heads=2, d_head=d_head)
    many = weights_of(config)
    for name in ("blocks.0.attn.W_Q", "blocks.0.attn.W_K"):
        many[2][name] = many[2][name] * 40
    counts, labels = strings_of(config)
    logits, _, expected = oracle(config, many, counts, labels, "cross_entropy")
    engine = ClosedForm(config, loss_named("cross_entropy"))
    with np.errstate(all="ignore"):
        gradient, measured = engine.gradient(engine.pack(many), engine.prepare(counts), labels)
    np.testing.assert_allclose(measured, logits, rtol=1e-4, atol=1e-4)
    for model, found in enumerate(engine.unpack(gradient)):
        for name, array in found.items():
            np.testing.assert_allclose(array, expected[model][name], rtol=2e-3, atol=2e-5)
    scores = np.einsum(
        "d,hdk,jD,hDk->hj",
        many[2]["embed.W_E"][0],
        many[2]["blocks.0.attn.W_Q"],
        many[2]["embed.W_E"][2:],
        many[2]["blocks.0.attn.W_K"],
    )
    assert np.ptp(scores, axis=1).max() / np.sqrt(d_head) > closed_form._LARGEST_SCORE_GAP


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("engine_type", [ClosedForm, Autograd])
def test_packing_loses_nothing(shape, engine_type):
    config = ClassifierConfig(**SHAPES[shape])
    many = weights_of(config)
    engine = engine_type(config, loss_named("cross_entropy"))
    flat = engine.pack(many)
    assert flat.shape == (MODELS, sum(w.size for w in many[0].values()))
    for before, after in zip(many, engine.unpack(flat), strict=True):
        assert before.keys() == after.keys()
        for name in before:
            np.testing.assert_array_equal(before[name], after[name])


def test_what_the_closed_form_covers():
    covered = [{}, {"d_model": 16, "n_heads": 16}, {"attend_cls": True}, {"d_mlp": 0}]
    covered += [{"score_scale": f"sqrt_d_head_{kind}"} for kind in ("log_n", "log_n_cls", "ssmax")]
    others = [
        {"n_layers": 2},
        {"norm": "rms"},
        {"norm": "layer"},
        {"dropout": 0.1},
        {"n_positions": 300},
        {"adaptive_temperature": True},
        {"attention_norm": "rms"},
        {"n_heads": 0},
    ]
    assert all(closed_form.covers(ClassifierConfig(**options)) for options in covered)
    assert not any(closed_form.covers(ClassifierConfig(**options)) for options in others)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01, 0.3])
def test_adamw_takes_torchs_steps(weight_decay):
    random = np.random.default_rng(0)
    start = random.normal(size=(3, 11)).astype(np.float32)
    theirs = torch.nn.Parameter(torch.tensor(start))
    optimizer = torch.optim.AdamW([theirs], lr=1e-2, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, 30)
    ours = start.copy()
    adam = AdamW(np.zeros_like(ours), np.zeros_like(ours), 0, weight_decay)
    for _ in range(60):
        gradient = random.normal(size=ours.shape).astype(np.float32)
        theirs.grad = torch.tensor(gradient)
        rate = schedule.get_last_lr()[0]
        optimizer.step()
        schedule.step()
        adam.step(ours, gradient, rate)
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=2e-6, atol=1e-7)


def test_adamw_forgets_dropped_models_and_only_them():
    random = np.random.default_rng(1)
    parameters = random.normal(size=(4, 5)).astype(np.float32)
    gradients = [random.normal(size=(4, 5)).astype(np.float32) for _ in range(6)]

    def run(models):
        ours = parameters[models].copy()
        adam = AdamW(np.zeros_like(ours), np.zeros_like(ours), 0, 0.01)
        for gradient in gradients:
            adam.step(ours, gradient[models].copy(), 1e-2)
        return ours

    ours = parameters.copy()
    adam = AdamW(np.zeros_like(ours), np.zeros_like(ours), 0, 0.01)
    for step, gradient in enumerate(gradients):
        if step == 3:
            ours = ours[[1, 3]]
            adam.keep(np.array([1, 3]))
        kept = gradient if step < 3 else gradient[[1, 3]]
        adam.step(ours, kept.copy(), 1e-2)
    np.testing.assert_array_equal(ours, run([1, 3]))
