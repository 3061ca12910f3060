"""The float32 bound of a whole layer: norms, positions and gates, against float32 itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx

from tests.ordered_models import ordered_checkpoint, wide_config
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_tokens, token_rows
from tsc_interp.strings import CLS
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.compared_rounding import compared
from tsc_interp.verification.checker.forward_rounding import ForwardBound
from tsc_interp.verification.order.exact import OrderedExact


def run(checkpoint: Checkpoint, text: str, dtype: torch.dtype) -> tuple[np.ndarray, dict[str, Any]]:
    """Outputs of one string, and what the norms divide by where it is read."""
    config, seen = checkpoint.config, {}
    weights = {n: torch.from_numpy(w.copy()).to(dtype) for n, w in checkpoint.weights.items()}
    inputs = from_tokens(config, torch.from_numpy(token_rows(config, [text])))
    at = 0 if inputs.reading is None else int(inputs.reading[0])

    def keep(name: str, activation: torch.Tensor) -> torch.Tensor:
        if name.endswith("hook_scale") and ".attn." not in name:
            seen[name.split(".hook")[0]] = float(activation[0, at])
        if name == "blocks.0.hook_resid_post":
            x = activation[0, at].double()
            x = x - x.mean() if config.centred_norm else x
            seen["exact scale"] = float((x.square().mean() + config.norm_eps).sqrt())
        return activation

    with torch.no_grad():
        out = forward(config, weights, inputs, tap=keep).reshape(-1).double().numpy()
    return (out if len(out) > 1 else np.array([0.0, out[0]])), seen


def shuffled(checkpoint: Checkpoint, seed: int) -> Checkpoint:
    """The same function with the residual stream and the neurons in another order: other sums."""
    rng, config = np.random.default_rng(seed), checkpoint.config
    d, m = rng.permutation(config.d_model), rng.permutation(max(config.d_mlp, 1))
    moved = {}
    for name, w in checkpoint.weights.items():
        kind = name.rsplit(".", 1)[1]
        if kind in ("W_Q", "W_K", "W_V"):
            moved[name] = w[:, d]
        elif kind in ("W_E", "W_pos", "W_O"):
            moved[name] = w[..., d]
        elif kind in ("W_in", "W_gate"):
            moved[name] = w[d][:, m]
        elif kind == "W_out":
            moved[name] = w[m][:, d]
        elif kind == "b_in":
            moved[name] = w[m]
        elif kind == "W_U":
            moved[name] = w[d]
        else:
            moved[name] = w[d] if w.shape == d.shape and "q_norm" not in name else w
    return Checkpoint(config, moved)


def orders(checkpoint: Checkpoint) -> list[Checkpoint]:
    sinusoidal = checkpoint.config.positions == "sinusoidal"  # a table that cannot be reordered
    head_norms = checkpoint.config.qk_norm == "rms" and (
        checkpoint.config.d_head == checkpoint.config.d_model
    )
    if sinusoidal or head_norms or checkpoint.config.n_outputs == checkpoint.config.d_model:
        return [checkpoint]
    return [checkpoint, *(shuffled(checkpoint, seed) for seed in range(3))]


@pytest.mark.parametrize("seed", range(24))
def test_float32_stays_within_the_bound(seed: int) -> None:
    """With the string's own scales, and times the final one; in several orders of summation."""
    config = wide_config(seed)
    checkpoint = ordered_checkpoint(config, seed, scale=0.7)
    bound, exact, rng = (
        ForwardBound(checkpoint),
        OrderedExact(checkpoint),
        np.random.default_rng(seed),
    )
    length = min(4, (config.n_positions or 9) - int(config.has_cls))
    for _ in range(2):
        string = rng.integers(0, config.n_letters, length).tolist()
        text = "".join(config.alphabet.letters[i] for i in string)
        reader = exact.reading_tokens(length)[string[-1] if config.reads == "last_letter" else 0]
        with ctx.workprec(128):
            real = np.array([float(gap) for gap in exact.differences(string, 0)])
        scales = run(checkpoint, text, torch.float64)[1]
        inner, outer = (
            arb(scales[name] * (1 - 1e-9)) if name in scales else None
            for name in ("blocks.0.ln2", "ln_final")
        )
        room = bound.room(length, reader, inner_scale=inner, outer_scale=outer)
        times = bound.room(length, reader, inner_scale=inner, scaled=True)
        blind = bound.room(length, reader)
        off = max(
            np.abs((said := run(one, text, torch.float32)[0])[0] - said - real).max()
            for one in orders(checkpoint)
        )
        assert off <= float(room)
        assert off * scales.get("ln_final", 1.0) <= float(times) * (1 + 1e-9)
        assert float(room) <= float(blind) * (1 + 1e-9)
        assert float(times) <= float(room) * scales.get("ln_final", 1.0) * 2
        assert float(room) < 0.05


