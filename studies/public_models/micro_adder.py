"""Adders that keep digits and places apart: evindor/MicroAdder, and those it grew from.

Both stand side by side in the residual stream. Queries and keys read the place, values the digit.
In JackCai1206/smallest-addition-transformer both are tables, or places lie on a spiral. Among
MicroAdders, which parts are there differs: digits may lie on an arc of three numbers, keys may be
the queries before they are turned, and values or the MLP's output may share the head's matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import tsc_interp as tsc
from studies.public_models.readers import State, causal, normed

DIGITS = 10
MICRO_END = 12
"""The token that ends the answer, of models with 14 tokens."""
EPS = 1e-5
_SHORT = {"blocks.0.attn.": "", "blocks.0.ffn.": "", "blocks.0.": "", "norm": "ln"}
_NORM_PARTS = tuple(
    f"{norm}.{part}" for norm in ("ln1", "ln2", "ln_f") for part in ("weight", "bias")
)
_NORMS = {"blocks.0.ln1": "ln1", "blocks.0.ln2": "ln2", "ln_final": "ln_f"}


def micro_state(path: Path) -> State:
    """The tensors of a file under short names, with what is derived from them.

    `digits` and `places` are the embeddings, computed in float32 as the authors do; `key`, `value`,
    `out`, `back` and `down` are the matrices that may be shared with another part.
    """
    stored = torch.load(path, map_location="cpu", weights_only=True)
    w: State = {}
    for name, tensor in stored["model_state_dict"].items():
        for long, short in _SHORT.items():
            name = name.replace(long, short)
        w[name] = tensor
    heads = stored["config"]["n_heads"]
    tied = stored["config"].get("tie_tok_arc_ab", "tok_arc_B" not in w)
    head = w["head_proj.weight"]
    query = w["q_proj.weight"].reshape(heads, -1, w["z_hi_pos"].shape[1])
    value = w.get("v_proj.weight", head.T)
    out = w["out_proj.A"] if "out_proj.A" in w else torch.eye(len(value))
    return w | {
        "digits": w["tok_emb.weight"] if "tok_emb.weight" in w else _arc(w, tied),
        "places": _places(w),
        "query": query,
        "key": w.get("k_proj.weight", w["q_proj.weight"]).reshape(query.shape),
        "turn": w.get("q_phase_angle", torch.zeros(heads)),
        "value": value.reshape(heads, -1, value.shape[1]),
        "out": out.reshape(heads, -1, out.shape[1]),
        "back": w["out_proj.B"] if "out_proj.B" in w else w["out_proj.weight"].T,
        "down": w.get("fc2.weight", head.T),
    }


def jack_state(path: Path) -> State:
    """The tensors of a file of JackCai1206's under the same short names."""
    w: State = dict(torch.load(path, map_location="cpu", weights_only=True))
    i = torch.arange(DIGITS, dtype=torch.float32)
    if "digit_enc" in w:
        digits = w["digit_enc"]
    else:
        amplitude, phase, slope, offset = (
            w[f"pos_spiral_{name}"] for name in ("amp", "phase", "slope", "offset")
        )
        angle = 2.0 * math.pi * i / DIGITS + phase
        rows = [amplitude * angle.cos(), amplitude * angle.sin(), slope * i + offset]
        digits = torch.stack(rows, dim=1)
    plus, equals = w["special_enc"][:1], w["special_enc"][1:2]
    heads = len(w["q_proj.weight"]) // w["q_proj.weight"].shape[1]
    width = len(w["v_proj.weight"])
    query = w["q_proj.weight"].reshape(heads, -1, w["q_proj.weight"].shape[1])
    shared = {f"ln2.{part}": w[f"ln1.{part}"] for part in ("weight", "bias") if f"ln1.{part}" in w}
    return {
        **shared,
        **w,
        "digits": w["tok_emb.weight"],
        "places": torch.cat([digits, plus, digits, equals, digits, w["z10_enc"]]),
        "query": query,
        "key": w["k_proj.weight"].reshape(query.shape),
        "turn": torch.zeros(heads),
        "value": w["v_proj.weight"].reshape(heads, -1, w["v_proj.weight"].shape[1]),
        "out": torch.eye(width).reshape(heads, -1, width),
        "back": w["out_proj.weight"].T,
        "fc1.weight": w["ffn.0.weight"],
        "fc1.bias": w["ffn.0.bias"],
        "down": w["ffn.2.weight"],
        "fc2.bias": w["ffn.2.bias"],
    }


def _arc(w: State, tied: bool) -> Tensor:
    angles = w["tok_arc_start"] + torch.arange(DIGITS, dtype=torch.float32) * w["tok_arc_stride"]
    across, along = w["tok_arc_A"], w["tok_arc_A" if tied else "tok_arc_B"]
    return torch.stack([across * angles.cos(), along * angles.sin()], dim=1)


