"""Models made by TransformerLens itself, 3.x or 4.x, with weights that are all at work."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tsc_interp.model.interop import HAS_BRIDGE_ONLY

to_bridge = pytest.mark.skipif(not HAS_BRIDGE_ONLY, reason="exports go to TransformerLens 4")
SIZES = {"d_model": 6, "d_head": 3, "n_heads": 2, "n_layers": 1, "d_mlp": 8}


def tl_model(seed: int = 0, *, positions: bool = False, **options: Any) -> Any:
    """A fresh model; every weight, biases and norms among them, moved by random numbers."""
    given: dict[str, Any] = {
        **SIZES,
        "n_ctx": 20,
        "d_vocab": 6,
        "d_vocab_out": 2,
        "act_fn": "gelu",
        "normalization_type": None,
        "attention_dir": "causal",
        "device": "cpu",
        "seed": seed,
        **options,
    }
    if given.get("attn_only"):
        del given["d_mlp"], given["act_fn"]
    if HAS_BRIDGE_ONLY:
        from transformer_lens import TransformerBridge, TransformerBridgeConfig

        model = TransformerBridge.boot_native(TransformerBridgeConfig(**given))
    else:
        from transformer_lens import HookedTransformer, HookedTransformerConfig

        model = HookedTransformer(HookedTransformerConfig(**given))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shift = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.5 * shift.to(parameter.dtype))
            if ("pos_embed" in name or "pos." in name) and not positions:
                parameter.zero_()
    return model.eval()
