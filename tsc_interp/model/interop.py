"""Which version of TransformerLens is installed, and its names for norms."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

MAJOR = int(version("transformer-lens").split(".")[0])

# 4.0 removed HookedTransformer, and merely asking for the name raises there.
HAS_BRIDGE_ONLY = MAJOR >= 4

NORMS = {None: "off", "LN": "layer", "LNPre": "layer_pre", "RMS": "rms", "RMSPre": "rms_pre"}
"""Our norms by TransformerLens's names."""


def utility(name: str) -> Any:
    """One of TransformerLens's utilities, which 2.x keeps under another module's name."""
    return getattr(import_module(f"transformer_lens.{'utils' if MAJOR < 3 else 'utilities'}"), name)
