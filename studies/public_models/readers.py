"""Models that other people published, as checkpoints: a path to your own copy, nothing is bundled.

    python -m studies public_models FOLDER          verify all that are in it (run.py)
    python -m studies.public_models.readers adder best_456p_s43.pt adder.safetensors

Adders of AdderBoard in the format of yinglunz/A-456-Parameter-Transformer-Solves-10-Digit-Addition
and rezabyt/digit-addition-311p, and the cumulative-sum classifier of ARENA's November 2023 problem;
micro_adder.py reads those of evindor/MicroAdder. Each format has a reader, which multiplies thin
factors out in float64 and rounds the products to float32 once, and a plain forward pass in float32,
which takes factor by factor as the authors' code does.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import tsc_interp as tsc
from tsc_interp.checkpoints.tensor_files import read_tensors

State = dict[str, Tensor]


def adder(path: Path, task: Any = "contains_all") -> tsc.Checkpoint:
    """A ten-digit adder: letters are the token ids 0 to 13, of which 10 is `+` and 11 is `=`.

    Its weights are products of thin factors. Queries meet keys through A Bq Bkᵀ Aᵀ, and values are
    written through Bv and the output's two factors, so heads as wide as the factors compute the
    same: W_Q = A (Bq Bkᵀ), W_K = A, W_V = A Bv P, W_O = R.
    """
    state = adder_state(path)
    w = {name: tensor.double() for name, tensor in state.items()}
    a, q, k, v = attention_factors(w)
    out, back = w["blocks.0.attn.proj.A"], w["blocks.0.attn.proj.B"]
    tokens, d_model = w["token_emb.weight"].shape
    d_head = max(a.shape[1], out.shape[1])
    up = _times(w, torch.eye(d_model).double(), "fc1")
    down = _times(w, torch.eye(up.shape[1]).double(), "fc2")
    centred = "ln_f.bias" in w
    config = tsc.ClassifierConfig(
        n_letters=tokens, n_outputs=tokens, task=task, d_model=d_model, n_heads=1, d_head=d_head,
        d_mlp=up.shape[1], n_positions=len(w["pos_emb.A"]), final_norm=True,
        norm="layer" if centred else "rms", norm_eps=1e-5 if centred else 1e-8,
        attention_scale=math.sqrt(d_model), reads="last_letter", attend_cls=True,
        tied_embeddings=bool((w["token_emb.weight"] == w["lm_head.weight"]).all()),
        token_names=(*"0123456789+=", *(f"#{i}" for i in range(12, tokens))),
    )  # fmt: skip
    arrays = {
        "embed.W_E": w["token_emb.weight"],
        "pos_embed.W_pos": w["pos_emb.A"] @ w["pos_emb.B"],
        "blocks.0.attn.W_Q": _wide(a @ (q @ k.T), d_head),
        "blocks.0.attn.W_K": _wide(a, d_head),
        "blocks.0.attn.W_V": _wide(a @ v @ out, d_head),
        "blocks.0.attn.W_O": _wide(back.T, d_head).T,
        "blocks.0.mlp.W_in": up,
        "blocks.0.mlp.W_out": down,
        **({} if config.tied_embeddings else {"unembed.W_U": w["lm_head.weight"].T}),
    }
    for ours, theirs in {"blocks.0.ln1": "", "blocks.0.ln2": "", "ln_final": "ln_f"}.items():
        arrays[f"{ours}.w"] = w[f"{theirs or ours}.weight"]
        if centred:
            arrays[f"{ours}.b"] = w[f"{theirs or ours}.bias"]
    return tsc.from_arrays(config, arrays, provenance={"file": path.name}, source=path.stem)


def adder_state(path: Path) -> State:
    """The tensors of an adder's file."""
    return read_tensors(path)


def adder_outputs(w: State, letters: Tensor) -> Tensor:
    """The outputs at every position, `[batch pos out]`, in the precision of the weights."""
    a, *factors = attention_factors(w)
    places = letters.shape[1]
    x = w["token_emb.weight"][letters] + w["pos_emb.A"][:places] @ w["pos_emb.B"]
    q, k, v = (normed(w, "blocks.0.ln1", x) @ a @ factor for factor in factors)
    z = causal(q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1])) @ v
    x = x + z @ w["blocks.0.attn.proj.A"] @ w["blocks.0.attn.proj.B"]
    x = x + _times(w, functional.gelu(_times(w, normed(w, "blocks.0.ln2", x), "fc1")), "fc2")
    return normed(w, "ln_f", x) @ w["lm_head.weight"].T


