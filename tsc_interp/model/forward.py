"""The definition of the classifier's arithmetic; CONTRIBUTING.md lists its other forms.

`forward` is a pure function of weights and inputs. It passes every named activation through `tap`,
which the hooked module sets to its hook points and everybody else leaves as the identity. Weights
may carry leading *ensemble* axes: every line is written for `...` in front, so eight hundred seeds
are one call, and activations then carry the same axes in front of `batch`.

The pieces are in `attention.py` and `layers.py`.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from tsc_interp.config import ClassifierConfig
from tsc_interp.model.attention import attention
from tsc_interp.model.inputs import Inputs, as_read, from_tokens
from tsc_interp.model.layers import NO_EXTRAS, Extras, Residual, Tap, Weights, mlp, norm, untapped
from tsc_interp.model.positions import sinusoidal
from tsc_interp.strings import FIRST_LETTER


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
    asked_at = shortformer(config, weights, inputs, tap)
    for layer in range(config.n_layers):
        residual = block(config, weights, layer, residual, inputs, tap, training, extras, asked_at)
    return read_out(config, weights, residual, inputs, tap)


def embed(config: ClassifierConfig, weights: Weights, inputs: Inputs, tap: Tap) -> Residual:
    embedded = tap("hook_embed", weights["embed.W_E"][..., inputs.tokens, :])
    if not config.added_positions:
        return embedded
    return embedded + _positions(config, weights, inputs, tap)


def shortformer(
    config: ClassifierConfig, weights: Weights, inputs: Inputs, tap: Tap
) -> Tensor | None:
    """Positions that queries and keys read and the residual stream does not hold, if there are."""
    if config.positions != "shortformer":
        return None
    return _positions(config, weights, inputs, tap)


def _positions(config: ClassifierConfig, weights: Weights, inputs: Inputs, tap: Tap) -> Tensor:
    positions = position_table(config, weights)[..., : inputs.tokens.shape[1], :]
    batch = inputs.tokens.shape[0]
    positions = repeat(positions, "... pos d_model -> ... batch pos d_model", batch=batch)
    return tap("hook_pos_embed", positions.clone())  # a hook may edit it in place


def position_table(config: ClassifierConfig, weights: Weights) -> Tensor:
    """`[n_positions d_model]`: what is added for a position, learned or sinusoidal."""
    if config.learned_positions:
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
    asked_at: Tensor | None = None,
) -> Residual:
    """One layer, from `hook_resid_pre` to `hook_resid_post`; `asked_at` is `shortformer`'s."""
    name = f"blocks.{layer}"
    residual = tap(f"{name}.hook_resid_pre", residual)
    if config.has_attention:
        out = attention(config, weights, name, residual, inputs, tap, extras, asked_at)
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
    columns = unembedding(config, weights)
    if config.n_outputs == 1:
        direction = columns[..., 0]
        logit = einsum(read, direction, "... batch d_model, ... d_model -> ... batch")
        return logit + weights["unembed.b_U"] if config.biases else logit
    outputs = "... batch d_model, ... d_model out -> ... batch out"
    logits = einsum(read, columns, outputs)
    if config.biases:
        logits = logits + rearrange(weights["unembed.b_U"], "... out -> ... 1 out")
    return logits


def unembedding(config: ClassifierConfig, weights: Weights) -> Float[Tensor, "... d_model out"]:
    """`W_U`, or the letters' embeddings where they are tied."""
    if not config.tied_embeddings:
        return weights["unembed.W_U"]
    return weights["embed.W_E"][..., FIRST_LETTER:, :].transpose(-1, -2)


def unembed(weights: Weights, residual: Float[Tensor, "... d_model"]) -> Float[Tensor, "... out"]:
    """The same reading of every position, as TransformerLens's models make it."""
    direction, bias = weights["W_U"], weights.get("b_U")
    if direction.ndim == 2:  # one model: whatever stands in front of d_model
        read = einsum(residual, direction, "... d_model, d_model out -> ... out")
        return read if bias is None else read + bias
    pattern = "... batch pos d_model, ... d_model out -> ... batch pos out"
    read = einsum(residual, direction, pattern)
    return read if bias is None else read + rearrange(bias, "... out -> ... 1 1 out")


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

    if config.grouped:
        extras = replace(extras, attn_in=False)  # refused there
    weights = {name: torch.zeros(shape) for name, shape in config.weight_shapes().items()}
    one_letter = from_tokens(
        config, torch.from_numpy(as_read(config, config.alphabet.tokens(["a"])))
    )
    forward(config, weights, one_letter, tap=record, extras=extras)
    return list(names)
