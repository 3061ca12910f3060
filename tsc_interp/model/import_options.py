"""What a TransformerLens model is, as options of a `ClassifierConfig`.

What no form of the arithmetic here has is refused by its name, with the nearest thing that fits.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.interop import HAS_BRIDGE_ONLY, NORMS, weight_of
from tsc_interp.model.layers import ACTIVATIONS
from tsc_interp.model.unaltered import (
    require_activation,
    require_epsilon,
    require_equal_layers,
    require_fresh_tables,
    require_unaltered,
)

_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu",
    "gelu_new": "gelu_new", "gelu_fast": "gelu_new", "gelu_pytorch_tanh": "gelu_new",
}  # fmt: skip
_POSITIONS = (None, "standard", "none", "rotary", "alibi", "shortformer")
_MOST_POSITIONS = 65536
_UNSTRETCHED = "rotary positions that are not stretched"

# Option, the values that change nothing, and what could be done instead.
_NEUTRAL: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("parallel_attn_mlp", (None, False), "attention and MLP in turn"),
    ("use_local_attn", (None, False), "attention to every token before"),
    ("attn_scores_soft_cap", (None, -1.0, 0.0), "scores without a cap"),
    ("output_logits_soft_cap", (None, -1.0, 0.0), "logits without a cap"),
    ("num_experts", (None, 0), "one MLP"),
    ("post_embedding_ln", (None, False), "no norm after the embedding"),
    ("use_normalization_before_and_after", (None, False), "norms before each part only"),
    ("scale_attn_by_inverse_layer_idx", (None, False), "the same scale in every layer"),
    ("rmsnorm_uses_offset", (None, False), "a norm's scale as it is"),
    ("positional_embedding_type", _POSITIONS, "positions of a kind that is known, or none"),
    ("use_attention_sinks", (None, False), "attention to tokens only"),
    ("use_logn_attn", (None, False), "queries of one scale"),
    ("clip_qkv", (None,), "queries, keys and values as they are"),
    ("normalization_type", tuple(NORMS), f"{', '.join(filter(None, NORMS))} or None"),
)
_NEUTRAL_ROTARY: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("rope_scaling", (None,), _UNSTRETCHED),
    ("use_NTK_by_parts_rope", (None, False), _UNSTRETCHED),
    ("use_yarn_rope", (None, False), _UNSTRETCHED),
    ("use_dynamic_ntk_rope", (None, False), _UNSTRETCHED),
    ("rotary_scaling_factor", (None, 1.0), _UNSTRETCHED),
    ("rotary_base_local", (None,), _UNSTRETCHED),
    ("qk_norm_after_rope", (None, False), _UNSTRETCHED),
)


def model_options(model: Any) -> dict[str, Any]:
    """Return the options of a `ClassifierConfig` that a TransformerLens model has.

    Raises:
        UnsupportedError: The model has an option that no classifier here has, or its parts are not
            those its config names.
    """
    require_unaltered(model)
    cfg = model.cfg
    dtype = getattr(cfg, "dtype", torch.float32)
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise UnsupportedError(f"weights of {dtype} do not fit into float32; model.float() does")
    options = cfg_options(cfg)
    require_fresh_tables(model)  # of options that are known: a fresh model can be made
    ours, norm = exported_from(model), options["norm"]
    if norm in ("layer", "rms") and weight_of(model, "blocks.0.ln1.w") is None:
        norm += "_pre"  # folded into what follows
    final_norm = norm != "off" and (ours is None or ours.final_norm)
    if final_norm and norm.startswith("layer") and getattr(cfg, "final_rms", False):
        raise UnsupportedError(
            "this model has LayerNorms and a final RMS norm (final_rms); what can be imported "
            "has one kind of norm"
        )
    require_equal_layers(model.blocks)
    if norm != "off":
        require_epsilon(model, options["norm_eps"])
    if has_mlp := not getattr(cfg, "attn_only", False):
        require_activation(model, ACTIVATIONS[options["act_fn"]], str(cfg.act_fn))
    return {
        **options,
        "n_layers": cfg.n_layers,
        "d_model": cfg.d_model,
        "n_heads": cfg.n_heads,
        "d_head": cfg.d_head,
        "d_mlp": model.W_in.shape[-1] if has_mlp else 0,
        "n_positions": _n_positions(model, options["positions"]),
        "norm": norm,
        "final_norm": final_norm,
        "attend_cls": ours is None or ours.attend_cls,
    }


def cfg_options(cfg: Any) -> dict[str, Any]:
    """Return the options that a TransformerLens config alone decides, whatever the weights are."""
    _require_neutral(cfg, _NEUTRAL)
    positions = str(getattr(cfg, "positional_embedding_type", None) or "standard")
    has_mlp = not getattr(cfg, "attn_only", False)
    act_fn = str(getattr(cfg, "act_fn", None) or "gelu") if has_mlp else "gelu"
    if act_fn not in _ACTIVATIONS:
        raise UnsupportedError(
            f"the activation {act_fn!r}; what can be imported is {', '.join(_ACTIVATIONS)}"
        )
    shared = getattr(cfg, "n_key_value_heads", None)
    return {
        "norm": NORMS[getattr(cfg, "normalization_type", None)],
        "norm_eps": float(getattr(cfg, "eps", 1e-5)),
        "act_fn": _ACTIVATIONS[act_fn],
        "gated_mlp": has_mlp and bool(getattr(cfg, "gated_mlp", False)),
        "qk_norm": "rms" if getattr(cfg, "use_qk_norm", False) else "off",
        "n_key_value_heads": int(shared) if shared and shared != cfg.n_heads else 0,
        "attention_scale": _attention_scale(cfg),
        "positions": "learned" if positions in ("standard", "none") else positions,
        **(_rotary(cfg) if positions == "rotary" else {}),
    }


def is_causal(cfg: Any) -> bool:
    """Return whether a TransformerLens model's tokens see only themselves and what comes before."""
    return str(getattr(cfg, "attention_dir", None) or "causal") == "causal"


