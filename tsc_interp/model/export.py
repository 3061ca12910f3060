"""To TransformerLens: its config, and its own model class, the `TransformerBridge` of 4.x.

A bridge takes token ids and returns logits `[batch pos output]`, of which ours stand where the
classifier reads: at position 0, or at the last token of a causal model. One output becomes two,
minus and plus half of it: their difference is our logit, and it survives TransformerLens's centring
of the unembedding, which a single column does not. Several outputs stay as they are.

A bridge does not know which tokens are not attended to, PAD and sometimes CLS, so the exported
model is a subclass that reads it off the tokens (`exported_bridge.py`). What cannot be exported is
refused with the reason, never approximated.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.circuits import Circuits
from tsc_interp.model.interop import HAS_BRIDGE_ONLY, NORMS

_LAST_TO_3 = "7fc0354"
_N_CTX = 256
"""The context that `cfg` states for a model without positions, which has none."""


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
    if not HAS_BRIDGE_ONLY:
        raise UnsupportedError(
            "a classifier is exported to TransformerLens 4, and an older one is installed (the "
            f"last that exported to TransformerLens 3 is commit {_LAST_TO_3} of tsc-interp)"
        )
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
    from tsc_interp.model.exported_bridge import bridge

    return bridge(config, cfg, _tl_state(model, cfg))


def _beyond_export(config: ClassifierConfig) -> dict[str, bool]:
    attends, rotary = config.has_attention, config.positions == "rotary"
    return {
        "every block of its models has attention": not attends,
        "it has no attention scores that grow with log n": config.log_n,
        "it has no adaptive temperature": attends and config.adaptive_temperature,
        "none of its models has a norm after attention alone": attends
        and config.attention_norm != "off",
        f"it builds no models with {config.positions} positions": config.positions
        in ("alibi", "shortformer"),
        "it turns adjacent pairs only (rotary_adjacent_pairs)": rotary
        and not config.rotary_adjacent_pairs,
        "it rounds rotary_base to a whole number": rotary
        and config.rotary_base != int(config.rotary_base),
        "it builds no models with norms of queries and keys": config.qk_norm != "off",
        "it refuses scores that are divided by 1": config.attention_scale == 1.0
        and config.d_head > 1,
        "it builds gated MLPs without biases only": config.gated_mlp and config.biases,
    }


def _tl_state(model: Circuits, cfg: Any) -> dict[str, Tensor]:
    """Every weight of a TransformerLens model under HookedTransformer's names."""
    config = model.config
    state = {name: weight.detach().clone() for name, weight in model.tl_parameters().items()}
    state["unembed.W_U"] = model.W_U.detach().clone()
    if config.positions == "rotary":
        del state["pos_embed.W_pos"]
    elif not config.has_positions:
        state["pos_embed.W_pos"] = torch.zeros(cfg.n_ctx, cfg.d_model)
    if config.gated_mlp:  # which has no biases there
        state = {name: w for name, w in state.items() if not name.endswith(("b_in", "b_out"))}
    if config.n_outputs == 1:
        for name in ("unembed.W_U", "unembed.b_U"):
            half = state[name] / 2
            state[name] = torch.cat([-half, half], dim=-1)
    return state