def _places(w: State) -> Tensor:
    """Of `a0..a9 + b0..b9 =` and s0 to s10: one row for each."""
    i = torch.arange(DIGITS, dtype=torch.float32)
    angle = 2.0 * math.pi * i / DIGITS + w["spiral_phase"]
    spiral = torch.zeros(DIGITS, w["z_hi_pos"].shape[1])
    spiral[:, 0], spiral[:, 1] = w["spiral_amp"] * angle.cos(), w["spiral_amp"] * angle.sin()
    spiral[:, 2] = w["spiral_slope"] * i + w["spiral_offset"]
    if "pos_correction" in w:
        spiral = spiral * (1.0 + w["pos_correction"])[:, None]
    elif "pos_corr_slope" in w:
        spiral = spiral * (1.0 + w["pos_corr_intercept"] + w["pos_corr_slope"] * i)[:, None]
    signs = next((w[name] for name in ("special_pos", "special_pos_learned") if name in w), None)
    plus, equals = (
        (w["_plus_pos"], w["special_pos_equals"]) if signs is None else (signs[:1], signs[1:2])
    )
    return torch.cat([spiral, plus, spiral, equals, spiral, w["z_hi_pos"]])


def turned(queries: Tensor, angle: Tensor) -> Tensor:
    """`[... head pos d]`: neighbours in pairs turned by the head's angle; an odd last one stays."""
    pairs = queries.shape[-1] // 2 * 2
    even, odd = queries[..., 0:pairs:2], queries[..., 1:pairs:2]
    c, s = angle.cos()[:, None, None], angle.sin()[:, None, None]
    both = torch.stack([even * c - odd * s, even * s + odd * c], dim=-1).flatten(-2)
    return torch.cat([both, queries[..., pairs:]], dim=-1)


def micro_outputs(w: State, letters: Tensor) -> Tensor:
    """The outputs at every position, `[batch pos out]`, in the precision of the weights."""
    wide = w["digits"].shape[1]
    places = w["places"][: letters.shape[1]].expand(len(letters), -1, -1)
    x = torch.cat([w["digits"][letters], places], dim=-1)
    h = normed(w, "ln1", x, EPS)[:, None]
    q, k, v = (
        part @ w[name].transpose(1, 2)
        for part, name in (
            (h[..., wide:], "query"),
            (h[..., wide:], "key"),
            (h[..., :wide], "value"),
        )
    )
    z = causal(turned(q, w["turn"]) @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])) @ v
    x = x + (z @ w["out"]).sum(1) @ w["back"]
    pre = functional.linear(normed(w, "ln2", x, EPS), w["fc1.weight"], w.get("fc1.bias"))
    x = x + functional.linear(functional.gelu(pre), w["down"], w.get("fc2.bias"))
    return normed(w, "ln_f", x, EPS) @ w["head_proj.weight"].T @ w["digits"].T


def micro_adder(
    path: Path, task: Any = "contains_all", read: Callable[[Path], State] = micro_state
) -> tsc.Checkpoint:
    """Such an adder as one layer of the family: matrices have zeros for what they do not read.

    Letters are the token ids. Where these are the ten digits only, `+` and `=` are zeros.
    """
    state = read(path)
    w = {name: tensor.double() for name, tensor in state.items()}
    (tokens, wide), (n_places, d_place) = w["digits"].shape, w["places"].shape
    heads, d_qk, _ = w["query"].shape
    d_model, d_head = wide + d_place, max(d_qk, w["back"].shape[0])
    biases, centred = "fc1.bias" in w, "ln_f.bias" in w
    config = tsc.ClassifierConfig(
        n_letters=tokens, n_outputs=tokens, task=task, d_model=d_model, n_heads=heads,
        d_head=d_head, d_mlp=len(w["fc1.weight"]), n_positions=n_places,
        norm="layer" if centred else "rms", norm_eps=EPS, final_norm=True,
        attention_scale=math.sqrt(d_qk), biases=biases, reads="last_letter", attend_cls=True,
        token_names=(*"0123456789+=", *(f"#{i}" for i in range(12, tokens)))[:tokens],
    )  # fmt: skip
    zeros = {name: torch.zeros(shape) for name, shape in config.weight_shapes().items()}
    arrays = {name: zero for name, zero in zeros.items() if ".b_" in name}
    query = turned(w["query"].transpose(1, 2), w["turn"])
    arrays |= {
        "embed.W_E": functional.pad(w["digits"], (0, d_place)),
        "pos_embed.W_pos": functional.pad(w["places"], (wide, 0)),
        "blocks.0.attn.W_Q": functional.pad(query, (0, d_head - d_qk, wide, 0)),
        "blocks.0.attn.W_K": functional.pad(w["key"].transpose(1, 2), (0, d_head - d_qk, wide, 0)),
        "blocks.0.attn.W_V": functional.pad(
            w["value"].transpose(1, 2) @ w["out"], (0, d_head - len(w["back"]), 0, d_place)
        ),
        "blocks.0.attn.W_O": functional.pad(
            w["back"].expand(heads, -1, -1), (0, 0, 0, d_head - len(w["back"]))
        ),
        "blocks.0.mlp.W_in": w["fc1.weight"].T,
        "blocks.0.mlp.W_out": w["down"].T,
        "unembed.W_U": w["head_proj.weight"].T @ w["digits"].T,
        **{f"{ours}.w": w[f"{theirs}.weight"] for ours, theirs in _NORMS.items()},
    }
    if centred:
        arrays |= {f"{ours}.b": w[f"{theirs}.bias"] for ours, theirs in _NORMS.items()}
    if biases:
        arrays |= {"blocks.0.mlp.b_in": w["fc1.bias"], "blocks.0.mlp.b_out": w["fc2.bias"]}
    return tsc.from_arrays(config, arrays, provenance={"file": path.name}, source=path.stem)
