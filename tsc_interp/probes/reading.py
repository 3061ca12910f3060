"""What a probe reads from a model's attention: scores, weights and values for one query position.

Scores are recomputed as q·k / scale from `hook_q` and `hook_k`, without multiplicities, because a
TransformerBridge's own `hook_attn_scores` cannot be relied on. They are then checked against
`hook_pattern`: if their softmax does not give the weights (rotary keys, soft caps, edits made
downstream), the model is refused rather than misread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from einops import einsum, rearrange, reduce
from numpy.typing import ArrayLike, NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.running import (
    Floats,
    Pass,
    as_array,
    chosen_layers,
    readout_direction,
    start,
)
from tsc_interp.strings import FIRST_LETTER

if TYPE_CHECKING:
    from torch import Tensor

SAME = 1e-5
"""Relative difference below which two readings of one token count as equal (float32 models)."""


@dataclass(frozen=True)
class Layer:
    """One attention layer as the query sees it, averaged over each token's occurrences."""

    index: int
    scores: Floats
    """`[head token]`: q·k / scale."""
    values: Floats
    """`[head token d_head]`."""
    weights: Floats
    """`[row head token]`: attention weight, summed over the token's copies in that row."""
    head_values: Floats
    """`[row head d_head]`: what each head returns to the query."""
    output: Floats
    """`[head d_head d_model]`: W_O."""
    spread: float
    """The largest deviation of one occurrence from its token's average; 0 when all are equal."""

    @property
    def varies(self) -> bool:
        return self.spread > SAME * max(1.0, float(np.abs(self.values).max(initial=0.0)))

    def readout(self, direction: Floats) -> Floats:
        """`[head token]`: what the read-out gains if the head gives this token all its weight."""
        return einsum(
            self.values,
            self.output,
            direction,
            "head token d_head, head d_head d_model, d_model -> head token",
        )


@dataclass(frozen=True)
class Reading:
    rows: tuple[str, ...]
    tokens: tuple[str, ...]
    layers: tuple[Layer, ...]
    n_layers: int
    needs: str | None
    """The letters the task names; None for a model without a task."""
    direction: Floats | None
    """The read-out, a vector in residual space: given, or our classifier's own."""

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(str(head) for head in range(self.layers[0].scores.shape[0]))

    @property
    def layer_names(self) -> tuple[str, ...]:
        return tuple(str(layer.index) for layer in self.layers)

    def caveats(self) -> tuple[str, ...]:
        """What averaging over occurrences hides and what the strings do not show, in words."""
        averaged = tuple(
            f"layer {layer.index}: a token's scores and values differ between its occurrences "
            f"(by up to {layer.spread:.3g}), so its average over the given strings stands for it"
            for layer in self.layers
            if layer.varies
        )
        unseen = [letter for letter in self.needs or "" if letter not in self.tokens]
        if not unseen:
            return averaged
        unknown = f"no given string has {' or '.join(unseen)}, so who reads it is not known"
        return (*averaged, unknown)


def read(
    model: Any,
    strings: Sequence[str] | Tensor,
    *,
    query: int | None = None,
    layer: int | None = None,
    direction: ArrayLike | Tensor | None = None,
    token_names: Sequence[str] | None = None,
) -> Reading:
    """Every attention layer (or just `layer`) as position `query` sees it; see `running.start`."""
    run = start(model, strings, query=query, token_names=token_names)
    if run.config is not None and not run.config.has_attention:
        raise UnsupportedError("this model has no attention (n_heads = 0), so no head to look at")
    chosen = chosen_layers(model, layer)
    readable = {index: _readable(run, index) for index in chosen}
    shown = _shown(run, readable)
    layers = tuple(
        _layer(model, run, index, _members(run.tokens, readable[index], shown)) for index in chosen
    )
    return Reading(
        run.rows,
        run.names(shown),
        layers,
        n_layers=model.cfg.n_layers,
        needs=None if run.config is None else run.config.task.needs,
        direction=readout_direction(model, direction),
    )


