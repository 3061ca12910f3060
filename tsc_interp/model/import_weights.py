"""Weights of other models under HookedTransformer's names, and as the arrays of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError

_OF_BRIDGE = {"w": "weight", "b": "bias"}
"""What a bridge calls the weights of its norms."""
_PER_GROUP = ("W_K", "W_V", "b_K", "b_V")


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


def as_arrays(
    config: ClassifierConfig, weights: Mapping[str, Tensor | None]
) -> dict[str, NDArray[np.float32]]:
    """Return the arrays of a checkpoint: the configuration's weights, missing biases as zeros.

    Raises:
        UnsupportedError: Another weight than a bias of attention, MLP or read-out is missing.
    """
    arrays = {}
    for name, shape in config.weight_shapes().items():
        weight = weights.get(name)
        if weight is None and ".b_" not in name:
            raise UnsupportedError(
                f"the model's configuration calls for {name}, which the model does not have"
            )
        weight = torch.zeros(shape) if weight is None else weight.detach().float().cpu()
        arrays[name] = np.ascontiguousarray(weight.numpy())
    return arrays


def difference(outputs: Tensor | None, classes: tuple[int, int] | None) -> Tensor | None:
    """Return yes minus no, rounded to float32; without classes, all outputs."""
    if classes is None or outputs is None:
        return outputs
    no, yes = classes
    return outputs.float()[..., [yes]] - outputs.float()[..., [no]]
