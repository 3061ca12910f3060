"""What is a logit made of? Direct logit attribution, exact: the parts add up to it. Chapter 2.

The residual stream at the query is a sum, and the read-out is linear, so with read-out direction w

    logit = w·embedding + sum_h,t w·(weight_ht v_ht W_O) + sum_m w·(post_m W_out) + biases

over heads h and letters t, and MLP neurons m, of every layer. These are direct effects: what a head
tells the MLP is counted in the neurons. Our classifier has no norm after the last block, so its
parts sum to the logit; in another model, w reads the residual stream before any final norm.

Reads `hook_embed`, `hook_resid_pre`, `hook_pattern`, `hook_v`, `hook_post`, `hook_resid_post`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from einops import einsum
from numpy.typing import ArrayLike

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.probes.attribution.result import AttributionResult
from tsc_interp.probes.attribution.words import findings
from tsc_interp.probes.base import LabeledArray
from tsc_interp.probes.running import (
    Floats,
    Pass,
    as_array,
    chosen_layers,
    readout_direction,
    start,
)

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-4
"""How far the sum may be from the read-out, relative to the parts: float32 activations."""


@dataclass(frozen=True)
class Part:
    name: str
    group: str
    effect: Floats
    """`[row]`."""


def run(
    model: Any,
    strings: Sequence[str] | Tensor,
    *,
    query: int | None = None,
    layer: int | None = None,
    direction: ArrayLike | Tensor | None = None,
    token_names: Sequence[str] | None = None,
) -> AttributionResult:
    """`layer` stops after that layer: what the residual stream there says in the direction.

    A TransformerLens model needs a `direction`: a vector in residual space, say a column of W_U.
    """
    w = readout_direction(model, direction)
    if w is None:
        raise UsageError(
            "attribution needs a read-out direction, a vector of length d_model: "
            "direction=model.W_U[:, token] attributes that token's logit"
        )
    given = start(model, strings, query=query, token_names=token_names)
    last = chosen_layers(model, layer)[-1]
    parts = _parts(model, given, w, last)
    logits = given.activation(f"blocks.{last}.hook_resid_post")[:, given.query] @ w
    effects = np.stack([part.effect for part in parts], axis=1)
    _check_sum(effects, logits)
    names = dict.fromkeys(part.group for part in parts)
    by_group = [sum(p.effect for p in parts if p.group == name) for name in names]
    result = AttributionResult(
        findings=(),
        not_applicable=_not_applicable(model, given, last),
        effects=LabeledArray.of(effects, string=given.rows, part=[part.name for part in parts]),
        by_group=LabeledArray.of(np.stack(by_group, axis=1), string=given.rows, group=names),
        groups=tuple(part.group for part in parts),
        logits=LabeledArray.of(logits, string=given.rows),
        labels=_labels(given) if last == model.cfg.n_layers - 1 else None,
    )
    return result.with_findings(findings(result))


def _parts(model: Any, run: Pass, w: Floats, last: int) -> list[Part]:
    embedded = run.activation("hook_embed")[:, run.query] @ w
    parts = [Part("embedding", "embedding", embedded)]
    positions = run.activation("blocks.0.hook_resid_pre")[:, run.query] @ w - embedded
    if positions.any():
        parts.append(Part("position", "embedding", positions))
    for index in range(last + 1):
        where = "" if model.cfg.n_layers == 1 else f"layer {index} "
        if f"blocks.{index}.attn.hook_pattern" in run.cache:
            parts += _heads(model, run, w, index, where)
            parts += _bias(model, "b_O", w, index, f"{where}attention bias", run)
        if f"blocks.{index}.mlp.hook_post" in run.cache:
            parts += _neurons(model, run, w, index, where)
            parts += _bias(model, "b_out", w, index, f"{where}MLP bias", run)
    return parts


def _heads(model: Any, run: Pass, w: Floats, index: int, where: str) -> list[Part]:
    """Each head's effect, divided among the tokens it attends to."""
    pattern = run.activation(f"blocks.{index}.attn.hook_pattern")[:, :, run.query]
    values = run.activation(f"blocks.{index}.attn.hook_v")
    written = einsum(
        values,
        as_array(model.W_O)[index],
        w,
        "row key head d_head, head d_head d_model, d_model -> row head key",
    )
    tokens = np.unique(run.tokens[(pattern > 0).any(axis=1)])
    members = run.tokens[:, :, None] == tokens
    effects = einsum(pattern * written, members, "row head key, row key token -> row head token")
    return [
        Part(f"{where}head {h} ← {name}", f"{where}head {h}", effects[:, h, t])
        for h in range(effects.shape[1])
        for t, name in enumerate(run.names(tokens))
    ]


def _neurons(model: Any, run: Pass, w: Floats, index: int, where: str) -> list[Part]:
    post = run.activation(f"blocks.{index}.mlp.hook_post")[:, run.query]
    effects = post * (as_array(model.W_out)[index] @ w)
    return [
        Part(f"{where}neuron {m}", f"{where}MLP", effects[:, m]) for m in range(effects.shape[1])
    ]


def _bias(model: Any, name: str, w: Floats, index: int, called: str, run: Pass) -> list[Part]:
    biases = getattr(model, name, None)
    if biases is None:
        return []
    effect = float(as_array(biases)[index] @ w)
    return [Part(called, "biases", np.full(len(run.rows), effect))]


def _labels(run: Pass) -> tuple[int, ...] | None:
    if run.config is None:
        return None
    labels = run.config.task.labels(run.config.alphabet.count_matrix(run.rows))
    return tuple(int(label) for label in labels)


def _check_sum(effects: Floats, logits: Floats) -> None:
    worst = float(np.abs(effects.sum(1) - logits).max())
    if not worst <= TOLERANCE * max(1.0, float(np.abs(effects).sum(1).max())):
        raise UnsupportedError(
            f"the parts miss the residual stream's read-out by {worst:.3g}: this model adds "
            "something these hooks do not show (a norm after a sub-layer, a parallel path)"
        )


def _not_applicable(model: Any, run: Pass, last: int) -> tuple[str, ...]:
    notes = []
    if last < model.cfg.n_layers - 1:
        notes.append(f"layers after {last} are left out, so the sum is not the final read-out")
    if run.config is None and getattr(model.cfg, "normalization_type", None):
        notes.append(
            "the direction is applied to the residual stream before the final norm, which "
            "rescales a row's parts alike (and a LayerNorm also subtracts their mean)"
        )
    return tuple(notes)