def _members(
    tokens: NDArray[np.int64], readable: NDArray[np.bool_], shown: NDArray[np.int64]
) -> Floats:
    return np.asarray(readable[:, :, None] & (tokens[:, :, None] == shown), dtype=np.float64)


def _layer(model: Any, run: Pass, index: int, members: Floats) -> Layer:
    """`members[row, key, token]` is 1 where the key is an occurrence of the token, else 0."""
    name = f"blocks.{index}.attn"
    q, k, v, z = (run.activation(f"{name}.hook_{part}") for part in "qkvz")
    if q.shape != k.shape:
        raise UnsupportedError(
            f"layer {index} shares keys between heads ({k.shape[2]} for {q.shape[2]} queries); "
            "these probes need one key per head"
        )
    products = einsum(q[:, run.query], k, "row head d_head, row key head d_head -> row head key")
    scores = products / _score_scale(model)
    pattern = run.activation(f"{name}.hook_pattern")[:, :, run.query]
    _check_explained(index, scores * run.score_factor[:, None, None], pattern, run.multiplicity)
    seen = reduce(members, "row key token -> token", "sum")
    mean_scores = einsum(scores, members, "row head key, row key token -> head token") / seen
    total_values = einsum(v, members, "row key head d_head, row key token -> head token d_head")
    mean_values = total_values / rearrange(seen, "token -> token 1")
    row, key, token = np.nonzero(members)
    deviations = [
        np.abs(scores[row, :, key] - mean_scores[:, token].T).max(initial=0.0),
        np.abs(
            v[row, key] - rearrange(mean_values[:, token], "head at d_head -> at head d_head")
        ).max(initial=0.0),
    ]
    return Layer(
        index,
        mean_scores,
        mean_values,
        weights=einsum(pattern, members, "row head key, row key token -> row head token"),
        head_values=z[:, run.query],
        output=as_array(model.W_O)[index],
        spread=float(max(deviations)),
    )


def _check_explained(
    index: int, scores: Floats, pattern: Floats, multiplicity: Floats, tolerance: float = 1e-4
) -> None:
    """Refuse when softmax over the keys that have weight does not give the weights seen."""
    with np.errstate(divide="ignore", invalid="ignore"):  # log 0; NaN is refused below
        logits = scores + np.log(multiplicity)[:, None, :]
        logits = np.where(pattern.any(axis=1, keepdims=True), logits, -np.inf)
        odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
        worst = float(np.abs(odds / odds.sum(axis=-1, keepdims=True) - pattern).max())
    if not worst < tolerance:
        raise UnsupportedError(
            f"layer {index}: attention weights differ by {worst:.2g} from softmax(q·k / scale), so "
            "this model's scores are not what hook_q and hook_k say, and margins would be wrong"
        )


def _readable(run: Pass, layer: int) -> NDArray[np.bool_]:
    """`[row key]`: which keys the query can see. Masked and future keys have no weight anywhere."""
    if run.config is None:
        pattern = run.activation(f"blocks.{layer}.attn.hook_pattern")[:, :, run.query]
        return np.asarray((pattern > 0).any(axis=1))
    if layer == 0 and not run.config.has_positions:
        # A letter a string lacks still has its key and value, the same as in any other string.
        return (run.tokens >= FIRST_LETTER) | (run.multiplicity > 0)
    return run.multiplicity > 0


def _shown(run: Pass, readable: dict[int, NDArray[np.bool_]]) -> NDArray[np.int64]:
    """The tokens seen in every layer, by number."""
    seen = [set(run.tokens[visible].tolist()) for visible in readable.values()]
    return np.array(sorted(set.intersection(*seen)), dtype=np.int64)


def _score_scale(model: Any) -> float:
    if not getattr(model.cfg, "use_attn_scale", True):
        return 1.0
    stated = float(getattr(model.cfg, "attn_scale", None) or -1.0)
    return stated if stated > 0 else float(np.sqrt(model.cfg.d_head))  # -1: the default
