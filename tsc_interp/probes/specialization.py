"""Which letter does each head read, and do heads repeat each other? Chapters 2 and 4.

A head's reading is its attention if every letter occurred once: p_t = exp(s_t) / sum_i exp(s_i).
From it: the letter it reads (the largest p), its entropy in bits, and the overlap of two heads,
sum_t min(p_t, p'_t), which is 1 when they attend alike. What two heads write is compared as the
cosine of their outputs over the letters, v_t W_O, centred. Heads that overlap tell the model one
thing twice, and a letter the task names that no head reads cannot be noticed: the cause of the
false positives of `lower_magnitude_initializations` seed 2. The effective rank of W_V W_O (the
exponential of the entropy of its normalised singular values) says how many dimensions a head
really copies.

Reads `hook_q`, `hook_k`, `hook_v`, `hook_pattern`; works per layer, on any TransformerLens model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tsc_interp.probes.base import LabeledArray, ProbeResult, Table
from tsc_interp.probes.reading import Layer, read
from tsc_interp.probes.running import Floats, as_array, classifier_config, score_factor
from tsc_interp.probes.specialization_words import findings

if TYPE_CHECKING:
    from torch import Tensor

    from tsc_interp.config import ClassifierConfig


class SpecializationResult(ProbeResult):
    probe: ClassVar[str] = "specialization"

    attention: LabeledArray
    """`[layer head letter]`: the weights if every letter occurred once."""
    values: LabeledArray
    """`[layer head letter component]`."""
    entropy: LabeledArray
    """`[layer head]`, in bits."""
    overlap: LabeledArray
    """`[layer head other]`: how much of their attention two heads share, 0 to 1."""
    writing: LabeledArray
    """`[layer head other]`: the cosine of what they write, -1 to 1."""
    effective_rank: LabeledArray
    """`[layer head]`: of W_V W_O, between 1 and d_head."""
    observed: LabeledArray
    """`[layer string head letter]`: the weights in the given strings."""

    @property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """The letter each head reads, `[layer][head]`."""
        letters = self.attention.labels["letter"]
        return tuple(
            tuple(letters[t] for t in layer) for layer in self.attention.array.argmax(axis=-1)
        )

    def tables(self) -> tuple[Table, ...]:
        labels = self.attention.labels
        rows = tuple(
            (
                labels["layer"][i],
                labels["head"][h],
                self.reads[i][h],
                *self.attention.array[i, h].tolist(),
                float(self.entropy.array[i, h]),
                float(self.effective_rank.array[i, h]),
            )
            for i, h in np.ndindex(self.entropy.shape)
        )
        weights = tuple(f"weight of {letter}" for letter in labels["letter"])
        columns = ("layer", "head", "reads", *weights, "entropy (bits)", "effective rank of OV")
        return (Table(title="What each head reads", columns=columns, rows=rows), self._pairs())

    def _pairs(self) -> Table:
        labels = self.overlap.labels
        rows = tuple(
            (
                labels["layer"][i],
                f"{labels['head'][h]} and {labels['other'][g]}",
                float(self.overlap.array[i, h, g]),
                float(self.writing.array[i, h, g]),
            )
            for i, h, g in np.ndindex(self.overlap.shape)
            if h < g
        )
        columns = ("layer", "heads", "attention overlap", "cosine of what they write")
        return Table(title="Heads compared", columns=columns, rows=rows)


def run(
    model: Any,
    strings: Sequence[str] | Tensor,
    *,
    query: int | None = None,
    layer: int | None = None,
    direction: ArrayLike | Tensor | None = None,
    token_names: Sequence[str] | None = None,
) -> SpecializationResult:
    """On any TransformerLens model: token ids `[batch pos]` for strings, and a query position."""
    reading = read(
        model, strings, query=query, layer=layer, direction=direction, token_names=token_names
    )
    config = classifier_config(model)
    attention = np.stack([once_each(config, layer) for layer in reading.layers])
    heads, layers = reading.heads, reading.layer_names
    ranks = [_effective_ranks(as_array(model.W_V)[layer.index], layer) for layer in reading.layers]
    by_letter = {"layer": layers, "head": heads, "letter": reading.tokens}
    by_pair = {"layer": layers, "head": heads, "other": heads}
    result = SpecializationResult(
        findings=(),
        not_applicable=reading.caveats(),
        attention=LabeledArray.of(attention, **by_letter),
        values=LabeledArray.of(
            np.stack([layer.values for layer in reading.layers]),
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
    return result.model_copy(update={"findings": findings(model, reading, result)})


def once_each(config: ClassifierConfig | None, layer: Layer) -> Floats:
    """`[head letter]`: the attention of a string in which every letter occurs once."""
    count = np.array([float(layer.scores.shape[1])])
    factor = 1.0 if config is None else float(score_factor(config, count)[0])
    odds = np.exp(factor * (layer.scores - layer.scores.max(axis=-1, keepdims=True)))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def entropy(shares: Floats) -> Floats:
    """In nats, over the last axis; 0 log 0 is 0."""
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return np.asarray(-(shares * logs).sum(-1))


def _effective_ranks(w_v: Floats, layer: Layer) -> Floats:
    """`[head]`: exp of the entropy of the normalised singular values of W_V W_O."""
    strengths = np.linalg.svd(np.einsum("hdk,hke->hde", w_v, layer.output), compute_uv=False)
    total = strengths.sum(-1, keepdims=True)
    return np.exp(entropy(strengths / np.where(total > 0, total, 1.0)))


def _writing(layer: Layer) -> Floats:
    """The cosine of what two heads write: v_t W_O, centred over the letters."""
    written = np.einsum("htk,hkd->htd", layer.values, layer.output)
    flat = (written - written.mean(axis=1, keepdims=True)).reshape(len(written), -1)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    unit = flat / np.where(norms > 0, norms, 1.0)
    return np.asarray(unit @ unit.T)
