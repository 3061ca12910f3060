"""Adders in the format of staghado/minimal-ten-digit-addition-transformer: one block of Qwen 3.

Letters are the ten digits; a zero stands where other adders have `+` and `=`. Queries and keys have
norms of their own and are turned by their place; several heads share one of keys and values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import tsc_interp as tsc
from studies.public_models.readers import State, causal, normed

EPS, THETA, PLACES = 1e-6, 3.0, 34
BLOCK = "model.layers.0."
_NORMS = {
    "blocks.0.ln1": BLOCK + "input_layernorm",
    "blocks.0.ln2": BLOCK + "post_attention_layernorm",
    "ln_final": "model.norm",
    "blocks.0.attn.q_norm": BLOCK + "self_attn.q_norm",
    "blocks.0.attn.k_norm": BLOCK + "self_attn.k_norm",
}


def qwen_task() -> Any:
    """0, ten digits, 0 0, ten digits, 0: then the sum, least significant digits first."""
    return tsc.tasks.Addition(operands="least", before=(0,), plus=(0, 0), equals=(0,))


def qwen_state(path: Path) -> State:
    """The tensors of a file."""
    with np.load(path, allow_pickle=False) as stored:
        return {name: torch.from_numpy(stored[name]).float() for name in stored.files}


def qwen_adder(path: Path, task: Any = "contains_all") -> tsc.Checkpoint:
    """The block as one layer of the family: the same numbers, in other shapes."""
    w = qwen_state(path)
    tokens, d_model = w["model.embed_tokens.weight"].shape
    d_head = len(w[f"{BLOCK}self_attn.q_norm.weight"])
    heads, shared = (len(w[f"{BLOCK}self_attn.{part}_proj.weight"]) // d_head for part in "qk")
    config = tsc.ClassifierConfig(
        n_letters=tokens, n_outputs=tokens, task=task, d_model=d_model, n_heads=heads,
        n_key_value_heads=0 if shared == heads else shared, d_head=d_head, qk_norm="rms",
        d_mlp=len(w[f"{BLOCK}mlp.up_proj.weight"]), act_fn="silu", gated_mlp=True, norm="rms",
        norm_eps=EPS, final_norm=True, tied_embeddings=True, positions="rotary", rotary_base=THETA,
        n_positions=PLACES, reads="last_letter", attend_cls=True,
    )  # fmt: skip
    projections = {f"blocks.0.attn.W_{part.upper()}": f"{part}_proj" for part in "qkv"}
    out = w[f"{BLOCK}self_attn.o_proj.weight"].T.reshape(heads, d_head, d_model)
    arrays = {
        "embed.W_E": w["model.embed_tokens.weight"],
        **{
            ours: w[f"{BLOCK}self_attn.{theirs}.weight"]
            .reshape(-1, d_head, d_model)
            .transpose(1, 2)
            for ours, theirs in projections.items()
        },
        "blocks.0.attn.W_O": out,
        "blocks.0.mlp.W_gate": w[f"{BLOCK}mlp.gate_proj.weight"].T,
        "blocks.0.mlp.W_in": w[f"{BLOCK}mlp.up_proj.weight"].T,
        "blocks.0.mlp.W_out": w[f"{BLOCK}mlp.down_proj.weight"].T,
        **{f"{ours}.w": w[f"{theirs}.weight"] for ours, theirs in _NORMS.items()},
    }
    return tsc.from_arrays(config, arrays, provenance={"file": path.name}, source=path.stem)


def qwen_outputs(w: State, letters: Tensor) -> Tensor:
    """The outputs at every position, `[batch pos out]`, in the precision of the weights."""
    x = w["model.embed_tokens.weight"][letters]
    h = normed(w, _NORMS["blocks.0.ln1"], x, EPS)
    q, k, v = (heads(h @ w[f"{BLOCK}self_attn.{part}_proj.weight"].T, w) for part in "qkv")
    q = turned(normed(w, _NORMS["blocks.0.attn.q_norm"], q, EPS))
    k = turned(normed(w, _NORMS["blocks.0.attn.k_norm"], k, EPS))
    each = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(each, 1), v.repeat_interleave(each, 1)
    z = causal(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5) @ v
    x = x + z.transpose(1, 2).flatten(2) @ w[f"{BLOCK}self_attn.o_proj.weight"].T
    h = normed(w, _NORMS["blocks.0.ln2"], x, EPS)
    gate, up, down = (w[f"{BLOCK}mlp.{name}_proj.weight"].T for name in ("gate", "up", "down"))
    x = x + (functional.silu(h @ gate) * (h @ up)) @ down
    return normed(w, _NORMS["ln_final"], x, EPS) @ w["model.embed_tokens.weight"].T


def heads(rows: Tensor, w: State) -> Tensor:
    """`[batch pos (head d)]` to `[batch head pos d]`."""
    d_head = len(w[f"{BLOCK}self_attn.q_norm.weight"])
    return rows.unflatten(-1, (-1, d_head)).transpose(1, 2)


def turned(x: Tensor) -> Tensor:
    """Component i and i + d/2 are turned together, by the place times a rate that falls with i."""
    half = x.shape[-1] // 2
    rates = THETA ** -(torch.arange(half, dtype=x.dtype) / half)
    angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * rates
    first, second = x[..., :half], x[..., half:]
    c, s = angle.cos(), angle.sin()
    return torch.cat([first * c - second * s, first * s + second * c], dim=-1)
