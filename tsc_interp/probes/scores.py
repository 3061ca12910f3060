"""Attention scores from queries and keys, and the check that they are what the model used.

Rotary queries and keys are read after rotation (`hook_rot_q`, `hook_rot_k`) or rotated by the
model's own table; heads that share a key or value get a copy each; a soft cap is applied. The
softmax of what comes out must be `hook_pattern`, to rounding, or the model is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from einops import einsum, repeat

from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.inputs import Floats, Pass, as_array, classifier_config

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-4
"""How far a weight may be from the softmax in float32; coarser formats get what they need."""


def query_scores(model: Any, run: Pass, index: int) -> Floats:
    """`[row head key]`: q·k / scale for each row's query, before masks and multiplicities."""
    q, k = (as_array(part) for part in _queries_and_keys(model, run, index))
    at = q[np.arange(len(q)), run.query]
    k = same_for_heads(k, at.shape[1])
    if k.shape[2:] != at.shape[1:]:
        raise UnsupportedError(
            f"layer {index} has queries of shape {list(at.shape[1:])} and keys of "
            f"{list(k.shape[2:])} per position; these probes need one key per head or group"
        )
    products = einsum(at, k, "row head d_head, row key head d_head -> row head key")
    scores = products / attention_scale(model)
    cap = float(getattr(model.cfg, "attn_scores_soft_cap", None) or -1.0)
    if cap > 0:
        scores = cap * np.tanh(scores / cap)
    _check_explained(run, index, scores)
    return scores


def same_for_heads(x: Floats, heads: int) -> Floats:
    """`[row key head d_head]`: with fewer keys (or values) than heads, neighbours share one."""
    if x.shape[2] == heads or heads % x.shape[2]:
        return x
    return repeat(x, "row key group d -> row key (group copy) d", copy=heads // x.shape[2])


def _queries_and_keys(model: Any, run: Pass, index: int) -> tuple[Tensor, Tensor]:
    name = f"blocks.{index}.attn"
    if f"{name}.hook_rot_q" in run.cache and f"{name}.hook_rot_k" in run.cache:
        return run.tensor(f"{name}.hook_rot_q"), run.tensor(f"{name}.hook_rot_k")
    q, k = run.tensor(f"{name}.hook_q"), run.tensor(f"{name}.hook_k")
    rotary = getattr(getattr(model, "original_model", None), "rotary", None)
    if rotary is None or not hasattr(rotary, "apply_rope"):
        return q, k
    # A native TransformerBridge rotates inside and shows queries and keys as they were before.
    q, k = rotary.apply_rope(q.transpose(1, 2), k.transpose(1, 2))
    return q.transpose(1, 2), k.transpose(1, 2)


def _check_explained(run: Pass, index: int, scores: Floats) -> None:
    """Refuse when softmax over the keys that have weight does not give the weights seen."""
    pattern = run.pattern(index)
    scaled = scores * run.score_factor[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # log 0; NaN is refused below
        logits = scaled + np.log(run.multiplicity)[:, None, :]
        logits = np.where(pattern.any(axis=1, keepdims=True), logits, -np.inf)
        odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
        worst = float(np.abs(odds / odds.sum(axis=-1, keepdims=True) - pattern).max())
    # A score is off by a rounding of its size, and no weight moves by more than scores do.
    largest = float(np.abs(scaled).max(initial=0.0, where=np.isfinite(logits)))
    rounding = 2 * run.epsilon(f"blocks.{index}.attn.hook_pattern") * (1 + largest)
    if not worst < max(TOLERANCE, rounding):
        raise UnsupportedError(
            f"layer {index}: attention weights differ by {worst:.2g} from softmax(q·k / scale), so "
            "this model's scores are not what hook_q and hook_k say, and margins would be wrong"
        )


def attention_scale(model: Any) -> float:
    """What q·k is divided by. Our classifier says it in its own words: a `Classifier` has no
    TransformerLens config, and the sizes alone do not tell."""
    if (config := classifier_config(model)) is not None:
        return config.score_divisor
    if not getattr(model.cfg, "use_attn_scale", True):
        return 1.0
    stated = float(getattr(model.cfg, "attn_scale", None) or -1.0)
    return stated if stated > 0 else float(np.sqrt(model.cfg.d_head))  # -1: the default
