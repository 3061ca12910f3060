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
    return float(logits(config, weights, text)[0])


def logits(config: ClassifierConfig, weights: dict[str, NDArray], text: str) -> Vector:
    """Every output's."""
    w = {name: np.asarray(value, dtype=np.float64) for name, value in weights.items()}
    letters = [2 + "abcdefghijklmnopqrstuvwxyz".index(letter) for letter in text]
    tokens = {"first": [0, *letters], "last": [*letters, 0], "last_letter": letters}[config.reads]
    states = [w["embed.W_E"][token] for token in tokens]
    if config.n_positions and config.positions in ("learned", "sinusoidal"):
        states = [state + _position(config, w, i) for i, state in enumerate(states)]
    causal = config.reads != "first"
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        if config.n_heads:
            normed = [_norm(config, w, f"{block}.ln1", x) for x in states]
            states = [
                x + _attend(config, w, f"{block}.attn", y, normed[: i + 1] if causal else normed, i)
                for i, (x, y) in enumerate(zip(states, normed, strict=True))
            ]
        if config.d_mlp:
            states = [
                x + _mlp(config, w, f"{block}.mlp", _norm(config, w, f"{block}.ln2", x))
                for x in states
            ]
    read = states[0] if config.reads == "first" else states[-1]
    if config.final_norm:
        read = _norm(config, w, "ln_final", read)
    columns = w["embed.W_E"][2:].T if config.tied_embeddings else w["unembed.W_U"]
    return np.asarray(read @ columns + _bias(config, w, "unembed.b_U"))


def _position(config: ClassifierConfig, w: dict[str, Vector], place: int) -> Vector:
    if config.positions == "learned":
        return w["pos_embed.W_pos"][place]
    wave = [place / 10_000 ** ((i - i % 2) / config.d_model) for i in range(config.d_model)]
    return np.array([math.cos(a) if i % 2 else math.sin(a) for i, a in enumerate(wave)])


def _bias(config: ClassifierConfig, w: dict[str, Vector], name: str) -> Vector | float:
    return w[name] if config.biases else 0.0


def _attend(
    config: ClassifierConfig,
    w: dict[str, Vector],
    name: str,
    x: Vector,
    everyone: list[Vector],
    place: int,
) -> Vector:
    skipped = 0 if config.attend_cls else 1
    keys = everyone[skipped:]
    out = np.zeros(config.d_model) + _bias(config, w, f"{name}.b_O")
    b = {part: w[f"{name}.b_{part}"] if config.biases else np.zeros((99, 1)) for part in "QKV"}
    for head in range(config.n_heads):
        shared = head * (config.n_key_value_heads or config.n_heads) // config.n_heads
        query = _seen(config, w, x, place) @ w[f"{name}.W_Q"][head] + b["Q"][head]
        query = _turn(config, _head_norm(config, w, f"{name}.q_norm.w", query), place)
        scores = []
        for where, key in enumerate(keys, skipped):
            looked_at = _seen(config, w, key, where) @ w[f"{name}.W_K"][shared] + b["K"][shared]
            looked_at = _turn(config, _head_norm(config, w, f"{name}.k_norm.w", looked_at), where)
            score = float(query @ looked_at) / (config.attention_scale or math.sqrt(config.d_head))
            if config.positions == "alibi":
                score -= (place - where) * 2 ** (-8 * (head + 1) / config.n_heads)
            if config.score_scale in ("sqrt_d_head_log_n", "sqrt_d_head_ssmax"):
                score *= math.log(len(everyone) - 1)
            if config.score_scale == "sqrt_d_head_ssmax":
                score *= w[f"{name}.log_n_factor"][head]
            if config.score_scale == "sqrt_d_head_log_n_cls":
                score *= math.log(len(everyone))
            scores.append(score)
        if config.adaptive_temperature:
            scores = [_inverse_temperature(scores) * score for score in scores]
        top = max(scores)
        shares = [math.exp(score - top) for score in scores]
        for share, key in zip(shares, keys, strict=True):
            value = key @ w[f"{name}.W_V"][shared] + b["V"][shared]
            out += share / sum(shares) * (value @ w[f"{name}.W_O"][head])
    if config.attention_norm == "off":
        return out
    normed = config.replace(norm=config.attention_norm)
    return _norm(normed, w, name.replace("attn", "ln1_post"), out)


def _seen(config: ClassifierConfig, w: dict[str, Vector], x: Vector, place: int) -> Vector:
    return x + w["pos_embed.W_pos"][place] if config.positions == "shortformer" else x


def _head_norm(config: ClassifierConfig, w: dict[str, Vector], name: str, x: Vector) -> Vector:
    if config.qk_norm == "off":
        return x
    return x / math.sqrt((x * x).mean() + config.norm_eps) * w.get(name, 1.0)


def _turn(config: ClassifierConfig, x: Vector, place: int) -> Vector:
    """Complex numbers, each turned by its own angle."""
    if config.positions != "rotary":
        return x
    width, out = config.rotary_dim or config.d_head, x.copy()
    for pair in range(width // 2):
        step = width // 2
        i, j = (2 * pair, 2 * pair + 1) if config.rotary_adjacent_pairs else (pair, pair + step)
        angle = place * config.rotary_base ** (-2 * pair / width)
        turned = complex(x[i], x[j]) * complex(math.cos(angle), math.sin(angle))
        out[i], out[j] = turned.real, turned.imag
    return out


def _inverse_temperature(scores: list[float]) -> float:
    shares = np.exp(np.array(scores) - max(scores))
    shares = shares / shares.sum()
    entropy = -sum(p * math.log(p) for p in shares if p > 0)
    fitted = -0.037 * entropy**4 + 0.481 * entropy**3 - 2.3 * entropy**2 + 4.917 * entropy - 1.791
    return max(fitted, 1.0) if entropy > 0.5 else 1.0


def _mlp(config: ClassifierConfig, w: dict[str, Vector], name: str, x: Vector) -> Vector:
    act = ACTIVATIONS[config.act_fn]
    if config.gated_mlp:
        opened = np.array([act(float(t)) for t in x @ w[f"{name}.W_gate"]])
        post = opened * (x @ w[f"{name}.W_in"]) + _bias(config, w, f"{name}.b_in")
    else:
        pre = x @ w[f"{name}.W_in"] + _bias(config, w, f"{name}.b_in")
        post = np.array([act(float(t)) for t in pre])
    return np.asarray(post @ w[f"{name}.W_out"] + _bias(config, w, f"{name}.b_out"))


ACTIVATIONS = {
    "gelu": lambda t: 0.5 * t * (1 + math.erf(t / math.sqrt(2))),
    "gelu_new": lambda t: 0.5 * t * (1 + math.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t**3))),
    "relu": lambda t: max(t, 0.0),
    "silu": lambda t: t / (1 + math.exp(-t)),
}


def _norm(config: ClassifierConfig, w: dict[str, Vector], name: str, x: Vector) -> Vector:
    if config.norm == "off":
        return x
    if config.norm in ("layer", "layer_pre"):
        x = x - x.mean()
    x = x / math.sqrt((x * x).mean() + config.norm_eps)
    if config.norm in ("layer", "rms"):
        x = x * w[f"{name}.w"]
    return x + w[f"{name}.b"] if config.norm == "layer" else x
