"""What comes from TransformerLens: which version it is, and its state-dict keys."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError

# 4.0 removed HookedTransformer, and merely asking for the name raises there.
HAS_BRIDGE_ONLY = int(version("transformer-lens").split(".")[0]) >= 4


def untangle_state_dict(config: ClassifierConfig, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our weights out of a HookedTransformer-style state dict.

    HookedTransformer also stores biases, a position table and mask buffers. This classifier has
    none of them, so they may be there only if they change nothing.
    """
    expected = config.weight_shapes()
    missing = sorted(expected.keys() - state.keys())
    if missing:
        raise CheckpointError(f"the state dict has no {', '.join(missing)}")
    for name in sorted(state.keys() - expected.keys()):
        kind = name.rsplit(".", 1)[-1]
        if kind in ("mask", "IGNORE"):
            continue
        if not (kind.startswith("b_") or kind == "W_pos"):
            raise CheckpointError(
                f"the state dict has {name}, for which this configuration has no place"
            )
        if bool(state[name].any()):
            raise CheckpointError(f"{name} is not zero, but this classifier has no such weight")
    return {name: state[name] for name in expected}
