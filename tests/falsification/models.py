"""Small TransformerLens models with hand-written weights, right or with one planted bug."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from tsc_interp.model.import_files import build

SHARP = 60.0
"""A score that leaves other places a weight of e^-60."""


def lens(options: dict[str, Any], state: dict[str, Any]) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return build(options, {k: torch.as_tensor(v).float() for k, v in state.items()})


def reader(n: int, k: int, heads: np.ndarray, out: np.ndarray, bias: list[float]) -> Any:
    """START (token k) reads n letters, one head each; head h adds `heads[h]` times the letter.

    Neurons are the sums and their negatives after ReLU; `out` reads them.
    """
    sums = heads.shape[1]
    d = 1 + (n + 1) + sums + len(bias)
    at, answer = slice(n + 2, n + 2 + sums), slice(n + 2 + sums, d)
    embed, positions = np.zeros((k + 1, d)), np.zeros((n + 1, d))
    embed[:k, 0] = np.arange(k)
    positions[:, 1 : n + 2] = np.eye(n + 1)
    query, key = np.zeros((n, d, 1)), np.zeros((n, d, 1))
    value, output = np.zeros((n, d, 1)), np.zeros((n, 1, d))
    query[:, 1] = SHARP
    for h in range(n):
        key[h, 2 + h] = 1.0
        value[h, 0] = 1.0
        output[h, 0, at] = heads[h]
    into, back = np.zeros((d, 2 * sums)), np.zeros((2 * sums, d))
    into[at] = np.hstack([np.eye(sums), -np.eye(sums)])
    back[:, answer] = out
    unembed = np.zeros((d, len(bias)))
    unembed[answer] = np.eye(len(bias))
    zeros = {"attn.b_Q": (n, 1), "attn.b_K": (n, 1), "attn.b_V": (n, 1), "attn.b_O": d,
             "mlp.b_in": 2 * sums, "mlp.b_out": d}  # fmt: skip
    state = {
        "embed.W_E": embed, "pos_embed.W_pos": positions, "unembed.W_U": unembed,
        "unembed.b_U": np.array(bias), "blocks.0.attn.W_Q": query, "blocks.0.attn.W_K": key,
        "blocks.0.attn.W_V": value, "blocks.0.attn.W_O": output, "blocks.0.mlp.W_in": into,
        "blocks.0.mlp.W_out": back,
        **{f"blocks.0.{name}": np.zeros(shape) for name, shape in zeros.items()},
    }  # fmt: skip
    options = {
        "n_layers": 1, "n_ctx": n + 1, "d_model": d, "d_head": 1, "n_heads": n, "d_mlp": 2 * sums,
        "act_fn": "relu", "d_vocab": k + 1, "d_vocab_out": len(bias),
        "normalization_type": None, "attention_dir": "bidirectional",
    }  # fmt: skip
    return lens(options, state)


def palindrome_model(pairs: int, k: int, missing: int | None = None, gap: float = 0.5) -> Any:
    """Class 1 when all pairs agree; the pair number `missing` (from 0) is never compared."""
    n = 2 * pairs
    heads = np.zeros((n, pairs))
    for i in range(pairs):
        if i != missing:
            heads[i, i], heads[n - 1 - i, i] = 1.0, -1.0
    return reader(n, k, heads, np.tile([1.0, 0.0], (2 * pairs, 1)), [0.0, gap])


def carry_model(lost: bool) -> Any:
    """Class 1 when two numbers of two digits add up to 100 or more; `lost`: units do not carry."""
    unit = 0.0 if lost else 1.0
    heads = np.array([[10.0], [unit], [10.0], [unit]])
    out = np.array([[0.0, 1.0], [0.0, -1.0]])
    return reader(4, 10, heads, out, [99.5, 0.0])


def any_model(n: int, ignored: int | None = None) -> Any:
    """Class 1 when a letter other than 0 occurs; the place `ignored` (from 0) is not looked at."""
    heads = np.ones((n, 1))
    if ignored is not None:
        heads[ignored] = 0.0
    return reader(n, 2, heads, np.array([[0.0, 1.0], [0.0, 0.0]]), [0.5, 0.0])


def random_model(seed: int = 0, **changes: Any) -> Any:
    """Two layers with everything the family has, and weights large enough to matter."""
    options: dict[str, Any] = {
        "n_layers": 2, "n_ctx": 9, "d_model": 12, "d_head": 4, "n_heads": 3, "d_mlp": 10,
        "act_fn": "gelu", "d_vocab": 7, "d_vocab_out": 5, "normalization_type": "LN",
        "attention_dir": "causal",
    }  # fmt: skip
    options |= changes
    torch.manual_seed(seed)
    d, h, w, m = (options[name] for name in ("d_model", "n_heads", "d_head", "d_mlp"))
    shapes: dict[str, Any] = {
        "embed.W_E": (options["d_vocab"], d), "pos_embed.W_pos": (options["n_ctx"], d),
        "unembed.W_U": (d, options["d_vocab_out"]), "unembed.b_U": (options["d_vocab_out"],),
    }  # fmt: skip
    norm = options["normalization_type"]
    for i in range(options["n_layers"]):
        block = f"blocks.{i}"
        shapes |= {f"{block}.attn.W_{p}": (h, d, w) for p in "QKV"}
        shapes |= {f"{block}.attn.b_{p}": (h, w) for p in "QKV"}
        shapes |= {f"{block}.attn.W_O": (h, w, d), f"{block}.attn.b_O": (d,)}
        shapes |= {f"{block}.mlp.W_in": (d, m), f"{block}.mlp.b_in": (m,)}
        shapes |= {f"{block}.mlp.W_out": (m, d), f"{block}.mlp.b_out": (d,)}
        if norm is not None:
            shapes |= {f"{block}.ln{j}.w": (d,) for j in (1, 2)}
    if norm is not None:
        shapes["ln_final.w"] = (d,)
    if norm == "LN":
        shapes |= {name[:-1] + "b": shape for name, shape in shapes.items() if name[-2:] == ".w"}
    state = {name: torch.randn(shape) * 0.6 for name, shape in shapes.items()}
    return lens(options, state)
