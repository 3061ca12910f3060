"""Which version of TransformerLens is installed, and where its models keep their weights."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from torch import Tensor

MAJOR = int(version("transformer-lens").split(".")[0])

# 4.0 removed HookedTransformer, and merely asking for the name raises there.
HAS_BRIDGE_ONLY = MAJOR >= 4

NORMS = {None: "off", "LN": "layer", "LNPre": "layer_pre", "RMS": "rms", "RMSPre": "rms_pre"}
"""Our norms by TransformerLens's names."""
_OF_BRIDGE = {"w": "weight", "b": "bias"}
"""What a bridge calls the weights of its norms."""
_PER_GROUP = ("W_K", "W_V", "b_K", "b_V")


def utility(name: str) -> Any:
    """One of TransformerLens's utilities, which 2.x keeps under another module's name."""
    return getattr(import_module(f"transformer_lens.{'utils' if MAJOR < 3 else 'utilities'}"), name)


def weight_of(model: Any, name: str) -> Tensor | None:
    """Return a TransformerLens model's weight, whichever version it is of; None if it has none.

    Args:
        model: A `HookedTransformer` or a `TransformerBridge`.
        name: HookedTransformer's name, such as `blocks.0.attn.W_K`.
    """
    place, leaf = name.rsplit(".", 1)
    if leaf in _OF_BRIDGE:
        state: Mapping[str, Tensor] = model.state_dict()
        return state.get(name, state.get(f"{place}.{_OF_BRIDGE[leaf]}"))
    stacked: Tensor | None = getattr(model, leaf, None)
    if stacked is None or not place.startswith("blocks."):
        return stacked
    weight = stacked[int(place.split(".")[1])]
    groups = getattr(model.cfg, "n_key_value_heads", None)
    # One per group, of which TransformerLens may show a copy for every head.
    return weight[:: len(weight) // groups] if groups and leaf in _PER_GROUP else weight