def exported_from(model: Any) -> ClassifierConfig | None:
    """Return the configuration `to_transformer_lens` made this model of, if it did."""
    inner = model if hasattr(model, "classifier_config") else getattr(model, "original_model", None)
    config = getattr(inner, "classifier_config", None)
    return config if isinstance(config, ClassifierConfig) else None


def _require_neutral(cfg: Any, options: tuple[tuple[str, tuple[Any, ...], str], ...]) -> None:
    for option, neutral, instead in options:
        value = getattr(cfg, option, None)
        if value not in neutral:
            raise UnsupportedError(
                f"this model has {option} = {value!r}, for which a classifier here has no place; "
                f"what can be imported has {instead}"
            )


def _rotary(cfg: Any) -> dict[str, Any]:
    _require_neutral(cfg, _NEUTRAL_ROTARY)
    width = int(getattr(cfg, "rotary_dim", None) or cfg.d_head)
    return {
        "rotary_dim": 0 if width == cfg.d_head else width,
        "rotary_base": float(cfg.rotary_base),
        # The native model of 4.x turns adjacent pairs whatever its config says.
        "rotary_adjacent_pairs": HAS_BRIDGE_ONLY or bool(cfg.rotary_adjacent_pairs),
    }


def _attention_scale(cfg: Any) -> float:
    """What scores are divided by; 0 where that is the root of d_head.

    A bridge without `use_attn_scale` divides by the root all the same; a HookedTransformer does not
    divide.
    """
    scale = float(getattr(cfg, "attn_scale", -1.0) or -1.0)
    if not getattr(cfg, "use_attn_scale", True):
        scale = -1.0 if HAS_BRIDGE_ONLY else 1.0
    return 0.0 if scale <= 0 or scale == math.sqrt(cfg.d_head) else scale


def _n_positions(model: Any, kind: str) -> int:
    """For how many tokens there are positions; 0 for a table of zeros, which adds nothing."""
    if kind in ("alibi", "rotary"):
        return min(int(getattr(model.cfg, "n_ctx", 0) or _MOST_POSITIONS), _MOST_POSITIONS)
    table = getattr(model, "W_pos", None)
    return 0 if table is None or not bool(table.any()) else int(table.shape[0])
