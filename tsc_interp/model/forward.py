"""The definition of the classifier's arithmetic; CONTRIBUTING.md lists its other forms.

`forward` is a pure function of weights and inputs. It passes every named activation through `tap`,
which the hooked module sets to its hook points and everybody else leaves as the identity. Weights
may carry leading *ensemble* axes: every line is written for `...` in front, so eight hundred seeds
are one call, and activations then carry the same axes in front of `batch`.

The pieces are in `attention.py` and `layers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from tsc_interp.config import ClassifierConfig
from tsc_interp.model.attention import attention
from tsc_interp.model.inputs import Inputs, as_read, from_tokens
from tsc_interp.model.layers import (
    NO_EXTRAS,
    Extras,
    Pass,
    Residual,
    Tap,
    Weights,
    untapped,
)
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.trusted.positions import sinusoidal


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
    given = Pass(config, weights, tap, inputs=inputs, training=training, extras=extras)
    residual = blocks(given, embed(given), range(config.n_layers))
    return read_out(given, residual)


def embed(given: Pass) -> Residual:
    embedded = given.tap("hook_embed", given.weights["embed.W_E"][..., given.inputs.tokens, :])
    return embedded + _positions(given) if given.config.added_positions else embedded


def _positions(given: Pass) -> Tensor:
    batch, length = given.inputs.tokens.shape
    positions = position_table(given.config, given.weights)[..., :length, :]
    positions = repeat(positions, "... pos d_model -> ... batch pos d_model", batch=batch)
    return given.tap("hook_pos_embed", positions.clone())  # a hook may edit it in place


def position_table(config: ClassifierConfig, weights: Weights) -> Tensor:
    """`[n_positions d_model]`: what is added for a position, learned or sinusoidal."""
    if config.learned_positions:
        return weights["pos_embed.W_pos"]
    embedding = weights["embed.W_E"]
    table = torch.tensor(sinusoidal(config.n_positions, config.d_model))
    table = table.to(embedding.device, embedding.dtype)
    return table.expand(*embedding.shape[:-2], *table.shape)


def blocks(given: Pass, residual: Residual, layers: Sequence[int]) -> Residual:
    """Some layers, one after the other."""
    # What queries and keys read and the residual stream does not hold, if there is such a thing.
    asked_at = _positions(given) if given.config.positions == "shortformer" else None
    for layer in layers:
        residual = _block(given, f"blocks.{layer}", residual, asked_at)
    return residual


def _block(given: Pass, name: str, residual: Residual, asked_at: Tensor | None) -> Residual:
    """One layer, from `hook_resid_pre` to `hook_resid_post`."""
    config, tap = given.config, given.tap
    residual = tap(f"{name}.hook_resid_pre", residual)
    if config.has_attention:
        out = attention(given, name, residual, asked_at)
        out = given.norm(f"{name}.ln1_post.", out, kind=config.attention_norm)
        out = functional.dropout(out, config.dropout, given.training)
        residual = tap(f"{name}.hook_resid_mid", residual + tap(f"{name}.hook_attn_out", out))
    if config.has_mlp:
        read = residual
        if given.extras.hook_mlp_in:
            read = tap(f"{name}.hook_mlp_in", residual.clone())
        out = given.mlp(f"{name}.mlp.", given.norm(f"{name}.ln2.", read))
        out = functional.dropout(out, config.dropout, given.training)
        residual = residual + tap(f"{name}.hook_mlp_out", out)
    return tap(f"{name}.hook_resid_post", residual)


def read_out(given: Pass, residual: Residual) -> Tensor:
    """The logit: a linear reading of one position, CLS's. Several outputs have an axis behind."""
    config, weights, reading = given.config, given.weights, given.inputs.reading
    if config.final_norm:
        residual = given.norm("ln_final.", residual)
    if reading is None:
        read = residual[..., 0, :]
    else:
        read = residual[..., torch.arange(len(reading)), reading, :]
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
