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


PER_POSITION = "... channel -> ... 1 1 channel"
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}


@dataclass(frozen=True)
class Layers:
    """The layers of a model, or of a part of it, and who sees their activations.

    `name` is what the names of a layer's weights and hooks begin with, such as `blocks.0.mlp.`.
    """

    config: ClassifierConfig
    weights: Weights
    tap: Tap = untapped

    def norm(self, name: str, x: Tensor, per_head: bool = False, kind: str | None = None) -> Tensor:
        """RMS or LayerNorm, tapped as TransformerLens does: before the learned scale and shift."""
        kind = self.config.norm if kind is None else kind
        if kind == "off":
            return x
        axes = "... d_model -> ... 1 1 1 d_model" if per_head else "... d_model -> ... 1 1 d_model"
        if kind.startswith("layer"):
            x = x - x.mean(-1, keepdim=True)
        scale = (x.square().mean(-1, keepdim=True) + self.config.norm_eps).sqrt()
        x = self.tap(f"{name}hook_normalized", x / self.tap(f"{name}hook_scale", scale))
        if kind.endswith("_pre"):
            return x
        x = x * rearrange(self.weights[f"{name}w"], axes)
        return x + rearrange(self.weights[f"{name}b"], axes) if kind == "layer" else x

    def mlp(self, name: str, x: Residual) -> Residual:
        """act(x W_in + b_in) W_out + b_out.

        With a gate (act(x W_gate) · x W_in + b_in) W_out + b_out: the bias stands where
        TransformerLens has it, behind the product.
        """
        into = "... batch pos d_model, ... d_model d_mlp -> ... batch pos d_mlp"
        out = "... batch pos d_mlp, ... d_mlp d_model -> ... batch pos d_model"
        act, weights, tap = ACTIVATIONS[self.config.act_fn], self.weights, self.tap
        read = einsum(x, weights[f"{name}W_in"], into)
        if self.config.gated_mlp:
            pre = tap(f"{name}hook_pre", einsum(x, weights[f"{name}W_gate"], into))
            post = act(pre) * tap(f"{name}hook_pre_linear", read)
            post = self.biased(f"{name}b_in", post)
        else:
            post = act(tap(f"{name}hook_pre", self.biased(f"{name}b_in", read)))
        written = einsum(tap(f"{name}hook_post", post), weights[f"{name}W_out"], out)
        return self.biased(f"{name}b_out", written)

    def biased(self, name: str, x: Tensor, pattern: str = PER_POSITION) -> Tensor:
        """With the bias of that name added, in a model with biases."""
        return x + rearrange(self.weights[name], pattern) if self.config.biases else x


@dataclass(frozen=True, kw_only=True)
class Pass(Layers):
    """One forward pass: a model, what it reads, and who sees its activations."""

    inputs: Inputs
    training: bool = False
    extras: Extras = NO_EXTRAS
