"""The classifier's arithmetic, written once.

`forward` is a pure function of weights and inputs. It passes every named activation through `tap`,
which the hooked module sets to its hook points and everybody else leaves as the identity. Weights
may carry leading *ensemble* axes: every line is written for `...` in front, so eight hundred seeds
are one call, and activations then carry the same axes in front of `batch`.

Attention with multiplicities: key j gets weight m_j exp(s_j) / sum_i m_i exp(s_i). In log space
that is log m added to the scores, with log 0 = -inf, which is what `hook_attn_scores` shows. Causal
attention adds -inf where a key comes after its query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from tsc_interp.config import ClassifierConfig
from tsc_interp.model.inputs import Inputs, from_tokens, token_rows
from tsc_interp.model.positions import sinusoidal

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


def forward(
    config: ClassifierConfig,
    weights: Weights,
    inputs: Inputs,
    *,
    tap: Tap = untapped,
    training: bool = False,
    extras: Extras = NO_EXTRAS,
) -> Tensor:
    """The logit of every string: `[..., batch]`, the dots being the weights' ensemble axes.

    `[..., batch, output]` where there are several outputs.
    """
    residual = embed(config, weights, inputs, tap)
    for layer in range(config.n_layers):
        residual = block(config, weights, layer, residual, inputs, tap, training, extras)
    return read_out(config, weights, residual, inputs, tap)


def embed(config: ClassifierConfig, weights: Weights, inputs: Inputs, tap: Tap) -> Residual:
    embedded = tap("hook_embed", weights["embed.W_E"][..., inputs.tokens, :])
    if not config.has_positions:
        return embedded
    positions = position_table(config, weights)[..., : inputs.tokens.shape[1], :]
    batch = inputs.tokens.shape[0]
    positions = repeat(positions, "... pos d_model -> ... batch pos d_model", batch=batch)
    return embedded + tap("hook_pos_embed", positions.clone())  # a hook may edit it in place


def position_table(config: ClassifierConfig, weights: Weights) -> Tensor:
    if config.positions == "learned":
        return weights["pos_embed.W_pos"]
    embedding = weights["embed.W_E"]
    table = torch.tensor(sinusoidal(config.n_positions, config.d_model))
    table = table.to(embedding.device, embedding.dtype)
    return table.expand(*embedding.shape[:-2], *table.shape)


def block(
    config: ClassifierConfig,
    weights: Weights,
    layer: int,
    residual: Residual,
    inputs: Inputs,
    tap: Tap,
    training: bool,
    extras: Extras,
) -> Residual:
    """One layer, from `hook_resid_pre` to `hook_resid_post`."""
    name = f"blocks.{layer}"
    residual = tap(f"{name}.hook_resid_pre", residual)
    if config.has_attention:
        reads = _attention_inputs(config, weights, name, residual, tap, extras)
        out = _attention(config, weights, f"{name}.attn.", reads, inputs, tap, extras)
        out = norm(config, weights, f"{name}.ln1_post.", out, tap, kind=config.attention_norm)
        out = functional.dropout(out, config.dropout, training)
        residual = tap(f"{name}.hook_resid_mid", residual + tap(f"{name}.hook_attn_out", out))
    if config.has_mlp:
        read = tap(f"{name}.hook_mlp_in", residual.clone()) if extras.hook_mlp_in else residual
        read = norm(config, weights, f"{name}.ln2.", read, tap)
        out = mlp(config, weights, f"{name}.mlp.", read, tap)
        out = functional.dropout(out, config.dropout, training)
        residual = residual + tap(f"{name}.hook_mlp_out", out)
    return tap(f"{name}.hook_resid_post", residual)


def read_out(
    config: ClassifierConfig, weights: Weights, residual: Residual, inputs: Inputs, tap: Tap
) -> Tensor:
    """The logit: a linear reading of one position, CLS's. Several outputs have an axis behind."""
    if config.final_norm:
        residual = norm(config, weights, "ln_final.", residual, tap)
    if inputs.reading is None:
        read = residual[..., 0, :]
    else:
        read = residual[..., torch.arange(len(inputs.reading)), inputs.reading, :]
    if config.n_outputs == 1:
        direction = weights["unembed.W_U"][..., 0]
        logit = einsum(read, direction, "... batch d_model, ... d_model -> ... batch")
        return logit + weights["unembed.b_U"] if config.biases else logit
    outputs = "... batch d_model, ... d_model out -> ... batch out"
    logits = einsum(read, weights["unembed.W_U"], outputs)
    if config.biases:
        logits = logits + rearrange(weights["unembed.b_U"], "... out -> ... 1 out")
    return logits


def unembed(weights: Weights, residual: Float[Tensor, "... d_model"]) -> Float[Tensor, "... out"]:
    """The same reading of every position, as TransformerLens's models make it."""
    direction, bias = weights["W_U"], weights.get("b_U")
    if direction.ndim == 2:  # one model: whatever stands in front of d_model
        read = einsum(residual, direction, "... d_model, d_model out -> ... out")
        return read if bias is None else read + bias
    pattern = "... batch pos d_model, ... d_model out -> ... batch pos out"
    read = einsum(residual, direction, pattern)
    return read if bias is None else read + rearrange(bias, "... out -> ... 1 1 out")


