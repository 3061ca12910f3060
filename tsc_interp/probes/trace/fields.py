"""The logit over a plane, measured by writing points of a grid into a hook at the CLS position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.model.classifier import Classifier
from tsc_interp.results.base import LabeledArray

_GRID = 41


def value_field(model: Classifier, cache: Any) -> LabeledArray | None:
    """The logit where the two one-dimensional heads of a one-layer model have values (x, y)."""
    config = model.config
    if (config.n_layers, config.n_heads, config.d_head) != (1, 2, 1) or config.needs_order:
        return None
    values = cache["blocks.0.attn.hook_v"][..., 0].double().flatten(0, -2).numpy()
    return _field(model, "blocks.0.attn.hook_z", values, lambda xy: xy[:, :, None])


def residual_field(model: Classifier, cache: Any) -> LabeledArray | None:
    """The logit where CLS's residual after the last attention is (x, y)."""
    config = model.config
    last = f"blocks.{config.n_layers - 1}.hook_resid_mid"
    if config.d_model != 2 or config.needs_order or last not in cache:
        return None
    return _field(model, last, cache[last][:, 0].double().numpy(), lambda xy: xy)


def _field(
    model: Classifier,
    hook_name: str,
    seen: NDArray[np.float64],
    shape: Callable[[Tensor], Tensor],
) -> LabeledArray:
    """On a square around the origin and all points that were seen, with room around them."""
    low, high = np.minimum(seen.min(axis=0), 0.0), np.maximum(seen.max(axis=0), 0.0)
    half = 0.8 * float((high - low).max()) or 1.0
    x, y = (np.linspace(m - half, m + half, _GRID) for m in (low + high) / 2)
    points = torch.tensor(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), dtype=torch.float32)

    def write(activation: Tensor, hook: Any) -> Tensor:
        changed = activation.clone()
        changed[:, 0] = shape(points).to(activation.dtype)
        return changed

    one_letter = np.zeros((len(points), model.config.n_letters), dtype=np.int64)
    one_letter[:, 0] = 1
    with torch.no_grad():
        logits = model.run_with_hooks(model.counts(one_letter), fwd_hooks=[(hook_name, write)])
    grid = logits.double().numpy().reshape(_GRID, _GRID)
    return LabeledArray.of(grid, y=[f"{v:.6g}" for v in y], x=[f"{v:.6g}" for v in x])
