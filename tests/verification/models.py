"""Models to verify: random ones of every kind, and hand-built ones whose errors are known."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from tests.cases import CONFIGS, FAMILY
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.initialise import initial_weights
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Parity

VERIFIED = [
    *CONFIGS,
    ClassifierConfig(n_letters=1, task=ContainsAll(letters="a"), attend_cls=True),
    ClassifierConfig(n_letters=4, task=ContainsAll(letters="bcd"), d_model=3),
    ClassifierConfig(task=AtLeast(letter="b", k=2)),
    ClassifierConfig(task=Majority(letter="c"), attend_cls=True),
    ClassifierConfig(n_letters=2, task=Parity(letter="b", odd=False)),
    ClassifierConfig(task=Parity(letter="a"), score_scale="sqrt_d_head_log_n", n_heads=3),
]

COUNTED = [c for c in FAMILY if not c.needs_order and c.n_outputs == 1]
"""What the report does not have and counts decide."""
WIDER = [*VERIFIED, *(c for c in COUNTED if c.n_layers == 1)]
"""Two layers are searched as in `VERIFIED`; here they would take minutes."""


def random_checkpoint(config: ClassifierConfig, seed: int, scale: float = 2.0) -> Checkpoint:
    """Fresh weights made larger, so that signs change within short strings; biases are drawn."""
    rng = np.random.default_rng(seed)
    weights = {
        name: rng.normal(size=w.shape).astype(np.float32)
        if ".b_" in name or (config.beyond_report and name.endswith(".b"))
        else w.numpy() * np.float32(scale)
        for name, w in initial_weights(config, seed).items()
    }
    return Checkpoint(config, weights)


def small_vectors(letters: int, max_length: int) -> np.ndarray:
    """Every count vector of 1 to max_length letters, by the plainest loop there is."""
    rows = product(range(max_length + 1), repeat=letters)
    return np.array([row for row in rows if 1 <= sum(row) <= max_length])


def hand_built(
    scores: list[list[float]],
    values: list[list[float]],
    threshold: float,
    **options: Any,
) -> Checkpoint:
    """No MLP; logit = Σ over heads of the attention-weighted mean of `values` - threshold.

    `scores[head][letter]` are the CLS query's scores and `values[head][letter]` what they read.
    Embeddings are unit vectors, so every table is a row of a weight matrix.
    """
    heads, letters = len(scores), len(scores[0])
    width = letters + 2
    config = ClassifierConfig(
        n_letters=letters, n_heads=heads, d_head=1, d_model=width, d_mlp=0, **options
    )
    embedding = np.zeros((letters + 2, width), dtype=np.float32)
    embedding[0, 0] = 1.0
    embedding[2:, 2:] = np.eye(letters)
    query, key = np.zeros((heads, width, 1)), np.zeros((heads, width, 1))
    value, out = np.zeros((heads, width, 1)), np.zeros((heads, 1, width))
    query[:, 0, 0] = 1.0
    key[:, 2:, 0], value[:, 2:, 0] = scores, values
    out[:, 0, 1] = 1.0
    unembed = np.zeros((width, 1))
    unembed[0], unembed[1] = -threshold, 1.0
    arrays = {
        "embed.W_E": embedding,
        "blocks.0.attn.W_Q": query,
        "blocks.0.attn.W_K": key,
        "blocks.0.attn.W_V": value,
        "blocks.0.attn.W_O": out,
        "unembed.W_U": unembed,
    }
    return Checkpoint(config, {name: array.astype(np.float32) for name, array in arrays.items()})


def planted(first_failing: int, c_score: float = 0.0, **options: Any) -> Checkpoint:
    """Contains `a`? Right until one `a` is outnumbered by `first_failing` b's, and then wrong.

    logit = w / (w + others) - 1/2, the a weighing w = first_failing - 1/2 and a b weighing 1.
    """
    scores = [math.log(first_failing - 0.5), 0.0, c_score]
    return hand_built([scores], [[1, 0, 0]], 0.5, task=ContainsAll(letters="a"), **options)


def twelve_weights() -> Checkpoint:
    """One head, one dimension, one GELU neuron, no biases: right on every string up to 1,000.

    With CLS at -1, what the neuron reads is r = the mean of -0.1 (a), 1 (b) and -10 (c), in which b
    outweighs a by e^5.5 and c by e^55. The logit r - α GELU(2 r) is above zero for 0 < r < 1 - 1e-6
    alone: r is below that interval without b, above it without a, and inside it with both.
    """
    inner = 1 - 1e-6
    alpha = inner / (inner * (1 + math.erf(2 * inner / math.sqrt(2))))
    one = np.ones((1, 1, 1), dtype=np.float32)
    config = ClassifierConfig(d_model=1, n_heads=1, d_head=1, d_mlp=1)
    arrays = {
        "embed.W_E": np.array([[-1], [0], [0.9], [2], [-9]]),
        "blocks.0.attn.W_Q": one,
        "blocks.0.attn.W_K": -5 * one,
        "blocks.0.attn.W_V": one,
        "blocks.0.attn.W_O": one,
        "blocks.0.mlp.W_in": 2 * one[0],
        "blocks.0.mlp.W_out": -alpha * one[0],
        "unembed.W_U": one[0],
    }
    return Checkpoint(config, {name: array.astype(np.float32) for name, array in arrays.items()})


def unfailing() -> Checkpoint:
    """Scores scaled by log n, two specialised heads: right on every string of every length.

    One a among n letters weighs n^3 against at most n - 1, so each head says whether its letter is
    there, and the logit is about 2 · (a is there + b is there) - 3.
    """
    options = {"score_scale": "sqrt_d_head_log_n"}
    return hand_built([[3, 0, 0], [0, 3, 0]], [[2, 0, 0], [0, 2, 0]], 3.0, **options)


# -- the same function in other numbers: whatever holds for one holds for the other ----------------


def shifted(checkpoint: Checkpoint, by: float) -> Checkpoint:
    """A hand-built model with `by` added to every score, which attention does not see."""
    weights = {name: weight.copy() for name, weight in checkpoint.weights.items()}
    weights["embed.W_E"][2:, 1] = 1.0
    weights["blocks.0.attn.W_K"][:, 1] = by
    return Checkpoint(checkpoint.config, weights)


def with_cancelling_heads(checkpoint: Checkpoint, size: float) -> Checkpoint:
    """Two more heads that read ±`size`, with the same scores: together they add nothing."""
    config = checkpoint.config.replace(n_heads=checkpoint.config.n_heads + 2)
    weights = dict(checkpoint.weights)
    for part in "QKVO":
        name = f"blocks.0.attn.W_{part}"
        more = weights[name][[0, 0]].copy()
        if part == "V":
            more[:] = np.float32(size) * np.array([1, -1], np.float32)[:, None, None]
        weights[name] = np.concatenate([weights[name], more])
    return Checkpoint(config, weights)


def rescaled(checkpoint: Checkpoint, power: int) -> Checkpoint:
    """One layer without norm, its residual stream times 2^power, read back divided by that."""
    factors = {"W_E": power, "W_O": power, "W_out": power}
    factors |= dict.fromkeys(("W_Q", "W_K", "W_V", "W_in", "W_U"), -power)
    return Checkpoint(
        checkpoint.config,
        {
            name: np.ldexp(weight, factors[name.split(".")[-1]]).astype(np.float32)
            for name, weight in checkpoint.weights.items()
        },
    )
