"""What TransformerLens models have besides plain attention and a plain MLP, as our options."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.interop import HAS_BRIDGE_ONLY

_MOST_POSITIONS = 65536

# Ways to stretch rotary positions, and the values that leave them alone.
_STRETCHED: dict[str, tuple[Any, ...]] = {
    "rope_scaling": (None,),
    "use_NTK_by_parts_rope": (None, False),
    "use_yarn_rope": (None, False),
    "use_dynamic_ntk_rope": (None, False),
    "rotary_scaling_factor": (None, 1.0),
    "rotary_base_local": (None,),
    "qk_norm_after_rope": (None, False),
}


def family_options(model: Any, cfg: Any) -> dict[str, Any]:
    """Options of a `ClassifierConfig`, of those whose weights are read by `family_weights`."""
    options: dict[str, Any] = {**_positions(model, cfg), **_scale(cfg)}
    shared = getattr(cfg, "n_key_value_heads", None)
    if shared and shared != cfg.n_heads:
        options["n_key_value_heads"] = int(shared)
    if getattr(cfg, "use_qk_norm", False):
        options["qk_norm"] = "rms"
    if getattr(cfg, "gated_mlp", False) and not getattr(cfg, "attn_only", False):
        options["gated_mlp"] = True
    return options


def _positions(model: Any, cfg: Any) -> dict[str, Any]:
    kind = str(getattr(cfg, "positional_embedding_type", None) or "standard")
    room = min(int(getattr(cfg, "n_ctx", 0) or _MOST_POSITIONS), _MOST_POSITIONS)
    if kind == "alibi":
        return {"positions": kind, "n_positions": room}
    if kind == "rotary":
        return {"positions": kind, "n_positions": room, **_rotary(cfg)}
    table = getattr(model, "W_pos", None)
    if table is None or not bool(table.any()):
        return {"n_positions": 0}
    added = {"positions": kind} if kind == "shortformer" else {}
    return {"n_positions": table.shape[0], **added}


def _rotary(cfg: Any) -> dict[str, Any]:
    for option, neutral in _STRETCHED.items():
        value = getattr(cfg, option, None)
        if value not in neutral:
            raise UnsupportedError(
                f"this model has {option} = {value!r}, for which a classifier here has no place; "
                "what can be imported has rotary positions that are not stretched"
            )
    width = int(getattr(cfg, "rotary_dim", None) or cfg.d_head)
    return {
        "rotary_dim": 0 if width == cfg.d_head else width,
        "rotary_base": float(cfg.rotary_base),
        # The native model of 4.x turns adjacent pairs whatever its config says.
        "rotary_adjacent_pairs": HAS_BRIDGE_ONLY or bool(cfg.rotary_adjacent_pairs),
    }


def _scale(cfg: Any) -> dict[str, Any]:
    """What scores are divided by, where that is not the root of d_head.

    A bridge without `use_attn_scale` divides by the root all the same; a HookedTransformer does not
    divide.
    """
    given = float(getattr(cfg, "attn_scale", -1.0) or -1.0)
    if not getattr(cfg, "use_attn_scale", True):
        given = -1.0 if HAS_BRIDGE_ONLY else 1.0
    usual = given <= 0 or given == math.sqrt(cfg.d_head)
    return {} if usual else {"attention_scale": given}


def family_weights(model: Any, config: ClassifierConfig, layer: int) -> dict[str, Tensor]:
    """Keys, values, gates and norms of queries and keys of one layer."""
    block, state = f"blocks.{layer}", model.state_dict()
    weights: dict[str, Tensor] = {}
    for name in ("W_K", "W_V", "b_K", "b_V"):
        held = getattr(model, name)[layer]
        # One per group, of which TransformerLens may show a copy for every head.
        weights[f"{block}.attn.{name}"] = held[:: len(held) // config.kv_heads]
    if config.qk_norm == "rms":
        for part in ("q_norm", "k_norm"):
            weights[f"{block}.attn.{part}.w"] = _there(
                state.get(f"{block}.attn.{part}.w"), f"use_qk_norm, but no {part}"
            )
    if config.has_mlp:
        for name in ("W_in", "W_out", *(["W_gate"] if config.gated_mlp else [])):
            held = _there(getattr(model, name, None), f"gated_mlp, but no {name}")
            weights[f"{block}.mlp.{name}"] = held[layer]
        bare = config.gated_mlp and HAS_BRIDGE_ONLY  # whose gated MLPs have no biases
        for name, width in (("b_in", config.d_mlp), ("b_out", config.d_model)):
            bias = torch.zeros(width) if bare else getattr(model, name)[layer]
            weights[f"{block}.mlp.{name}"] = bias
    return weights


def _there(weight: Tensor | None, words: str) -> Tensor:
    if weight is None:
        raise UnsupportedError(f"the model's configuration has {words}: it is not of that model")
    return weight
