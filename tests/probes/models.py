"""Models every probe is tried on, and the checks every probe's tests share."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any

import torch

from tsc_interp.model.interop import HAS_BRIDGE_ONLY

TOKENS = torch.tensor(
    [
        [0, 3, 1, 4, 1, 5, 8],
        [2, 6, 5, 3, 5, 8, 8],
        [7, 7, 3, 2, 3, 1, 0],
        [4, 6, 2, 6, 4, 3, 3],
        [8, 3, 2, 7, 0, 5, 1],
    ]
)
QUERY = 4
"""Neither the first nor the last of seven positions, so that causal masking shows."""


@cache
def transformer_lens_model(norm: str | None = "LN") -> Any:
    """Two causal layers, random weights and biases, sizes that differ pairwise."""
    return make_transformer_lens_model(normalization_type=norm)


def make_transformer_lens_model(**options: Any) -> Any:
    sizes = {
        "n_layers": 2, "d_model": 12, "n_heads": 2, "d_head": 3, "d_mlp": 5, "n_ctx": 11,
        "d_vocab": 9, "act_fn": "gelu", "normalization_type": "LN", "attention_dir": "causal",
        "device": "cpu", "seed": 3, **options,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if HAS_BRIDGE_ONLY:
            from transformer_lens import TransformerBridge, TransformerBridgeConfig

            model = TransformerBridge.boot_native(TransformerBridgeConfig(**sizes)).eval()
        else:
            from transformer_lens import HookedTransformer, HookedTransformerConfig

            model = HookedTransformer(HookedTransformerConfig(**sizes)).eval()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            # Biases start at zero, where a forgotten one would not show.
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def check_survives_json(result: Any) -> None:
    again = type(result).from_dict(json.loads(json.dumps(result.to_dict())))
    assert again == result
    assert all(finding.text for finding in result.findings)
    for table in result.tables():
        assert table.rows
