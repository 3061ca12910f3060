"""What a probe reads from a model's attention: scores, weights and values for one query position.

The same arrays from two kinds of model: our own classifier, given strings, and any TransformerLens
model, given token ids `[batch pos]`. Scores are recomputed as q·k / scale from `hook_q` and
`hook_k`, without multiplicities, because a TransformerBridge's own `hook_attn_scores` cannot be
relied on. They are then checked against `hook_pattern`: if their softmax does not give the weights
(rotary keys, soft caps, edits made downstream), the model is refused rather than misread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.strings import FIRST_LETTER

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
Strings = Sequence[str]
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
        return np.asarray(np.einsum("htk,hkd,d->ht", self.values, self.output, direction))


@dataclass(frozen=True)
class Reading:
    rows: tuple[str, ...]
    tokens: tuple[str, ...]
    layers: tuple[Layer, ...]
    n_layers: int
    direction: Floats | None
    """The read-out, a vector in residual space: given, or our classifier's own."""

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(str(head) for head in range(self.layers[0].scores.shape[0]))

    @property
    def layer_names(self) -> tuple[str, ...]:
        return tuple(str(layer.index) for layer in self.layers)

    def head_name(self, layer: Layer, head: int) -> str:
        return f"head {head}" if self.n_layers == 1 else f"layer {layer.index} head {head}"

    def caveats(self) -> tuple[str, ...]:
        """What averaging over occurrences hides, in words."""
        return tuple(
            f"layer {layer.index}: a token's scores and values differ between its occurrences "
            f"(by up to {layer.spread:.3g}), so its average over the given strings stands for it"
            for layer in self.layers
            if layer.varies
        )


def classifier_config(model: Any) -> ClassifierConfig | None:
    """The configuration of our own classifier; None for any other TransformerLens model."""
    config = getattr(model, "config", None)
    if not isinstance(config, ClassifierConfig):
        return None
    if model.ensemble_shape:
        raise UnsupportedError(
            f"this model is an ensemble of shape {list(model.ensemble_shape)}; "
            "a probe looks at one model, so pass one member"
        )
    return config


def check_strings(strings: Any) -> None:
    if isinstance(strings, str) or len(strings) == 0:
        raise UsageError("a probe needs a list of one or more strings (or rows of token ids)")


def read(
    model: Any,
    strings: Strings | Tensor,
    *,
    query: int | None = None,
    layer: int | None = None,
    direction: ArrayLike | Tensor | None = None,
    token_names: Sequence[str] | None = None,
) -> Reading:
    """Every attention layer (or just `layer`) as position `query` sees it.

    `query` defaults to CLS for our classifier and to the last position otherwise; `token_names[i]`
    names token i, which is otherwise called by its number.
    """
    config = classifier_config(model)
    check_strings(strings)
    _check_attention(model, config)
    if config is None:
        rows, tokens, multiplicity, scale = _token_rows(strings)
    else:
        rows, tokens, multiplicity, scale = _string_rows(model, config, strings)
    cache = _run(model, strings)
    at = _position(query, tokens.shape[1], default=-1 if config is None else 0)
    chosen = range(model.cfg.n_layers) if layer is None else [_layer(layer, model.cfg.n_layers)]
    patterns = {i: _array(cache[f"blocks.{i}.attn.hook_pattern"])[:, :, at] for i in chosen}
    readable = {
        i: _readable(config, i, tokens, multiplicity, pattern) for i, pattern in patterns.items()
    }
    shown = _shown(tokens, list(readable.values()))
    layers = tuple(
        _layer_reading(
            model, cache, index, at, patterns[index], multiplicity, scale,
            members=readable[index][:, :, None] & (tokens[:, :, None] == shown),
        )
        for index in chosen
    )  # fmt: skip
    names = config.alphabet.token_names if config else token_names
    called = tuple(str(token) if names is None else names[token] for token in shown)
    return Reading(rows, called, layers, model.cfg.n_layers, readout_direction(model, direction))


def readout_direction(model: Any, direction: ArrayLike | Tensor | None) -> Floats | None:
    if direction is None:
        return None if classifier_config(model) is None else _array(model.W_U)[:, 0]
    vector = _array(direction)
    if vector.shape != (model.cfg.d_model,):
        raise UsageError(
            f"the read-out direction must have shape [{model.cfg.d_model}] (d_model); "
            f"got {list(vector.shape)}"
        )
    return vector


# -- reading one layer -----------------------------------------------------------------------


