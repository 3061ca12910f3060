"""How much each head and neuron matters: by gradient, by weight norm, by exact removal.

- **gradient**: the mean over strings of |∂ loss / ∂ mask|, each part's output multiplied by a mask
  that is 1, then divided by the layer's L2 norm over its parts of that kind.
- **norm**: the Frobenius norm of what a head copies, W_V W_O; of a neuron, |W_in| · |W_out|.
- **exact**: the horizon that is left when the part is removed, subtracted from the model's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.interventions.parts import Part, writers
from tsc_interp.model.classifier import Classifier
from tsc_interp.pruning.smaller import remove
from tsc_interp.verification.horizons import horizon

_BOXES = 4_000
"""Per set of letters, when many models are compared."""
METHODS = ("exact", "gradient", "norm")


def parts_of(checkpoint: Checkpoint) -> list[Part]:
    """Every head and neuron."""
    every = list(writers(checkpoint.config))
    return [part for kind in ("head", "neuron") for part in every if part.kind == kind]


def without(checkpoint: Checkpoint, gone: Sequence[Part]) -> Checkpoint:
    """The model with these heads and neurons removed."""
    heads, neurons = (
        [(part.layer, part.index) for part in gone if part.kind == kind and part.index is not None]
        for kind in ("head", "neuron")
    )
    return remove(checkpoint, heads=heads, neurons=neurons)


def by_gradient(checkpoint: Checkpoint, strings: Sequence[str]) -> dict[Part, float]:
    model, config = Classifier.from_checkpoint(checkpoint), checkpoint.config
    labels = torch.tensor(config.classes(strings))
    masks: dict[str, torch.Tensor] = {}
    hooks = []
    for layer in range(config.n_layers):
        for name, size in {"attn.hook_z": config.n_heads, "mlp.hook_post": config.d_mlp}.items():
            if size:
                hook = f"blocks.{layer}.{name}"
                # One mask per string, so that signs do not cancel before the absolute value.
                masks[hook] = torch.ones(len(labels), size, requires_grad=True)
                hooks.append((hook, _masked(masks[hook], name == "attn.hook_z")))
    logits = model.run_with_hooks(list(strings), fwd_hooks=hooks)
    if config.n_outputs == 1:  # one output is two, the first of them zero
        logits = torch.stack([torch.zeros_like(logits), logits], dim=-1)
    loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
    grads = torch.autograd.grad(loss, list(masks.values()))
    importance: dict[Part, float] = {}
    for hook, grad in zip(masks, grads, strict=True):
        layer = int(hook.split(".")[1])
        sizes = grad.abs().mean(0).double()
        shares = sizes / float(sizes.norm() or 1.0)
        kind: Literal["head", "neuron"] = "head" if hook.endswith("hook_z") else "neuron"
        importance |= {Part(kind, layer, i): float(share) for i, share in enumerate(shares)}
    return importance


def _masked(mask: torch.Tensor, heads: bool) -> Callable[..., Any]:
    shaped = mask[:, None, :, None] if heads else mask[:, None, :]
    return lambda activation, hook: activation * shaped


def by_norm(checkpoint: Checkpoint) -> dict[Part, float]:
    sizes = {}
    for part in parts_of(checkpoint):
        block = f"blocks.{part.layer}"
        if part.kind == "head":
            copied = (
                checkpoint.weights[f"{block}.attn.W_V"][part.index].astype(float)
                @ checkpoint.weights[f"{block}.attn.W_O"][part.index]
            )
            sizes[part] = float(np.linalg.norm(copied))
        else:
            read = checkpoint.weights[f"{block}.mlp.W_in"][:, part.index]
            written = checkpoint.weights[f"{block}.mlp.W_out"][part.index]
            sizes[part] = float(np.linalg.norm(read) * np.linalg.norm(written))
    return sizes


def reach_of(checkpoint: Checkpoint, limit: int) -> int:
    """The length up to which a quick search shows no error: at most the horizon."""
    return horizon(checkpoint, limit=limit, boxes=_BOXES, prove=False).verified_length
