"""Which letter does each head read, and do heads repeat each other? Chapters 2 and 4.

A head's reading is its attention if every letter occurred once: p_t = exp(s_t) / sum_i exp(s_i).
From it: the letter it reads (the largest p), its entropy in bits, and the overlap of two heads,
sum_t min(p_t, p'_t), which is 1 when they attend alike. What two heads write is compared as the
cosine of their outputs over the letters, v_t W_O, centred. Heads that overlap report the same thing
twice. A letter that no head reads cannot be noticed, which is the cause of the false positives of
`lower_magnitude_initializations` seed 2. The effective rank of W_V W_O (the exponential of the
entropy of its normalised singular values) says how many dimensions a head really copies.

Reads `hook_q`, `hook_k`, `hook_v`, `hook_pattern`; works per layer, on any TransformerLens model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from einops import rearrange, reduce
from scipy.special import softmax

from tsc_interp.model.threads import one_thread
from tsc_interp.probes.reading import Layer, RowOptions, keep_small, read_beside_chance
from tsc_interp.probes.running import Floats, as_array, classifier_config, score_factor, weight
from tsc_interp.probes.specialization.result import SpecializationResult, Unread
from tsc_interp.results.base import LabeledArray

if TYPE_CHECKING:
    from torch import Tensor

    from tsc_interp.config import ClassifierConfig


def run(
    model: Any, strings: Sequence[str] | Tensor, **options: Unpack[RowOptions]
) -> SpecializationResult:
    """On any TransformerLens model: token ids `[batch pos]` for strings, and a query position."""
    reading, chance = read_beside_chance(model, strings, options)
    config = classifier_config(model)
    attention = np.stack([once_each(config, layer) for layer in reading.layers])
    heads, layers = reading.heads, reading.layer_names
    ranks = [_effective_ranks(model, layer) for layer in reading.layers]
    by_letter = {"layer": layers, "head": heads, "letter": reading.tokens}
    by_pair = {"layer": layers, "head": heads, "other": heads}
    result = SpecializationResult(
        not_applicable=reading.caveats(),
        n_layers=reading.n_layers,
        needs=reading.needs,
        **reading.certainty(chance),
        attention=LabeledArray.of(attention, **by_letter),
        values=keep_small(
            [layer.values for layer in reading.layers],
            always=config is not None,
            **by_letter,
            component=range(reading.layers[0].values.shape[-1]),
        ),
        entropy=LabeledArray.of(entropy(attention) / np.log(2), layer=layers, head=heads),
        overlap=LabeledArray.of(
            np.minimum(attention[:, :, None], attention[:, None]).sum(-1), **by_pair
        ),
        writing=LabeledArray.of(np.stack([_writing(layer) for layer in reading.layers]), **by_pair),
        effective_rank=LabeledArray.of(np.stack(ranks), layer=layers, head=heads),
        observed=LabeledArray.of(
            np.stack([layer.weights for layer in reading.layers]),
            layer=layers,
            string=reading.rows,
            head=heads,
            letter=reading.tokens,
        ),
    )
    if needs := result.needs_among(reading.tokens):
        result = result.model_copy(update={"unread": _unread(model, needs, result.reads[0])})
    return result


def once_each(config: ClassifierConfig | None, layer: Layer) -> Floats:
    """`[head letter]`: the attention of a string in which every letter occurs once."""
    # CLS is looked at too where the model attends to it, but it is no letter of the string.
    letters = layer.scores.shape[1] - (config is not None and config.attend_cls)
    factor = 1.0 if config is None else float(score_factor(config, np.array([letters]))[0])
    return np.asarray(softmax(factor * layer.scores, axis=-1))


def entropy(shares: Floats) -> Floats:
    """In nats, over the last axis; 0 log 0 is 0."""
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return np.asarray(-(shares * logs).sum(-1))


def _effective_ranks(model: Any, layer: Layer) -> Floats:
    """`[head]`: exp of the entropy of the normalised singular values of W_V W_O.

    With W_V = Q R and W_O^T = Q' R' they are those of R R'^T, which is only d_head wide.
    """
    import torch

    w_v = weight(model, layer.index, "attn", "W_V")
    if w_v is None:
        return np.full(len(layer.output), np.nan)
    w_v = np.repeat(w_v, len(layer.output) // len(w_v), axis=0)  # heads that share values
    with one_thread():
        read = torch.linalg.qr(torch.from_numpy(w_v), mode="r").R
        written = torch.linalg.qr(torch.from_numpy(layer.output).mT, mode="r").R
        strengths = torch.linalg.svdvals(read @ written.mT).numpy()
    total = strengths.sum(-1, keepdims=True)
    return np.exp(entropy(strengths / np.where(total > 0, total, 1.0)))


def _writing(layer: Layer) -> Floats:
    """The cosine of what two heads write: v_t W_O, centred over the letters."""
    import torch

    values = layer.values - reduce(layer.values, "head letter d_head -> head 1 d_head", "mean")
    with one_thread():
        written = torch.from_numpy(values) @ torch.from_numpy(layer.output)
        flat = rearrange(written, "head letter d_model -> head (letter d_model)")
        norms = torch.linalg.norm(flat, dim=1, keepdim=True)
        unit = flat / torch.where(norms > 0, norms, 1.0)
        return as_array(unit @ unit.mT)


def _unread(model: Any, needs: str, reads: Sequence[str]) -> tuple[Unread, ...]:
    """The letters the task names that no head reads, and what that does to a string."""
    unread = []
    for letter in needs:
        if letter not in reads:
            without = needs.replace(letter, "")
            outputs = as_array(model([needs, without])) if without else np.empty(0)
            logits = tuple(outputs.tolist()) if outputs.ndim == 1 else ()  # not of several outputs
            unread.append(Unread(letter=letter, with_it=needs, without_it=without, logits=logits))
    return tuple(unread)
