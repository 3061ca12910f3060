"""What do the weights of each head say, before any input? OV and QK circuits, and composition.

A head's weights make two maps of the residual stream: `W_OV = W_V W_O`, what it writes for what it
attends to, and `W_QK = W_Q W_K^T`, how it scores. Read from tokens (rows of `W_E`) or positions
(rows of `W_pos`), and to the outputs (`W_U`), they are tables:

    OV    E W_V W_O W_U                             attending to a token adds this to each output
    QK    (E W_Q + b_Q) (E W_K + b_K)^T / scale     the score a token gives another

The mean over outputs is subtracted from OV, since it changes no answer. These are direct paths. In
the first layer they are the whole score, except for terms of tokens with positions; in later
layers the outputs of earlier layers are added. A norm before attention is folded in without its
scale (gain and, for a LayerNorm, centring), so entries compare within a head.

Composition of an earlier head 1 with a later head 2 (Elhage et al., 2021), in Frobenius norms:

    Q    |W_OV1 W_QK2| / (|W_OV1| |W_QK2|)
    K    |W_OV1 W_QK2^T| / (|W_OV1| |W_QK2|)
    V    |W_OV1 W_OV2| / (|W_OV1| |W_OV2|)

with the weights as they are, as TransformerLens computes it, beside what pairs of heads with
shuffled weights give. Reads weights only; the strings say which tokens and positions to show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.norms import norm_weights
from tsc_interp.probes.circuits_weights.result import CircuitsWeightsResult
from tsc_interp.probes.rows import TokenNames
from tsc_interp.probes.running import Floats, as_array, start, weight
from tsc_interp.probes.scores import attention_scale
from tsc_interp.results.base import LabeledArray, that_hold
from tsc_interp.strings import PAD

if TYPE_CHECKING:
    from torch import Tensor

MOST_TOKENS = 16
MOST_POSITIONS = 64
MOST_SCORES = 120_000
"""Of positions with positions, over all heads: of many heads fewer positions are shown."""
MOST_OUTPUTS = 16
MOST_HEADS = 48
DRAWS = 8
"""Times the weights are shuffled for what chance gives."""


def run(
    model: Any,
    strings: Sequence[str] | Tensor,
    *,
    token_names: TokenNames | None = None,
) -> CircuitsWeightsResult:
    """The tokens of the given strings, the most frequent ones of many, and their positions."""
    given = start(model, strings, reads=("hook_embed",), token_names=token_names)
    if given.config is not None and not given.config.has_attention:
        raise UnsupportedError("this model has no attention (n_heads = 0), so no head to look at")
    # But for padding; of many tokens the most frequent.
    shown = given.visible if given.config is None else given.tokens != PAD
    times = Counter(given.tokens[shown].tolist())
    tokens = sorted(token for token, _ in times.most_common(MOST_TOKENS))
    names = given.names(tokens)
    layers = range(model.cfg.n_layers)
    embed, unembed = _need(model, "W_E")[tokens], _need(model, "W_U")
    copies = unembed.shape[1] == getattr(model.cfg, "d_vocab", None)
    outputs = tokens if copies else range(min(MOST_OUTPUTS, unembed.shape[1]))
    named = names if copies else [str(output) for output in outputs]
    readout = (unembed - unembed.mean(1, keepdims=True))[:, list(outputs)]
    if unembed.shape[1] == 1:
        readout = unembed
    heads = [_weights(model, layer) for layer in layers]
    axes: dict[str, Any] = {"layer": layers, "head": range(len(heads[0]["W_Q"]))}
    places = _places(model, given)

    def ov(rows: Floats) -> Floats:
        return np.stack([_folded(model, i, rows) @ _ov(w) @ readout for i, w in enumerate(heads)])

    def qk(rows: Floats) -> Floats:
        scores = []
        for i, w in enumerate(heads):
            read = _folded(model, i, rows)
            q, k = (read @ w[f"W_{part}"] + w[f"b_{part}"][:, None] for part in "QK")
            scores.append(q @ k.transpose(0, 2, 1) / attention_scale(model))
        return np.stack(scores)

    composition, chance = _composition(heads)
    return CircuitsWeightsResult(
        not_applicable=_not_applicable(model, given, tokens),
        n_layers=model.cfg.n_layers,
        ov_token=LabeledArray.of(ov(embed), **axes, token=names, output=named),
        qk_token=LabeledArray.of(qk(embed), **axes, **{"from": names, "to": names}),
        ov_position=None if places is None
        else LabeledArray.of(ov(places), **axes, position=range(len(places)), output=named),
        qk_position=None if places is None
        else LabeledArray.of(qk(places), **axes, query=range(len(places)), key=range(len(places))),
        composition=composition,
        chance=chance,
        copies=copies,
    )  # fmt: skip


def _need(model: Any, name: str) -> Floats:
    matrix = getattr(model, name, None)
    if matrix is None:
        raise UnsupportedError(f"this model has no {name}, so its weights make no map of tokens")
    return as_array(matrix)


def _places(model: Any, run: Any) -> Floats | None:
    """`[position d_model]`, as far as the strings go; None where the table is not learned."""
    learned = getattr(model, "W_pos", None)
    if learned is None or (run.config is not None and not run.config.n_positions):
        return None
    table = as_array(learned)
    kind = getattr(model.cfg, "positional_embedding_type", "standard")
    if kind not in ("standard", "learned", None) or not table.any():
        return None
    heads = model.cfg.n_layers * model.cfg.n_heads
    return table[: min(run.tokens.shape[1], MOST_POSITIONS, max(8, isqrt(MOST_SCORES // heads)))]


def _weights(model: Any, layer: int) -> dict[str, Floats]:
    """`[head ...]`: heads that share a key or value get a copy each."""
    matrices = {name: weight(model, layer, "attn", name) for name in ("W_Q", "W_K", "W_V", "W_O")}
    known = {name: array for name, array in matrices.items() if array is not None}
    if len(known) < len(matrices):
        lacks = ", ".join(sorted(matrices.keys() - known.keys()))
        raise UnsupportedError(f"layer {layer} of this model has no {lacks}")
    heads = len(known["W_Q"])
    for name, weight_name in (("b_Q", "W_Q"), ("b_K", "W_K")):
        bias = weight(model, layer, "attn", name)
        known[name] = np.zeros(known[weight_name].shape[::2]) if bias is None else bias
    return {
        name: array if len(array) == heads else np.repeat(array, heads // len(array), axis=0)
        for name, array in known.items()
    }


def _folded(model: Any, layer: int, rows: Floats) -> Floats:
    """Rows as attention meets them, but for the scale of a norm."""
    kind = str(getattr(model.cfg, "normalization_type", None) or "")
    if kind.startswith("LN"):
        rows = rows - rows.mean(-1, keepdims=True)
    gain, _, offset = norm_weights(getattr(model.blocks[layer], "ln1", None))
    return rows if not kind or gain is None else rows * (as_array(gain) + offset)


def _ov(weights: dict[str, Floats]) -> Floats:
    return weights["W_V"] @ weights["W_O"]


def _composition(heads: list[dict[str, Floats]]) -> tuple[LabeledArray | None, float | None]:
    count = sum(len(head["W_Q"]) for head in heads)
    if len(heads) < 2 or count > MOST_HEADS:
        return None, None
    names = [f"layer {i} head {h}" for i, w in enumerate(heads) for h in range(len(w["W_Q"]))]
    generator = np.random.default_rng(0)

    def shuffled(array: Floats) -> Floats:
        return generator.permutation(array.ravel()).reshape(array.shape)

    by_chance = [
        scores
        for _ in range(DRAWS)
        for scores in [_all_scores([{n: shuffled(a) for n, a in w.items()} for w in heads])]
    ]
    drawn = np.concatenate([scores[scores > 0] for scores in by_chance])
    own = _all_scores(heads)
    labels = {"by": ("Q", "K", "V"), "from": names, "to": names}
    return LabeledArray.of(own, **labels), float(np.quantile(drawn, 0.9)) if drawn.size else 0.0


def _all_scores(heads: list[dict[str, Floats]]) -> Floats:
    """`[by from to]`: 0 where the first head is in no earlier layer."""
    ov = np.concatenate([_ov(head) for head in heads])
    qk = np.concatenate([head["W_Q"] @ head["W_K"].transpose(0, 2, 1) for head in heads])
    layer = np.concatenate([[i] * len(w["W_Q"]) for i, w in enumerate(heads)])
    earlier = layer[:, None] < layer[None, :]
    scores = np.zeros((3, len(ov), len(ov)))
    for b, right in enumerate((qk, qk.transpose(0, 2, 1), ov)):
        for f, t in zip(*np.nonzero(earlier), strict=True):
            size = np.linalg.norm(ov[f]) * np.linalg.norm(right[t])
            scores[b, f, t] = np.linalg.norm(ov[f] @ right[t]) / size if size else 0.0
    return scores


def _not_applicable(model: Any, run: Any, tokens: list[int]) -> tuple[str, ...]:
    seen, places = len(set(run.tokens.ravel().tolist())), _places(model, run)
    width, shown = run.tokens.shape[1], 0 if places is None else len(places)
    heads = model.cfg.n_layers * model.cfg.n_heads
    return that_hold({
        "positions turn queries and keys, so QK scores are those of two tokens at one place":
        getattr(model.cfg, "positional_embedding_type", None) == "rotary",
        "a norm stands before attention: its scale is left out of every entry":
        getattr(model.cfg, "normalization_type", None),
        f"of {seen} tokens that occur, the {len(tokens)} most frequent are shown":
        run.config is None and seen > len(tokens),
        f"of {width} positions, the first {shown} are shown": places is not None and shown < width,
        f"composition scores of {heads} heads were left out: more than {MOST_HEADS}":
        heads > MOST_HEADS,
    })  # fmt: skip
