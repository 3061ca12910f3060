"""An independent forward pass: plain NumPy loops over one string, no masks, no batches, no tricks.

Written from the mathematics in the documentation, sharing no code with the package beyond the names
of options and weights. Slow on purpose.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig

Vector = NDArray[np.float64]


def logit(config: ClassifierConfig, weights: dict[str, NDArray], text: str) -> float:
    """The logit of an expanded string such as `aabc`."""
    w = {name: np.asarray(value, dtype=np.float64) for name, value in weights.items()}
    tokens = [0, *(2 + "abcdefghijklmnopqrstuvwxyz".index(letter) for letter in text)]
    states = [w["embed.W_E"][token] for token in tokens]
    if config.n_positions:
        states = [state + w["pos_embed.W_pos"][i] for i, state in enumerate(states)]
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        if config.n_heads:
            normed = [_norm(config, w, f"{block}.ln1", x) for x in states]
            states = [
                x + _attend(config, w, f"{block}.attn", y, normed)
                for x, y in zip(states, normed, strict=True)
            ]
        if config.d_mlp:
            states = [
                x + _mlp(w, f"{block}.mlp", _norm(config, w, f"{block}.ln2", x)) for x in states
            ]
    return float(states[0] @ w["unembed.W_U"][:, 0])


def _attend(
    config: ClassifierConfig, w: dict[str, Vector], name: str, x: Vector, everyone: list[Vector]
) -> Vector:
    keys = everyone if config.attend_cls else everyone[1:]
    out = np.zeros(config.d_model)
    for head in range(config.n_heads):
        query = x @ w[f"{name}.W_Q"][head]
        scores = []
        for key in keys:
            score = float(query @ (key @ w[f"{name}.W_K"][head])) / math.sqrt(config.d_head)
            if config.score_scale == "sqrt_d_head_log_n":
                score *= math.log(len(everyone) - 1)
            scores.append(score)
        top = max(scores)
        shares = [math.exp(score - top) for score in scores]
        for share, key in zip(shares, keys, strict=True):
            value = key @ w[f"{name}.W_V"][head]
            out += share / sum(shares) * (value @ w[f"{name}.W_O"][head])
    return out


def _mlp(w: dict[str, Vector], name: str, x: Vector) -> Vector:
    pre = x @ w[f"{name}.W_in"]
    post = np.array([0.5 * t * (1 + math.erf(t / math.sqrt(2))) for t in pre])
    return np.asarray(post @ w[f"{name}.W_out"])


def _norm(config: ClassifierConfig, w: dict[str, Vector], name: str, x: Vector) -> Vector:
    if config.norm == "off":
        return x
    if config.norm == "layer":
        x = x - x.mean()
    x = x / math.sqrt((x * x).mean() + config.norm_eps) * w[f"{name}.w"]
    return x + w[f"{name}.b"] if config.norm == "layer" else x
