"""A one-layer classifier as its edges: what each reader receives from each writer, per string.

Without norms, a neuron's input and the logit are sums over writers (the embedding of CLS, the
heads, the neurons), and cutting an edge takes one term away. So once the terms are known for every
count vector, what any of thousands of circuits answers is a few sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.interventions.parts import Edge, Part
from tsc_interp.model.classifier import Classifier
from tsc_interp.strings import Counts

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Wiring:
    """Terms in float64: `heard[writer][vector reader]`, readers being the neurons and the logit."""

    writers: tuple[Part, ...]
    heard: Array
    """`[writer vector reader]`, the logit last."""
    outputs: Array
    """`[neuron]`: what a neuron's activation adds to the logit."""

    @property
    def neurons(self) -> int:
        return len(self.outputs)

    def pairs(self) -> list[tuple[Part, Part]]:
        """(writer, reader), in the order of the columns of `logits`."""
        layer = [Part("neuron", 0, n) for n in range(self.neurons)]
        into = [(w, reader) for reader in [*layer, Part("logit")] for w in self.writers]
        return into + [(neuron, Part("logit")) for neuron in layer]

    def edges(self) -> list[Edge]:
        return [Edge(*pair) for pair in self.pairs()]

    def logits(self, keep: NDArray[np.bool_], fill: Wiring | None = None) -> Array:
        """`[circuit vector]`, for circuits given by which `pairs()` they keep, `[circuit edge]`.

        A term that is not kept is zero, or its mean over the strings of `fill`.
        """
        readers, writers = self.neurons + 1, len(self.writers)
        into = keep[:, : readers * writers].reshape(-1, readers, writers).astype(float)
        out = keep[:, readers * writers :].astype(float)
        total = np.einsum("crw,wvr->cvr", into, self.heard)
        if fill is not None:
            total += np.einsum("crw,wr->cr", 1 - into, fill.heard.mean(axis=1))[:, None]
        active = _gelu(total[..., : self.neurons])
        heard = np.einsum("cvn,cn->cv", active, out * self.outputs)
        if fill is not None:
            usual = _gelu(fill.heard.sum(axis=0)[:, : self.neurons]).mean(axis=0)
            heard += ((1 - out) * (self.outputs * usual)).sum(axis=1)[:, None]
        return np.asarray(total[..., -1] + heard)


def _gelu(x: Array) -> Array:
    return np.asarray(x * ndtr(x))


def wiring(checkpoint: Checkpoint, counts: Counts, *, by_letter: bool = False) -> Wiring:
    """The terms of every count vector; by letter, a head is as many writers as there are letters.

    A head returns Σ weight · value over its keys, so what it says is a sum over letters already.
    What it says of CLS, where that is attended to, goes with the embedding.
    """
    config = checkpoint.config
    weights = {name: w.astype(np.float64) for name, w in checkpoint.weights.items()}
    readout = weights["unembed.W_U"]
    readers = [weights["blocks.0.mlp.W_in"]] if config.has_mlp else []
    reading = np.concatenate([*readers, readout], axis=1)
    z = _by_key(checkpoint, counts)
    out = weights["blocks.0.attn.W_O"]
    embedded = np.broadcast_to(weights["embed.W_E"][0] @ reading, (len(counts), reading.shape[1]))
    writers = [Part("embed")]
    if by_letter:
        contributions = np.einsum("hvxk,hkd,dr->hxvr", z, out, reading, optimize=True)
        embedded = embedded + contributions[:, 0].sum(axis=0)
        heads = contributions[:, 1:].reshape(-1, *embedded.shape)
        every = [(h, x) for h in range(config.n_heads) for x in config.alphabet.letters]
        writers += [Part("value", 0, h, letter) for h, letter in every]
    else:
        heads = np.einsum("hvxk,hkd,dr->hvr", z, out, reading, optimize=True)
        writers += [Part("head", 0, h) for h in range(config.n_heads)]
    outputs = (weights["blocks.0.mlp.W_out"] @ readout)[:, 0] if config.has_mlp else np.zeros(0)
    return Wiring(tuple(writers), np.concatenate([embedded[None], heads]), outputs)


def _by_key(checkpoint: Checkpoint, counts: Counts) -> Array:
    """`[head vector key d_head]`: weight times value as CLS reads them; keys are CLS, a, b, ..."""
    import torch

    model = Classifier.from_checkpoint(checkpoint).double()
    names = [f"blocks.0.attn.hook_{name}" for name in ("pattern", "v")]
    with torch.no_grad():
        cache = model.run_with_cache(model.counts(counts), names_filter=names)[1]
    pattern, value = (cache[name].numpy() for name in names)
    return np.asarray(np.einsum("vhx,vxhk->hvxk", pattern[:, :, 0], value))
