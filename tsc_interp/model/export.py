"""To TransformerLens: its config, and its own model classes.

4.x has `TransformerBridge`, 3.x `HookedTransformer`. Both take token ids and return logits
`[batch pos output]`, of which ours stand where the classifier reads: at position 0, or at the last
token of a causal model. One output becomes two, minus and plus half of it: their difference is our
logit, and it survives TransformerLens's centring of the unembedding, which a single column does
not. Several outputs stay as they are.

Neither class knows which tokens are not attended to, PAD and sometimes CLS, so the exported model
is a subclass that reads it off the tokens (`exported_bridge.py`, `exported_hooked.py`). What cannot
be exported is refused with the reason, never approximated.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import torch
from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.circuits import Circuits
from tsc_interp.model.interop import HAS_BRIDGE_ONLY, NORMS

_N_CTX = 256
"""The context that `cfg` states for a model without positions, which has none."""


def beyond_transformer_lens(config: ClassifierConfig) -> tuple[str, ...]:
    """Why no model that TransformerLens itself builds from our config computes our logits.

    Empty when one does, for strings of one length: PAD, which it would attend to, is a matter of
    the input. `to_transformer_lens` mends what can be mended.
    """
    reasons = {
        **_beyond_export(config),
        "it has no models without positions": not config.has_positions,
        "it attends to every token, CLS too": config.has_attention and not config.attend_cls,
        "its models with norms have one before the read-out": config.has_norm
        and not config.final_norm,
    }
    return tuple(reason for reason, applies in reasons.items() if applies)


def _beyond_export(config: ClassifierConfig) -> dict[str, bool]:
    attends = config.has_attention
    return {
        "every block of its models has attention": not attends,
        "it has no attention scores that grow with log n": config.log_n,
        "it has no adaptive temperature": attends and config.adaptive_temperature,
        "none of its models has a norm after attention alone": attends
        and config.attention_norm != "off",
        **(_beyond_bridge(config) if HAS_BRIDGE_ONLY else {}),
    }


def _beyond_bridge(config: ClassifierConfig) -> dict[str, bool]:
    """What TransformerLens 4's native model has no place for, and a HookedTransformer (3.x) has."""
    rotary = config.positions == "rotary"
    unscaled = config.attention_scale == 1.0 and config.d_head > 1
    return {
        f"version 4 builds no models with {config.positions} positions": config.positions
        in ("alibi", "shortformer"),
        "version 4 turns adjacent pairs only (rotary_adjacent_pairs)": rotary
        and not config.rotary_adjacent_pairs,
        "version 4 rounds rotary_base to a whole number": rotary
        and config.rotary_base != int(config.rotary_base),
        "version 4 builds no models with norms of queries and keys": config.qk_norm != "off",
        "version 4 refuses scores that are divided by 1": unscaled,
        "version 4 builds gated MLPs without biases only": config.gated_mlp and config.biases,
    }


def transformer_lens_config(config: ClassifierConfig) -> Any:
    """The TransformerLens config of this classifier: what `model.cfg` holds."""
    cfg = _buildable_config(config, _N_CTX)
    if not config.has_positions:
        cfg.positional_embedding_type = "none"
    cfg.n_params = sum(
        math.prod(shape)
        for name, shape in config.weight_shapes().items()
        if ".attn." in name or ".mlp." in name
    )
    cfg.beyond_transformer_lens = beyond_transformer_lens(config)
    return cfg


def _buildable_config(config: ClassifierConfig, n_ctx: int, **options: Any) -> Any:
    """The same with a position table, without which TransformerLens builds no such model."""
    if HAS_BRIDGE_ONLY:
        from transformer_lens import TransformerBridgeConfig as Config
    else:
        from transformer_lens import HookedTransformerConfig as Config
    # TransformerLens reads d_mlp 0 as "unset"; attn_only says there is no MLP.
    positions = "standard" if config.positions in ("learned", "sinusoidal") else config.positions
    sizes: dict[str, Any] = {"d_mlp": config.d_mlp} if config.has_mlp else {"attn_only": True}
    if config.grouped:
        sizes["n_key_value_heads"] = config.kv_heads
    if config.positions == "rotary":
        sizes["rotary_dim"] = config.turned
        sizes["rotary_base"] = config.rotary_base
        sizes["rotary_adjacent_pairs"] = config.rotary_adjacent_pairs
    if config.attention_scale:
        sizes["attn_scale"] = config.attention_scale
    return Config(
        **{
            "d_model": config.d_model,
            "d_head": config.d_head,
            "n_heads": config.n_heads,
            "n_layers": config.n_layers,
            "n_ctx": config.n_positions or n_ctx,
            "d_vocab": config.alphabet.vocab_size,
            "d_vocab_out": config.n_outputs,
            "act_fn": config.act_fn,
            "normalization_type": next(kind for kind, norm in NORMS.items() if norm == config.norm),
            "eps": config.norm_eps,
            "positional_embedding_type": positions,
            "gated_mlp": config.gated_mlp,
            "use_qk_norm": config.qk_norm != "off",
            "attention_dir": "causal" if config.causal else "bidirectional",
            "init_weights": False,
            "device": "cpu",
            **sizes,
            **options,
        }
    )


def export(model: Circuits, n_ctx: int) -> Any:
    """A TransformerLens model with the same logits (where ours reads) and activations."""
    config = model.config
    reasons = {"an ensemble is many models": bool(model.ensemble_shape), **_beyond_export(config)}
    for reason, applies in reasons.items():
        if applies:
            raise UnsupportedError(
                f"this classifier cannot be exported to TransformerLens: {reason}"
            )
    cfg = _buildable_config(
        config,
        n_ctx,
        d_vocab_out=max(config.n_outputs, 2),
        # Without a final norm nothing centres what is read out, which this tells TransformerLens's
        # weight processing and caches; `ln_final` itself is the identity then.
        final_rms=config.has_norm and not config.final_norm,
    )
    if HAS_BRIDGE_ONLY:
        from tsc_interp.model.exported_bridge import bridge

        return bridge(config, cfg, _tl_state(model, cfg))
    from tsc_interp.model.exported_hooked import hooked_transformer

    return hooked_transformer(config, cfg, _tl_state(model, cfg))


def _tl_state(model: Circuits, cfg: Any) -> dict[str, Tensor]:
    """Every weight of a TransformerLens model under HookedTransformer's names."""
    config = model.config
    state = {name: weight.detach().clone() for name, weight in model.tl_parameters().items()}
    state["unembed.W_U"] = model.W_U.detach().clone()
    if config.positions == "rotary":
        del state["pos_embed.W_pos"]
    elif not config.has_positions:
        state["pos_embed.W_pos"] = torch.zeros(cfg.n_ctx, cfg.d_model)
    if config.gated_mlp and HAS_BRIDGE_ONLY:  # whose gated MLPs have no biases
        state = {name: w for name, w in state.items() if not name.endswith(("b_in", "b_out"))}
    if config.qk_norm == "rms_pre":
        for layer, part in product(range(config.n_layers), "qk"):
            state[f"blocks.{layer}.attn.{part}_norm.w"] = torch.ones(config.d_head)
    if config.n_outputs == 1:
        for name in ("unembed.W_U", "unembed.b_U"):
            half = state[name] / 2
            state[name] = torch.cat([-half, half], dim=-1)
    return state
