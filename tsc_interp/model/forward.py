"""The classifier's arithmetic, written once.

`forward` is a pure function of weights and inputs. It passes every named activation through `tap`,
which the hooked module sets to its hook points and everybody else leaves as the identity. Weights
may carry leading *ensemble* axes: every line is written for `...` in front, so eight hundred seeds
are one call, and activations then carry the same axes in front of `batch`.

Attention with multiplicities: key j gets weight m_j exp(s_j) / sum_i m_i exp(s_i). In log space
that is log m added to the scores, with log 0 = -inf, which is what `hook_attn_scores` shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, einsum
from torch.nn import functional

from tsc_interp.config import ClassifierConfig
from tsc_interp.model.inputs import Inputs

Weights = Mapping[str, Tensor]
Tap = Callable[[str, Tensor], Tensor]
Residual = Float[Tensor, "*ensemble batch pos d_model"]


def _untapped(name: str, activation: Tensor) -> Tensor:
    return activation


def forward(
    config: ClassifierConfig,
    weights: Weights,
    inputs: Inputs,
    *,
    tap: Tap = _untapped,
    training: bool = False,
    with_result: bool = False,
) -> Float[Tensor, "*ensemble batch"]:
    """The logit of every string: `[..., batch]`, the dots being the weights' ensemble axes."""
    residual = _embed(config, weights, inputs, tap)
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        residual = tap(f"{block}.hook_resid_pre", residual)
        if config.has_attention:
            read = _norm(config, weights, f"{block}.ln1", residual, tap)
            out = _attention(config, weights, f"{block}.attn", read, inputs, tap, with_result)
            out = functional.dropout(out, config.dropout, training)
            residual = tap(f"{block}.hook_resid_mid", residual + tap(f"{block}.hook_attn_out", out))
        if config.has_mlp:
            read = _norm(config, weights, f"{block}.ln2", residual, tap)
            out = functional.dropout(
                _mlp(weights, f"{block}.mlp", read, tap), config.dropout, training
            )
            residual = residual + tap(f"{block}.hook_mlp_out", out)
        residual = tap(f"{block}.hook_resid_post", residual)
    cls = residual[..., 0, :]
    return einsum("...bd,...d->...b", cls, weights["unembed.W_U"][..., 0])


def _embed(config: ClassifierConfig, weights: Weights, inputs: Inputs, tap: Tap) -> Residual:
    embedded = tap("hook_embed", weights["embed.W_E"][..., inputs.tokens, :])
    if not config.has_positions:
        return embedded
    positions = weights["pos_embed.W_pos"][..., : inputs.tokens.shape[1], :]
    return embedded + tap("hook_pos_embed", positions.unsqueeze(-3).expand(embedded.shape))


def _attention(
    config: ClassifierConfig,
    weights: Weights,
    name: str,
    x: Residual,
    inputs: Inputs,
    tap: Tap,
    with_result: bool,
) -> Residual:
    q, k, v = (
        tap(
            f"{name}.hook_{part.lower()}",
            einsum("...bpd,...hdk->...bphk", x, weights[f"{name}.W_{part}"]),
        )
        for part in "QKV"
    )
    scores = einsum("...bqhk,...bjhk->...bhqj", q, k) / math.sqrt(config.d_head)
    if config.log_n:
        scores = scores * inputs.lengths.to(x.dtype).log()[:, None, None, None]
    log_multiplicity = inputs.multiplicity.log().to(x.dtype)
    scores = tap(f"{name}.hook_attn_scores", scores + log_multiplicity[:, None, None, :])
    pattern = tap(f"{name}.hook_pattern", scores.softmax(-1))
    z = tap(f"{name}.hook_z", einsum("...bhqj,...bjhk->...bqhk", pattern, v))
    if with_result:
        per_head = einsum("...bqhk,...hkd->...bqhd", z, weights[f"{name}.W_O"])
        return tap(f"{name}.hook_result", per_head).sum(-2)
    return einsum("...bqhk,...hkd->...bqd", z, weights[f"{name}.W_O"])


def _mlp(weights: Weights, name: str, x: Residual, tap: Tap) -> Residual:
    pre = tap(f"{name}.hook_pre", einsum("...bpd,...dm->...bpm", x, weights[f"{name}.W_in"]))
    post = tap(f"{name}.hook_post", functional.gelu(pre))
    return einsum("...bpm,...md->...bpd", post, weights[f"{name}.W_out"])


def _norm(config: ClassifierConfig, weights: Weights, name: str, x: Residual, tap: Tap) -> Residual:
    """RMS or LayerNorm, tapped as TransformerLens does: before the learned scale and shift."""
    if not config.has_norm:
        return x
    if config.norm == "layer":
        x = x - x.mean(-1, keepdim=True)
    scale = tap(f"{name}.hook_scale", (x.square().mean(-1, keepdim=True) + config.norm_eps).sqrt())
    x = tap(f"{name}.hook_normalized", x / scale) * weights[f"{name}.w"][..., None, None, :]
    return x + weights[f"{name}.b"][..., None, None, :] if config.norm == "layer" else x


def hook_names(config: ClassifierConfig, with_result: bool = True) -> list[str]:
    """Every activation `forward` taps for this configuration, in the order it taps them.

    Read off a one-string run on weights of the right shapes, so that no second list can disagree.
    """
    from tsc_interp.model.inputs import from_tokens

    names: list[str] = []

    def record(name: str, activation: Tensor) -> Tensor:
        names.append(name)
        return activation

    weights = {name: torch.zeros(shape) for name, shape in config.weight_shapes().items()}
    one_letter = torch.tensor([[0, 2]])
    forward(config, weights, from_tokens(config, one_letter), tap=record, with_result=with_result)
    return names
