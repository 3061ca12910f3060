"""A TransformerLens model described: what its configuration says, its weights' hash, its size."""

from __future__ import annotations

import hashlib
from typing import Any

from tsc_interp.errors import UnsupportedError


def describe(model: Any) -> dict[str, Any]:
    """The lines of a model card; what a configuration does not say is left out."""
    cfg = model.cfg
    groups = getattr(cfg, "n_key_value_heads", None)
    lines: dict[str, Any] = {
        "layers": int(cfg.n_layers),
        "heads": int(cfg.n_heads),
        "key and value heads": None if groups in (None, cfg.n_heads) else int(groups),
        "d_model": int(cfg.d_model),
        "d_head": int(cfg.d_head),
        "d_mlp": "no MLP" if getattr(cfg, "attn_only", False) else getattr(cfg, "d_mlp", None),
        "activation": None if getattr(cfg, "attn_only", False) else getattr(cfg, "act_fn", None),
        "norm": getattr(cfg, "normalization_type", None) or "none",
        "positions": getattr(cfg, "positional_embedding_type", None),
        "attention": getattr(cfg, "attention_dir", None),
        "longest input": getattr(cfg, "n_ctx", None),
        "vocabulary": getattr(cfg, "d_vocab", None),
        "number format": _format(model),
    }
    return {name: value for name, value in lines.items() if value is not None}


def _format(model: Any) -> str | None:
    for parameter in model.parameters():
        return str(parameter.dtype).removeprefix("torch.")
    return None


def parameters_of(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def weight_hash(model: Any) -> str:
    """SHA-256 over every parameter's name, shape and bytes, in the order of their names."""
    import torch

    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        if parameter.device.type == "meta":
            raise UnsupportedError("this model is on the meta device, where tensors hold nothing")
        digest.update(f"{name}{list(parameter.shape)}{parameter.dtype}".encode())
        flat = parameter.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def row_bytes(cfg: Any, width: int) -> int:
    """What a forward pass keeps of one row, at most: activations, patterns and logits, float32."""
    heads, layers = int(cfg.n_heads), int(cfg.n_layers)
    mlp = 0 if getattr(cfg, "attn_only", False) else int(getattr(cfg, "d_mlp", None) or 0)
    layer = 6 * heads * int(cfg.d_head) + 2 * int(cfg.d_model) + mlp + heads * width
    outputs = getattr(cfg, "d_vocab_out", None) or getattr(cfg, "d_vocab", None) or 0
    return 4 * width * (layers * layer + max(0, int(outputs)))
