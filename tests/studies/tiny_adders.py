"""Small models of our own, saved as public ones are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from studies.public_models.readers import adder_outputs

STEPS = 60


def one_digit_file(path: Path) -> Path:
    """Trained for a moment on all pairs of digits, so that some of them stay wrong."""
    d, rank, hidden, tokens, places = 6, 4, 8, 12, 6
    shapes = {
        "token_emb.weight": (tokens, d), "pos_emb.A": (places, rank), "pos_emb.B": (rank, d),
        "blocks.0.ln1.weight": (d,), "blocks.0.attn.qkv_A": (d, rank),
        "blocks.0.attn.qkv_Bq": (rank, d), "blocks.0.attn.qkv_Bkv": (rank, d),
        "blocks.0.attn.proj.A": (d, rank), "blocks.0.attn.proj.B": (rank, d),
        "blocks.0.ln2.weight": (d,), "blocks.0.mlp.fc1.A": (d, rank),
        "blocks.0.mlp.fc1.B": (rank, hidden), "blocks.0.mlp.fc2.A": (hidden, rank),
        "blocks.0.mlp.fc2.B": (rank, d), "ln_f.weight": (d,), "lm_head.weight": (tokens, d),
    }  # fmt: skip
    noise = torch.Generator().manual_seed(5)
    w = {name: torch.randn(shape, generator=noise) for name, shape in shapes.items()}
    a, b = torch.cartesian_prod(torch.arange(10), torch.arange(10)).unbind(1)
    plus, equals = torch.full_like(a, 10), torch.full_like(a, 11)
    total = torch.stack([(a + b) % 10, (a + b) // 10], dim=1)
    letters = torch.stack([a, plus, b, equals, total[:, 0]], dim=1)
    for tensor in w.values():
        tensor.requires_grad_()
    optimizer = torch.optim.Adam(w.values(), lr=0.03)
    for _ in range(STEPS):
        optimizer.zero_grad()
        outputs = adder_outputs(w, letters)[:, 3:]
        functional.cross_entropy(outputs.flatten(0, 1), total.flatten()).backward()
        optimizer.step()
    torch.save({"model_state": {name: tensor.detach() for name, tensor in w.items()}}, path)
    return path


def micro_file(path: Path) -> Path:
    """Random numbers in MicroAdder's shapes with two heads."""
    noise = torch.Generator().manual_seed(2)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=noise)

    block = "blocks.0"
    state = {
        "tok_emb.weight": draw(14, 2), "spiral_amp": draw(), "spiral_phase": draw(),
        "spiral_slope": draw(), "spiral_offset": draw(), "pos_corr_slope": draw(),
        "pos_corr_intercept": draw(), "z_hi_pos": draw(1, 4), "special_pos_learned": draw(2, 4),
        f"{block}.ln1.weight": draw(6), f"{block}.ln2.weight": draw(6), "ln_f.weight": draw(6),
        f"{block}.attn.q_phase_angle": draw(2), f"{block}.attn.q_proj.weight": draw(6, 4),
        f"{block}.attn.v_proj.weight": draw(6, 2), f"{block}.attn.out_proj.A": draw(6, 2),
        f"{block}.attn.out_proj.B": draw(2, 6), f"{block}.ffn.fc1.weight": draw(5, 6),
        f"{block}.ffn.fc1.bias": draw(5), f"{block}.ffn.fc2.weight": draw(6, 5),
        f"{block}.ffn.fc2.bias": draw(6), "head_proj.weight": draw(2, 6),
    }  # fmt: skip
    config = {"n_heads": 2, "vocab_size": 14}
    torch.save({"model_state_dict": state, "config": config}, path)
    return path


def cumulative_file(path: Path) -> Path:
    """Random numbers in the shapes of ARENA's cumulative-sum classifier: three values."""
    tokens, places, d, d_head, hidden = 3, 2, 5, 4, 6
    shapes = {
        "embed.W_E": (tokens, d), "pos_embed.W_pos": (places, d), "unembed.W_U": (d, 3),
        "unembed.b_U": (3,), "blocks.0.attn.W_O": (1, d_head, d), "blocks.0.attn.b_O": (d,),
        "blocks.0.mlp.W_in": (d, hidden), "blocks.0.mlp.b_in": (hidden,),
        "blocks.0.mlp.W_out": (hidden, d), "blocks.0.mlp.b_out": (d,),
        **{f"blocks.0.attn.W_{part}": (1, d, d_head) for part in "QKV"},
        **{f"blocks.0.attn.b_{part}": (1, d_head) for part in "QKV"},
    }  # fmt: skip
    noise = torch.Generator().manual_seed(4)
    torch.save({name: torch.randn(shape, generator=noise) for name, shape in shapes.items()}, path)
    return path


def jack_file(path: Path, *, spiral: bool) -> Path:
    """Random numbers in JackCai's shapes: norms with biases, places in a table or on a spiral."""
    noise = torch.Generator().manual_seed(6)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=noise)

    named = ("amp", "phase", "slope", "offset")
    places = {f"pos_spiral_{name}": draw() for name in named} if spiral else {}
    norms = ("ln1", "ln_f") if not spiral else ("ln1", "ln2", "ln_f")  # one shares its first norm
    state = {
        **(places or {"digit_enc": draw(10, 3)}), "z10_enc": draw(1, 3), "special_enc": draw(3, 3),
        "tok_emb.weight": draw(14, 3), "q_proj.weight": draw(6, 3), "k_proj.weight": draw(6, 3),
        "v_proj.weight": draw(6, 3), "out_proj.weight": draw(6, 6), "head_proj.weight": draw(3, 6),
        "ffn.0.weight": draw(2, 6), "ffn.0.bias": draw(2), "ffn.2.weight": draw(6, 2),
        "ffn.2.bias": draw(6), **{f"{norm}.{part}": draw(6) for norm in norms
                                  for part in ("weight", "bias")},
    }  # fmt: skip
    torch.save(state, path)
    return path


def qwen_file(path: Path) -> Path:
    """Random numbers in the shapes of one block of Qwen 3 with two heads."""
    block = "model.layers.0."
    shapes = {
        "model.embed_tokens": (10, 3), "model.norm": (3,), f"{block}input_layernorm": (3,),
        f"{block}post_attention_layernorm": (3,), f"{block}self_attn.q_norm": (4,),
        f"{block}self_attn.k_norm": (4,), f"{block}self_attn.q_proj": (8, 3),
        f"{block}self_attn.k_proj": (4, 3), f"{block}self_attn.v_proj": (4, 3),
        f"{block}self_attn.o_proj": (3, 8), f"{block}mlp.gate_proj": (5, 3),
        f"{block}mlp.up_proj": (5, 3), f"{block}mlp.down_proj": (3, 5),
    }  # fmt: skip
    noise = np.random.default_rng(3)
    arrays = {
        f"{name}.weight": noise.normal(size=s).astype(np.float32) for name, s in shapes.items()
    }
    np.savez(path, **arrays)
    return path