def test_rounding_that_a_small_scale_makes_large_is_within_the_bound() -> None:
    """Thousands cancel to thousandths, which the final norm makes ones: float32 is off by 1 %."""
    config = ClassifierConfig(
        d_model=4, n_heads=1, d_head=2, d_mlp=0, norm="rms_pre", norm_eps=1e-8, final_norm=True,
        biases=True, reads="last_letter", attend_cls=True, n_outputs=2,
    )  # fmt: skip
    checkpoint = ordered_checkpoint(config, 3)
    weights = {name: w.copy() for name, w in checkpoint.weights.items()}
    weights["embed.W_E"][2:] = [[1000.1234, -2000.5678, 1500.3, 1.0]]
    weights["blocks.0.attn.b_O"] = -weights["embed.W_E"][2] + np.float32([1e-3, 0, 0, 2e-3])
    weights["blocks.0.attn.W_O"] *= np.float32(1e-3)
    small = Checkpoint(config, weights)
    exact, bound = OrderedExact(small), ForwardBound(small)
    with ctx.workprec(128):
        real = np.array([float(gap) for gap in exact.differences([0, 1], 0)])
    said = run(small, "ab", torch.float32)[0]
    scale = run(small, "ab", torch.float64)[1]["ln_final"]
    room = bound.room(2, (3, 1), outer_scale=arb(scale) * (1 - arb(2) ** -40))
    off = np.abs(said[0] - said - real).max()
    assert 1e-3 < off <= float(room) < 1000 * off
    assert off * scale <= float(bound.room(2, (3, 1), scaled=True))


def test_what_may_overflow_and_what_is_not_bounded() -> None:
    config = ClassifierConfig(norm="rms", d_model=3, final_norm=True)
    checkpoint = ordered_checkpoint(config, 0)
    assert ForwardBound(checkpoint).room(3, (CLS, 0)).is_finite()
    for name, size in (("embed.W_E", 1e25), ("unembed.W_U", 1e38), ("blocks.0.attn.W_O", 1e30)):
        large = {**checkpoint.weights, name: checkpoint.weights[name] * np.float32(size)}
        found = ForwardBound(Checkpoint(config, large))
        assert not found.room(3, (CLS, 0)).is_finite(), name
        assert not found.room(3, (CLS, 0), scaled=True).is_finite(), name
    tiny = Checkpoint(config.replace(norm_eps=1e-30), checkpoint.weights)
    assert not ForwardBound(tiny).room(3, (CLS, 0)).is_finite()
    with pytest.raises(CertificateError, match="one layer"):
        ForwardBound(ordered_checkpoint(config.replace(n_layers=2), 0))
    with pytest.raises(CertificateError, match="a norm after attention"):
        ForwardBound(ordered_checkpoint(config.replace(attention_norm="rms"), 0))