def normed(w: State, name: str, x: Tensor, eps: float = 1e-8) -> Tensor:
    """LayerNorm where there is a bias, else an RMS norm."""
    scale = w[f"{name}.weight"]
    if f"{name}.bias" in w:
        return functional.layer_norm(x, scale.shape, scale, w[f"{name}.bias"])
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * scale


def causal(scores: Tensor) -> Tensor:
    """Attention weights: no position looks ahead."""
    later = torch.ones(scores.shape[-2:]).triu(1).bool()
    return scores.masked_fill(later, -torch.inf).softmax(-1)


def attention_factors(w: State) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A, Bq, Bk and Bv: queries, keys and values are x A times these."""
    name = "blocks.0.attn.qkv"
    if f"{name}_A" in w:  # keys and values are tied
        return w[f"{name}_A"], w[f"{name}_Bq"], w[f"{name}_Bkv"], w[f"{name}_Bkv"]
    q, k, v = w[f"{name}.B"].chunk(3, dim=1)
    return w[f"{name}.A"], q, k, v


def _times(w: State, x: Tensor, part: str) -> Tensor:
    name = f"blocks.0.mlp.{part}"
    full = w.get(f"{name}.weight")
    return x @ w[f"{name}.A"] @ w[f"{name}.B"] if full is None else x @ full.T


def cumulative_sum(path: Path, task: Any = "contains_all") -> tsc.Checkpoint:
    """The sign of a sum: letters are the token ids, a number modulo 11; the last letter reads."""
    state = lens_state(path)
    letters, d_model = state["embed.W_E"].shape
    _, _, d_head = state["blocks.0.attn.W_Q"].shape
    config = tsc.ClassifierConfig(
        n_letters=letters, n_outputs=3, task=task, d_model=d_model, n_heads=1, d_head=d_head,
        d_mlp=state["blocks.0.mlp.W_in"].shape[1], n_positions=len(state["pos_embed.W_pos"]),
        biases=True, act_fn="relu", reads="last_letter", attend_cls=True,
        token_names=tuple(str(i if 2 * i < letters else i - letters) for i in range(letters)),
    )  # fmt: skip
    return tsc.from_arrays(config, state, provenance={"file": path.name}, source=path.stem)


def lens_state(path: Path) -> State:
    """The tensors of a state of TransformerLens, without its masks."""
    return {
        name: tensor
        for name, tensor in read_tensors(path).items()
        if not name.endswith((".mask", ".IGNORE"))
    }


def lens_outputs(w: State, letters: Tensor) -> Tensor:
    """The outputs of one layer without norms at every position, in the weights' precision."""
    block = {name.removeprefix("blocks.0."): tensor for name, tensor in w.items()}
    x = w["embed.W_E"][letters] + w["pos_embed.W_pos"][: letters.shape[1]]
    q, k, v = (
        (x[:, None] @ block[f"attn.W_{part}"]) + block[f"attn.b_{part}"][:, None] for part in "QKV"
    )
    z = causal(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])) @ v
    x = x + (z @ block["attn.W_O"]).sum(1) + block["attn.b_O"]
    x = (
        x
        + (x @ block["mlp.W_in"] + block["mlp.b_in"]).relu() @ block["mlp.W_out"]
        + block["mlp.b_out"]
    )
    return x @ w["unembed.W_U"] + w["unembed.b_U"]


def _wide(matrix: Tensor, columns: int) -> Tensor:
    """With columns of zeros behind, so that heads have one width."""
    missing = columns - matrix.shape[1]
    return torch.cat([matrix, matrix.new_zeros(len(matrix), missing)], dim=1)


READERS = {"adder": adder, "cumulative-sum": cumulative_sum}

if __name__ == "__main__":
    kind, given, wanted = sys.argv[1:]
    checkpoint = READERS[kind](Path(given))
    checkpoint.save(wanted)
    print(f"{wanted}: {checkpoint.n_parameters:,} numbers, {checkpoint.weight_hash()[:16]}")