def _attention_inputs(
    config: ClassifierConfig, weights: Weights, name: str, x: Residual, tap: Tap, extras: Extras
) -> list[Tensor]:
    """What queries, keys and values are read from: one tensor, or with extras one for each.

    With extras they have a head axis, so that a hook can change what a single head reads.
    """
    if not extras.per_head_input:
        return [norm(config, weights, f"{name}.ln1.", x, tap)] * 3
    x = repeat(x, "... batch pos d_model -> ... batch pos head d_model", head=config.n_heads)
    if extras.attn_in:
        x = tap(f"{name}.hook_attn_in", x.clone())
    if not extras.split_qkv_input:
        return [norm(config, weights, f"{name}.ln1.", x, tap, per_head=True)] * 3
    parts = [tap(f"{name}.hook_{part}_input", x.clone()) for part in "qkv"]
    return [norm(config, weights, f"{name}.ln1.", part, tap, per_head=True) for part in parts]


def _attention(
    config: ClassifierConfig,
    weights: Weights,
    name: str,
    reads: list[Tensor],
    inputs: Inputs,
    tap: Tap,
    extras: Extras,
) -> Residual:
    axes = "... batch pos head d_model" if extras.per_head_input else "... batch pos d_model"
    projection = f"{axes}, ... head d_model d_head -> ... batch pos head d_head"
    q, k, v = (
        tap(
            f"{name}hook_{part.lower()}",
            _biased(
                config,
                einsum(x, weights[f"{name}W_{part}"], projection),
                weights,
                f"{name}b_{part}",
                "... head d_head -> ... 1 1 head d_head",
            ),
        )
        for part, x in zip("QKV", reads, strict=True)
    )
    scores = einsum(
        q, k, "... batch query head d_head, ... batch key head d_head -> ... batch head query key"
    ) / math.sqrt(config.d_head)
    if config.ssmax:
        factor = weights[f"{name}log_n_factor"]
        scores = scores * rearrange(factor, "... head -> ... 1 head 1 1")
    if config.log_n:
        log_n = (inputs.lengths + config.cls_counted).to(scores.dtype).log()
        scores = scores * rearrange(log_n, "batch -> batch 1 1 1")
    log_multiplicity = inputs.multiplicity.log().to(scores.dtype)
    log_multiplicity = rearrange(log_multiplicity, "batch key -> batch 1 1 key")
    if config.adaptive_temperature:
        scores = scores * inverse_temperature(scores, log_multiplicity)
    scores = scores + log_multiplicity
    if inputs.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    pattern = tap(f"{name}hook_pattern", tap(f"{name}hook_attn_scores", scores).softmax(-1))
    z = einsum(
        pattern,
        v,
        "... batch head query key, ... batch key head d_head -> ... batch query head d_head",
    )
    z, output = tap(f"{name}hook_z", z), weights[f"{name}W_O"]
    axes = "... batch query head d_head, ... head d_head d_model -> ... batch query"
    if extras.attn_result:
        out = tap(f"{name}hook_result", einsum(z, output, f"{axes} head d_model")).sum(-2)
    else:
        out = einsum(z, output, f"{axes} d_model")
    return _biased(config, out, weights, f"{name}b_O", _PER_POSITION)


def inverse_temperature(scores: Tensor, log_multiplicity: Tensor) -> Tensor:
    """What "Softmax is not enough" (2410.01104) multiplies scores by: a polynomial of entropy.

    The entropy is that of the attention the scores would give, over single tokens: each of m copies
    has an m-th of its letter's weight. The factor is never below 1, and 1 where the entropy is
    below 0.5; since the polynomial falls in the end, it is 1 again above an entropy of about 5.9.
    """
    weights = (scores + log_multiplicity).softmax(-1)
    # One copy's log weight; finite where a key is masked, whose weight is 0.
    single = weights.clamp(min=torch.finfo(scores.dtype).tiny).log()
    single = single - log_multiplicity.nan_to_num(neginf=0.0)
    entropy = -(weights * single).sum(-1, keepdim=True)
    factor = torch.zeros_like(entropy)
    for coefficient in _TEMPERATURE:
        factor = factor * entropy + coefficient
    return torch.where(entropy > 0.5, factor.clamp(min=1.0), torch.ones_like(factor))


_TEMPERATURE = (-0.037, 0.481, -2.3, 4.917, -1.791)


def mlp(config: ClassifierConfig, weights: Weights, name: str, x: Residual, tap: Tap) -> Residual:
    into = "... batch pos d_model, ... d_model d_mlp -> ... batch pos d_mlp"
    out = "... batch pos d_mlp, ... d_mlp d_model -> ... batch pos d_model"
    pre = einsum(x, weights[f"{name}W_in"], into)
    pre = tap(f"{name}hook_pre", _biased(config, pre, weights, f"{name}b_in", _PER_POSITION))
    post = tap(f"{name}hook_post", _ACTIVATIONS[config.act_fn](pre))
    written = einsum(post, weights[f"{name}W_out"], out)
    return _biased(config, written, weights, f"{name}b_out", _PER_POSITION)


def _biased(
    config: ClassifierConfig, x: Tensor, weights: Weights, name: str, pattern: str
) -> Tensor:
    return x + rearrange(weights[name], pattern) if config.biases else x


_PER_POSITION = "... channel -> ... 1 1 channel"
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
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


def hook_names(
    config: ClassifierConfig,
    extras: Extras = Extras(attn_result=True),  # noqa: B008 - frozen
) -> list[str]:
    """Every activation `forward` taps for this configuration, in the order it taps them.

    Read off a one-string run on weights of the right shapes, so that no second list can disagree.
    """
    names: dict[str, None] = {}  # a norm before split inputs is tapped once for each of them

    def record(name: str, activation: Tensor) -> Tensor:
        names[name] = None
        return activation

    weights = {name: torch.zeros(shape) for name, shape in config.weight_shapes().items()}
    one_letter = from_tokens(config, torch.from_numpy(token_rows(config, ["a"])))
    forward(config, weights, one_letter, tap=record, extras=extras)
    return list(names)