@pytest.mark.parametrize("seed", range(24))
def test_a_real_difference_beyond_the_room_is_one_in_float32(seed: int) -> None:
    """Differences times what the final norm divides by, each by its own: t ŷ is near s y."""
    config = wide_config(seed, gated=False)
    checkpoint = ordered_checkpoint(config, seed, scale=0.7)
    bound, exact, rng = (
        ForwardBound(checkpoint),
        OrderedExact(checkpoint),
        np.random.default_rng(seed),
    )
    length = min(4, (config.n_positions or 9) - int(config.has_cls))
    string = rng.integers(0, config.n_letters, length).tolist()
    text = "".join(config.alphabet.letters[i] for i in string)
    reader = exact.reading_tokens(length)[string[-1] if config.reads == "last_letter" else 0]
    scales, arguments = run(checkpoint, text, torch.float64)[1], neurons(checkpoint, text)
    inner = arb(scales["blocks.0.ln2"] * (1 - 1e-9)) if "blocks.0.ln2" in scales else None
    s = scales.get("ln_final", 1.0)
    for label in range(max(config.n_outputs, 2)):
        with ctx.workprec(128):
            real = np.array([float(gap) for gap in exact.differences(string, label)])
        near = compared(
            bound, length, reader, label, inner_scale=inner, arguments=[arb(x) for x in arguments]
        )
        blind = compared(bound, length, reader, label)
        for one in orders(checkpoint):
            said, found = run(one, text, torch.float32)
            t = found["exact scale"] if config.final_norm else 1.0
            for j, room in enumerate(near):
                assert abs(t * (said[label] - said[j]) - s * real[j]) <= float(room) * (1 + 1e-6)
                assert float(room) <= float(blind[j]) * (1 + 1e-9)


def neurons(checkpoint: Checkpoint, text: str) -> list[float]:
    config, seen = checkpoint.config, {}
    weights = {n: torch.from_numpy(w.copy()).double() for n, w in checkpoint.weights.items()}
    inputs = from_tokens(config, torch.from_numpy(token_rows(config, [text])))
    at = 0 if inputs.reading is None else int(inputs.reading[0])

    def keep(name: str, activation: torch.Tensor) -> torch.Tensor:
        seen[name] = activation
        return activation

    forward(config, weights, inputs, tap=keep)
    return seen["blocks.0.mlp.hook_pre"][0, at].tolist() if config.has_mlp else []


U = 2.0**-24
_SHAKEN = {
    "hook_q": 2, "hook_k": 2, "hook_v": 2, "hook_rot_q": 1, "hook_rot_k": 1, "hook_attn_scores": 2,
    "hook_pattern": 4, "hook_z": 2, "hook_attn_out": 2, "hook_resid_mid": 1, "hook_pre": 2,
    "hook_mlp_out": 2, "hook_resid_post": 1, "hook_normalized": 2, "hook_scale": 2,
}  # fmt: skip
"""Units by which each activation may be moved at least, whatever the sizes of the model."""


@pytest.mark.parametrize("seed", range(12))
def test_any_rounding_within_the_assumptions_stays_within_the_bound(seed: int) -> None:
    """Every activation moved by all the assumptions allow, in float64: signs drawn many times."""
    config = wide_config(seed)
    checkpoint = ordered_checkpoint(config, seed, scale=0.7)
    bound, exact, rng = (
        ForwardBound(checkpoint),
        OrderedExact(checkpoint),
        np.random.default_rng(seed),
    )
    length = min(4, (config.n_positions or 9) - int(config.has_cls))
    string = rng.integers(0, config.n_letters, length).tolist()
    text = "".join(config.alphabet.letters[i] for i in string)
    reader = exact.reading_tokens(length)[string[-1] if config.reads == "last_letter" else 0]
    scales = run(checkpoint, text, torch.float64)[1]
    inner, outer = (
        arb(scales[name] * (1 - 1e-9)) if name in scales else None
        for name in ("blocks.0.ln2", "ln_final")
    )
    room = float(bound.room(length, reader, inner_scale=inner, outer_scale=outer))
    with ctx.workprec(128):
        real = np.array([float(gap) for gap in exact.differences(string, 0)])
    weights = {n: torch.from_numpy(w.copy()).double() for n, w in checkpoint.weights.items()}
    inputs = from_tokens(config, torch.from_numpy(token_rows(config, [text])))
    generator, worst = torch.Generator().manual_seed(seed), 0.0

    def shake(name: str, activation: torch.Tensor) -> torch.Tensor:
        units = _SHAKEN.get(name.rsplit(".", 1)[-1], 0) * U
        sign = torch.randint(0, 2, activation.shape, generator=generator) * 2.0 - 1
        return activation * (1 + units * sign)

    for _ in range(20):
        out = forward(config, weights, inputs, tap=shake).reshape(-1).numpy()
        out = out if len(out) > 1 else np.array([0.0, out[0]])
        worst = max(worst, float(np.abs(out[0] - out - real).max()))
    assert 1e-4 * room < worst <= room
