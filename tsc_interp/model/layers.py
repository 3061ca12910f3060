"""Norms and MLPs, and what every piece of the forward pass shares: weights, taps and extras."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from tsc_interp.config import ClassifierConfig
from tsc_interp.model.inputs import Inputs

Weights = Mapping[str, Tensor]
Tap = Callable[[str, Tensor], Tensor]
Residual = Float[Tensor, "*ensemble batch pos d_model"]


@dataclass(frozen=True)
class Extras:
    """Activations that cost something and are made on request: TransformerLens's `use_*` flags."""

    attn_result: bool = False
    attn_in: bool = False
    split_qkv_input: bool = False
    hook_mlp_in: bool = False

    @property
    def per_head_input(self) -> bool:
        return self.attn_in or self.split_qkv_input


NO_EXTRAS = Extras()
ALL_EXTRAS = Extras(attn_result=True, attn_in=True, split_qkv_input=True, hook_mlp_in=True)


def untapped(name: str, activation: Tensor) -> Tensor:
    return activation


@dataclass(frozen=True)
class Pass:
    """One forward pass: the model, what it reads, and who sees its activations."""

    config: ClassifierConfig
    weights: Weights
    inputs: Inputs
    tap: Tap = untapped
    training: bool = False
    extras: Extras = NO_EXTRAS

    def norm(self, name: str, x: Tensor, per_head: bool = False, kind: str | None = None) -> Tensor:
        return norm(self.config, self.weights, name, x, self.tap, per_head, kind)


def mlp(config: ClassifierConfig, weights: Weights, name: str, x: Residual, tap: Tap) -> Residual:
    """act(x W_in + b_in) W_out + b_out; with a gate (act(x W_gate) · x W_in + b_in) W_out + b_out.

    The gate's bias stands where TransformerLens has it: `b_in` is added after the product.
    """
    into = "... batch pos d_model, ... d_model d_mlp -> ... batch pos d_mlp"
    out = "... batch pos d_mlp, ... d_mlp d_model -> ... batch pos d_model"
    act, read = ACTIVATIONS[config.act_fn], einsum(x, weights[f"{name}W_in"], into)
    if config.gated_mlp:
        pre = tap(f"{name}hook_pre", einsum(x, weights[f"{name}W_gate"], into))
        post = act(pre) * tap(f"{name}hook_pre_linear", read)
        post = biased(config, post, weights, f"{name}b_in", PER_POSITION)
    else:
        pre = biased(config, read, weights, f"{name}b_in", PER_POSITION)
        post = act(tap(f"{name}hook_pre", pre))
    written = einsum(tap(f"{name}hook_post", post), weights[f"{name}W_out"], out)
    return biased(config, written, weights, f"{name}b_out", PER_POSITION)


def biased(
    config: ClassifierConfig, x: Tensor, weights: Weights, name: str, pattern: str
) -> Tensor:
    return x + rearrange(weights[name], pattern) if config.biases else x


PER_POSITION = "... channel -> ... 1 1 channel"
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}


def norm(
    config: ClassifierConfig,
    weights: Weights,
    name: str,
    x: Tensor,
    tap: Tap,
    per_head: bool = False,
    kind: str | None = None,
) -> Tensor:
    """RMS or LayerNorm, tapped as TransformerLens does: before the learned scale and shift."""
    kind = config.norm if kind is None else kind
    if kind == "off":
        return x
    axes = "... d_model -> ... 1 1 1 d_model" if per_head else "... d_model -> ... 1 1 d_model"
    if kind.startswith("layer"):
        x = x - x.mean(-1, keepdim=True)
    scale = tap(f"{name}hook_scale", (x.square().mean(-1, keepdim=True) + config.norm_eps).sqrt())
    x = tap(f"{name}hook_normalized", x / scale)
    if kind.endswith("_pre"):
        return x
    x = x * rearrange(weights[f"{name}w"], axes)
    return x + rearrange(weights[f"{name}b"], axes) if kind == "layer" else x
