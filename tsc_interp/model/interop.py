"""Which version of TransformerLens is installed, and its names for norms."""

from __future__ import annotations

from importlib.metadata import version

# 4.0 removed HookedTransformer, and merely asking for the name raises there.
HAS_BRIDGE_ONLY = int(version("transformer-lens").split(".")[0]) >= 4

NORMS = {None: "off", "LN": "layer", "LNPre": "layer_pre", "RMS": "rms", "RMSPre": "rms_pre"}
"""Our norms by TransformerLens's names."""
