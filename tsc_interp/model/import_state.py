"""Weights of a classifier out of a HookedTransformer's state dict, and what must not be in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError
from tsc_interp.model.import_options import cfg_options, is_causal


def untangle_state_dict(
    config: ClassifierConfig, state: Mapping[str, Tensor], cfg: Any
) -> dict[str, Tensor]:
    """Return our weights out of a HookedTransformer-style state dict.

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
    """Refuse a state whose model does something else with its weights than this classifier."""
    if cfg is None:
        raise CheckpointError(
            "this state was made by a model of TransformerLens, and does not say which activation, "
            "mask, norm and scale of scores belong to it: pass cfg=its cfg, or import the model "
            "with tsc.from_transformer_lens(model, ...)"
        )
    theirs = {**cfg_options(cfg), "causal": is_causal(cfg), "attend_cls": True, "final_norm": True}
    for option, has_part in {
        "act_fn": config.has_mlp,
        "attend_cls": config.has_attention,
        "norm_eps": config.has_norm,
        "final_norm": config.has_norm,
    }.items():
        if not has_part:
            del theirs[option]
    # A HookedTransformer without use_attn_scale does not divide, whichever version is installed.
    divides = getattr(cfg, "use_attn_scale", True)
    divisor = theirs["attention_scale"] or math.sqrt(config.d_head)
    theirs["attention_scale"] = divisor if divides else 1.0
    ours = {option: getattr(config, option) for option in theirs}
    ours["attention_scale"] = config.score_divisor
    ours["n_key_value_heads"] = config.n_key_value_heads if config.grouped else 0
    for option, value in theirs.items():
        if value != ours[option]:
            raise CheckpointError(
                f"{option}: the state's model has {value}, the config {ours[option]}"
            )
