"""What comes from TransformerLens: which version it is, and its state-dict keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError

# 4.0 removed HookedTransformer, and merely asking for the name raises there.
HAS_BRIDGE_ONLY = int(version("transformer-lens").split(".")[0]) >= 4


NORMS = {None: "off", "LN": "layer", "LNPre": "layer_pre", "RMS": "rms", "RMSPre": "rms_pre"}
"""Our norms by TransformerLens's names."""

# Without positions here, theirs have to be a table, which may be zero, or none.
_NO_POSITIONS = {"standard": "standard", "none": "none"}


def untangle_state_dict(
    config: ClassifierConfig, state: Mapping[str, Tensor], cfg: Any
) -> dict[str, Tensor]:
    """Our weights out of a HookedTransformer-style state dict.

    HookedTransformer also stores biases, a position table and mask buffers. Where this classifier
    has none of them, they may be there only if they change nothing. What else such a model does is
    not in its state but in its `cfg`, so a state with more than our weights needs it.
    """
    expected = config.weight_shapes()
    missing = sorted(expected.keys() - state.keys())
    if missing:
        raise CheckpointError(f"the state dict has no {', '.join(missing)}")
    if state.keys() - expected.keys():
        _check_cfg(config, cfg)
    for name in sorted(state.keys() - expected.keys()):
        kind = name.rsplit(".", 1)[-1]
        if kind in ("mask", "IGNORE", "rotary_sin", "rotary_cos"):
            continue
        if not (kind.startswith("b_") or kind == "W_pos"):
            raise CheckpointError(
                f"the state dict has {name}, for which this configuration has no place"
            )
        if bool(state[name].any()):
            raise CheckpointError(f"{name} is not zero, but this classifier has no such weight")
    return {name: state[name] for name in expected}


def _check_cfg(config: ClassifierConfig, cfg: Any) -> None:
    if cfg is None:
        raise CheckpointError(
            "this state was made by a model of TransformerLens, and does not say which activation, "
            "mask, norm and scale of scores belong to it: pass cfg=its cfg, or take the model over "
            "with tsc.from_transformer_lens(model, ...)"
        )
    scale = getattr(cfg, "attn_scale", -1.0) if cfg.use_attn_scale else 1.0
    scale = math.sqrt(config.d_head) if scale <= 0 else scale
    kind = str(getattr(cfg, "positional_embedding_type", None) or "standard")
    ours = config.positions if config.positions in ("rotary", "alibi", "shortformer") else kind
    has: dict[str, tuple[Any, Any]] = {
        "attention": (str(cfg.attention_dir), "causal" if config.causal else "bidirectional"),
        "norm": (NORMS.get(cfg.normalization_type, cfg.normalization_type), config.norm),
        "attend_cls": (True, config.attend_cls or not config.has_attention),
        "attention_scale": (scale, config.score_divisor),
        "kind of positions": (kind, ours if config.has_positions else _NO_POSITIONS.get(kind)),
        "heads with keys of their own": (
            getattr(cfg, "n_key_value_heads", None) or getattr(cfg, "n_heads", config.n_heads),
            config.kv_heads,
        ),
        "gated_mlp": (bool(getattr(cfg, "gated_mlp", False)), config.gated_mlp),
        "qk_norm": (bool(getattr(cfg, "use_qk_norm", False)), config.qk_norm != "off"),
    }
    if config.positions == "rotary":
        has["rotary_dim"] = (cfg.rotary_dim or config.d_head, config.turned)
        has["rotary_base"] = (float(cfg.rotary_base), config.rotary_base)
        adjacent = HAS_BRIDGE_ONLY or bool(cfg.rotary_adjacent_pairs)
        has["rotary_adjacent_pairs"] = (adjacent, config.rotary_adjacent_pairs)
    if config.has_mlp:
        has["act_fn"] = (cfg.act_fn, config.act_fn)
    if config.has_norm:
        has["eps"] = (cfg.eps, config.norm_eps)
        has["final norm"] = (True, config.final_norm)
    for option, (theirs, ours) in has.items():
        if theirs != ours:
            raise CheckpointError(f"{option}: the state's model has {theirs}, the config {ours}")
