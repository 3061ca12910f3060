"""What CLS's heads see of letters, read off the weights of a one-layer model without norms."""

from __future__ import annotations

import math

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.laboratories.every_string import Floats


def letter_scores(checkpoint: Checkpoint) -> Floats:
    """`[head letter]`: the scores before any factor of length."""
    w = {name: weight.astype(np.float64) for name, weight in checkpoint.weights.items()}
    letters, cls = w["embed.W_E"][2:], w["embed.W_E"][0]
    query = np.einsum("d,hdk->hk", cls, w["blocks.0.attn.W_Q"])
    keys = np.einsum("td,hdk->htk", letters, w["blocks.0.attn.W_K"])
    scores = np.einsum("hk,htk->ht", query, keys) / math.sqrt(checkpoint.config.d_head)
    return np.asarray(scores)


def letter_weights(scores: Floats, counts: Floats) -> Floats:
    """`[vector head letter]`: attention weights of plain softmax, CLS not attended to."""
    heavy = counts[:, None, :] * np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(heavy / heavy.sum(axis=2, keepdims=True))