def _layer_reading(
    model: Any, cache: Any, index: int, at: int, pattern: Floats, multiplicity: Floats,
    scale: Floats, *, members: NDArray[np.bool_],
) -> Layer:  # fmt: skip
    name = f"blocks.{index}.attn"
    q, k, v, z = (_array(cache[f"{name}.hook_{part}"]) for part in "qkvz")
    if q.shape != k.shape:
        raise UnsupportedError(
            f"layer {index} shares keys between heads ({k.shape[2]} for {q.shape[2]} queries); "
            "these probes need one key per head"
        )
    scores = np.einsum("bhk,bjhk->bhj", q[:, at], k) / _score_scale(model)
    _check_explained(index, scores * scale[:, None, None], pattern, multiplicity)
    occurrences = members.sum(axis=(0, 1))
    mean_scores = np.einsum("bhj,bjt->ht", scores, members) / occurrences
    mean_values = np.einsum("bjhk,bjt->htk", v, members) / occurrences[None, :, None]
    row, key, token = np.nonzero(members)
    deviations = [
        np.abs(scores[row, :, key] - mean_scores[:, token].T).max(initial=0.0),
        np.abs(v[row, key] - mean_values[:, token].transpose(1, 0, 2)).max(initial=0.0),
    ]
    return Layer(
        index,
        mean_scores,
        mean_values,
        weights=np.einsum("bhj,bjt->bht", pattern, members),
        head_values=z[:, at],
        output=_array(model.W_O)[index],
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


def _run(model: Any, given: Any) -> Any:
    import torch

    with torch.no_grad():
        return model.run_with_cache(given)[1]


def _string_rows(
    model: Any, config: ClassifierConfig, strings: Any
) -> tuple[tuple[str, ...], NDArray[np.int64], Floats, Floats]:
    inputs = model.inputs(strings)
    lengths = _array(inputs.lengths)
    scale = np.log(lengths) if config.score_scale == "sqrt_d_head_log_n" else np.ones(len(lengths))
    rows = tuple(config.alphabet.canonical(string) for string in strings)
    return rows, inputs.tokens.numpy(), _array(inputs.multiplicity), scale


def _token_rows(
    tokens: Any,
) -> tuple[tuple[str, ...], NDArray[np.int64], Floats, Floats]:
    import torch

    if not isinstance(tokens, torch.Tensor) or tokens.ndim != 2 or tokens.is_floating_point():
        raise UsageError(
            "a TransformerLens model is probed on token ids, a whole-number tensor [batch pos]"
        )
    rows = tuple(f"row {row}" for row in range(len(tokens)))
    return rows, tokens.cpu().numpy(), np.ones(tokens.shape), np.ones(len(tokens))


def _readable(
    config: ClassifierConfig | None,
    layer: int,
    tokens: NDArray[np.int64],
    multiplicity: Floats,
    pattern: Floats,
) -> NDArray[np.bool_]:
    """`[row key]`: which keys the query can see. Masked and future keys have no weight anywhere."""
    if config is None:
        return np.asarray((pattern > 0).any(axis=1))
    if layer == 0 and not config.has_positions:
        # A letter a string lacks still has its key and value, the same as in any other string.
        return (tokens >= FIRST_LETTER) | (multiplicity > 0)
    return multiplicity > 0


def _shown(tokens: NDArray[np.int64], readable: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]:
    """The tokens seen in every layer, by number."""
    seen = [set(tokens[visible].tolist()) for visible in readable]
    return np.array(sorted(set.intersection(*seen)), dtype=np.int64)


def _check_attention(model: Any, config: ClassifierConfig | None) -> None:
    if config is not None and not config.has_attention:
        raise UnsupportedError("this model has no attention (n_heads = 0), so no head to look at")
    if not hasattr(model, "run_with_cache"):
        raise UnsupportedError(
            f"a model with TransformerLens's run_with_cache is needed, not {type(model).__name__}"
        )


def _score_scale(model: Any) -> float:
    if not getattr(model.cfg, "use_attn_scale", True):
        return 1.0
    stated = float(getattr(model.cfg, "attn_scale", None) or -1.0)
    return stated if stated > 0 else float(np.sqrt(model.cfg.d_head))  # -1: the default


def _position(query: int | None, width: int, default: int) -> int:
    at = default if query is None else query
    if not -width <= at < width:
        raise UsageError(f"query position {at} is outside the {width} positions of the input")
    return at % width


def _layer(layer: int, n_layers: int) -> int:
    if not -n_layers <= layer < n_layers:
        raise UsageError(f"layer {layer} does not exist; the model has layers 0 to {n_layers - 1}")
    return layer % n_layers


def _array(tensor: Any) -> Floats:
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().numpy()
    return np.asarray(tensor, dtype=np.float64)
