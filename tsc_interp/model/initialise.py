"""The source report's initial weights, draw for draw, from a model seed.

Order: embedding (standard normal); per layer query, key, value, attention output, MLP in, MLP out
as torch Linear layers without bias; the read-out; then the strategies that redraw: embedding, (PAD
row to zero), attention output, MLP out. What the source does not have is drawn after all that, so
that it changes nothing else: learned positions, standard normal; gates, as MLP in. Norms start as
scale 1, shift 0, biases as 0; several outputs are drawn where the one would be. Heads that share
keys and values draw one of each per group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from einops import rearrange
from torch import Generator, Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import PAD


def initial_weights(config: ClassifierConfig, seed: int) -> dict[str, Tensor]:
    """Freshly initialised float32 weights. The global random state is left alone."""
    return _arranged(config, _drawn(config, seed))


def initial_ensemble(config: ClassifierConfig, seeds: Sequence[int]) -> dict[str, Tensor]:
    """The same for many seeds, along a leading axis: drawn one by one, arranged together."""
    return _arranged(config, stack_weights([_drawn(config, seed) for seed in seeds]), len(seeds))


def _drawn(config: ClassifierConfig, seed: int) -> dict[str, Tensor]:
    """Every random weight as a Linear layer has it, out x in, in the order they are drawn."""
    # A CPU generator seeded so draws what torch.manual_seed and the global generator would.
    generator = torch.Generator().manual_seed(seed)
    d, attention_width = config.d_model, config.n_heads * config.d_head
    drawn: dict[str, Tensor] = {}
    drawn["embed.W_E"] = torch.randn(config.alphabet.vocab_size, d, generator=generator)
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        if config.has_attention:
            for part in "QKV":
                heads = config.n_heads if part == "Q" else config.kv_heads
                drawn[f"{block}.attn.W_{part}"] = _linear(heads * config.d_head, d, generator)
            drawn[f"{block}.attn.W_O"] = _linear(d, attention_width, generator)
        if config.has_mlp:
            drawn[f"{block}.mlp.W_in"] = _linear(config.d_mlp, d, generator)
            drawn[f"{block}.mlp.W_out"] = _linear(d, config.d_mlp, generator)
    drawn["unembed.W_U"] = _linear(config.n_outputs, d, generator)

    if config.embedding_init == "linear_like":
        drawn["embed.W_E"] = _linear(config.alphabet.vocab_size, d, generator)
    drawn["embed.W_E"][PAD] = 0.0
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        if config.attention_init == "output_fan_out" and config.has_attention:
            drawn[f"{block}.attn.W_O"] = _linear(d, attention_width, generator, fan_out=True)
        if config.mlp_init == "output_fan_out" and config.has_mlp:
            drawn[f"{block}.mlp.W_out"] = _linear(d, config.d_mlp, generator, fan_out=True)
    if config.learned_positions:
        drawn["pos_embed.W_pos"] = torch.randn(config.n_positions, d, generator=generator)
    if config.gated_mlp:
        for layer in range(config.n_layers):
            drawn[f"blocks.{layer}.mlp.W_gate"] = _linear(config.d_mlp, d, generator)
    return drawn


def stack_weights(many: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Weights of equal shapes as one ensemble: a leading axis in front of every tensor."""
    return {name: torch.stack([weights[name] for weights in many]) for name in many[0]}


def _linear(out: int, into: int, generator: Generator, fan_out: bool = False) -> Tensor:
    """torch's Linear default, out x in: Kaiming uniform with a = sqrt 5, bounds 1 / sqrt(fan)."""
    # gain / sqrt(fan) * sqrt 3 with gain = sqrt(2 / (1 + 5)), evaluated in torch's own order.
    deviation = math.sqrt(2.0 / (1 + math.sqrt(5) ** 2)) / math.sqrt(out if fan_out else into)
    bound = math.sqrt(3.0) * deviation
    return torch.empty(out, into).uniform_(-bound, bound, generator=generator)


def _arranged(
    config: ClassifierConfig, drawn: dict[str, Tensor], *ensemble: int
) -> dict[str, Tensor]:
    """In HookedTransformer's layout, with what is not random: norms start as ones and zeros."""
    arranged = {}
    for name, shape in config.weight_shapes().items():
        if name in drawn:
            arranged[name] = linear_to_hooked(name, drawn[name], shape)
        else:
            fill = 1.0 if name.endswith((".w", ".log_n_factor")) else 0.0
            arranged[name] = torch.full((*ensemble, *shape), fill)
    return arranged


def linear_to_hooked(name: str, weight: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Heads are consecutive blocks of `d_head` rows (columns, for the output)."""
    kind = name.rsplit(".", 1)[1]
    if kind in ("W_E", "W_pos"):
        return weight
    if kind in ("W_Q", "W_K", "W_V"):
        pattern = "... (head d_head) d_model -> ... head d_model d_head"
        return rearrange(weight, pattern, head=shape[0]).contiguous()
    if kind == "W_O":
        pattern = "... d_model (head d_head) -> ... head d_head d_model"
        return rearrange(weight, pattern, head=shape[0]).contiguous()
    return rearrange(weight, "... out into -> ... into out").contiguous()
