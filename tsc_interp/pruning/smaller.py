"""Checkpoints with less in them: tensors without some heads and neurons, a narrower residual.

    remove(checkpoint, heads=[(0, 3)], neurons=[(0, 1)])      (layer, head), (layer, neuron)
    narrow(checkpoint)                                        as few dimensions as are used

What is removed is gone from the tensors, not set to zero. A layer keeps as many heads as the layer
that needs most, because the shape of a model is one number per kind of part.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import require_report_family
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.strings import PAD

Array = NDArray[np.float64]
Place = tuple[int, int]
"""Layer, and head or neuron."""
_BY_HEAD = tuple(f"attn.{name}" for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V"))
_BY_NEURON = ("mlp.W_in", "mlp.W_gate", "mlp.b_in")


def remove(
    checkpoint: Checkpoint, *, heads: Collection[Place] = (), neurons: Collection[Place] = ()
) -> Checkpoint:
    """Return the model without these heads and neurons, as if they wrote nothing.

    Args:
        checkpoint: The model.
        heads: Pairs of layer and head.
        neurons: Pairs of layer and neuron.

    Returns:
        A model with smaller weight matrices.

    Example:
        >>> from tsc_interp.checkpoints import load_checkpoint
        >>> remove(load_checkpoint("many-heads"), heads=[(0, 3)]).config.n_heads
        15
    """
    config = checkpoint.config
    if config.grouped and heads:
        raise UnsupportedError("heads that share keys and values cannot be removed one by one")
    for kind, places, size in (("head", heads, config.n_heads), ("neuron", neurons, config.d_mlp)):
        for layer, index in places:
            if not (0 <= layer < config.n_layers and 0 <= index < size):
                raise UsageError(f"there is no {kind} {index} in layer {layer}")
    weights = {name: w.copy() for name, w in checkpoint.weights.items()}
    for layer, index in heads:
        weights[f"blocks.{layer}.attn.W_O"][index] = 0.0
    for layer, index in neurons:
        weights[f"blocks.{layer}.mlp.W_out"][index] = 0.0
    head_orders = _orders(config.n_layers, config.n_heads, heads)
    neuron_orders = _orders(config.n_layers, config.d_mlp, neurons)
    for name in weights:
        layer = int(name.split(".")[1]) if name.startswith("blocks.") else 0
        if name.endswith(_BY_HEAD):
            weights[name] = weights[name].take(head_orders[layer], 0)
        elif name.endswith(("mlp.W_out", *_BY_NEURON)):
            axis = -1 if name.endswith(_BY_NEURON) else 0
            weights[name] = weights[name].take(neuron_orders[layer], axis)
    sizes = {"n_heads": len(head_orders[0]), "d_mlp": len(neuron_orders[0])}
    smaller = config.model_copy(update=sizes)
    needed = smaller.weight_shapes()
    kept_weights = {name: np.ascontiguousarray(w) for name, w in weights.items() if name in needed}
    return Checkpoint(smaller, kept_weights, checkpoint.provenance, source=checkpoint.source)


def narrow(checkpoint: Checkpoint, d_model: int | None = None) -> Checkpoint:
    """Return the model with as few residual dimensions as it needs.

    Only the products of writing and reading weights matter. They form a matrix whose rank is the
    number of dimensions that are needed, and a singular value decomposition splits it again.

    Args:
        checkpoint: The model, without norms and positions.
        d_model: Keep only this many dimensions, which changes the model. By default all singular
            values above float32 rounding are kept.

    Returns:
        A model with a narrower residual stream.

    Example:
        >>> from tsc_interp.checkpoints import load_checkpoint
        >>> narrow(load_checkpoint("walkthrough")).config.d_model
        2
    """
    config = checkpoint.config
    require_report_family(config, "taking dimensions away")
    if config.has_norm:
        raise UnsupportedError("a norm feels every dimension, so none can be taken away")
    if config.has_positions:
        raise UnsupportedError("positions are written into the residual stream too; not narrowed")
    weights = {name: w.astype(np.float64) for name, w in checkpoint.weights.items()}
    weights["embed.W_E"][PAD] = 0.0  # never read: it has no weight in attention
    written = [name for name in weights if name.endswith(("W_E", "W_O", "W_out"))]
    read = [name for name in weights if name.endswith(("W_Q", "W_K", "W_V", "W_in", "W_U"))]
    rows = np.concatenate([weights[name].reshape(-1, config.d_model) for name in written])
    columns = np.concatenate([_as_columns(weights[name]) for name in read], axis=1)
    left, strengths, right = np.linalg.svd(rows @ columns, full_matrices=False)
    most = int((strengths > strengths[0] * 1e-6).sum()) if strengths.size and strengths[0] else 1
    size = min(max(most, 1), config.d_model) if d_model is None else d_model
    if not 1 <= size <= config.d_model:
        raise UsageError(f"d_model must be from 1 to {config.d_model}, got {size}")
    if size > len(strengths):
        raise UsageError(f"there are only {len(strengths)} dimensions to keep, not {size}")
    root = np.sqrt(strengths[:size])
    halves = left[:, :size] * root, root[:, None] * right[:size]
    return _rebuilt(checkpoint, weights, written, read, *halves)


def _rebuilt(
    checkpoint: Checkpoint,
    weights: dict[str, Array],
    written: list[str],
    read: list[str],
    rows: Array,
    columns: Array,
) -> Checkpoint:
    """The same weights over fewer dimensions."""
    size, new = rows.shape[1], dict(weights)
    at = 0
    for name in written:
        shape = weights[name].shape
        count = int(np.prod(shape[:-1]))
        new[name] = rows[at : at + count].reshape(*shape[:-1], size)
        at += count
    at = 0
    for name in read:
        shape = weights[name].shape
        heads = shape[0] if len(shape) == 3 else 1
        part = columns[:, at : at + heads * shape[-1]].reshape(size, heads, shape[-1])
        new[name] = part.transpose(1, 0, 2) if len(shape) == 3 else part[:, 0]
        at += heads * shape[-1]
    config = checkpoint.config.model_copy(update={"d_model": size})
    arrays = {name: np.ascontiguousarray(w, dtype=np.float32) for name, w in new.items()}
    return Checkpoint(config, arrays, checkpoint.provenance, source=checkpoint.source)


def _as_columns(weight: Array) -> Array:
    """`[d_model, everything else]`, heads side by side."""
    if weight.ndim == 2:
        return weight
    return weight.transpose(1, 0, 2).reshape(weight.shape[1], -1)


def _orders(layers: int, size: int, gone: Collection[Place]) -> list[list[int]]:
    """Per layer what is kept, then silent ones up to as many as the fullest layer keeps."""
    kept = [[i for i in range(size) if (layer, i) not in gone] for layer in range(layers)]
    slots = max(map(len, kept))
    return [[*own, *(i for i in range(size) if i not in own)][:slots] for own in kept]
