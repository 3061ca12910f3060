"""What a sweep says of a trained model: its tests, its horizon, its heads and its norms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import process_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.checkpoints.format import Checkpoint, WeightArrays
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_strings
from tsc_interp.sweeps.columns import NORMS
from tsc_interp.sweeps.definition import SweepOptions
from tsc_interp.training.config import RunConfig
from tsc_interp.training.engine import batches, engine_for, shape_of
from tsc_interp.training.losses import loss_named
from tsc_interp.verification.horizons import Horizon, horizon

Floats = NDArray[np.float32]

# As many at once as make a call worth it, few enough for the logits of a thousand models.
_STRINGS = 1024


def tested(config: RunConfig, many: Sequence[WeightArrays]) -> list[dict[str, Any]]:
    """Each model on the test set: its errors, and the least margin of a right answer's logit."""
    engine = engine_for(shape_of(config.classifier), loss_named(config.training.loss))
    parameters = engine.pack(many)
    margins, labels = [], []
    for strings, classes in batches(engine, config.training.test, 0, _STRINGS):
        margins.append(_margins(engine.logits(parameters, strings), classes))
        labels.append(classes)
    margin, label = np.concatenate(margins, axis=1), np.concatenate(labels)
    # A logit of exactly zero answers no.
    wrong = np.where(label > 0, margin <= 0, margin < 0)
    two_classes = config.classifier.n_outputs == 1
    return [
        {
            "test_errors": int(mistakes.sum()),
            "test_false_positives": int((mistakes & (label == 0)).sum()) if two_classes else None,
            "test_false_negatives": int((mistakes & (label > 0)).sum()) if two_classes else None,
            "test_margin": float(least),
        }
        for mistakes, least in zip(wrong, margin.min(axis=1), strict=True)
    ]


def _margins(logits: Floats, classes: Floats) -> Floats:
    """`[model, string]`: how far the right answer is ahead, below zero where it is not."""
    if logits.ndim == 2:
        return np.where(classes > 0, logits, -logits)
    index = classes.astype(np.int64)[None, :, None]
    right = np.take_along_axis(logits, index, axis=2)
    others = logits.copy()
    np.put_along_axis(others, index, -np.inf, axis=2)
    found: Floats = right[..., 0] - others.max(axis=2)
    return found


def verified(checkpoint: Checkpoint, options: SweepOptions) -> dict[str, Any]:
    """The horizon and the first error, and who says so."""
    if options.verify == "off":
        return {"verified": "no", "not_verified": "verify = off", "proved": False}
    started = process_time()
    try:
        found = _horizon(checkpoint, options)
    except UnsupportedError as error:
        return {"verified": "no", "not_verified": str(error), "proved": False}
    return {**_told(found), "seconds_verify": process_time() - started}


def _horizon(checkpoint: Checkpoint, options: SweepOptions) -> Horizon:
    limit, budget, prove = options.limit, options.budget, options.verify == "prove"
    found = horizon(checkpoint, limit=limit, budget=budget, prove=prove)
    if not prove and found.length is None and found.settled:  # it may be right at every length
        return horizon(checkpoint, limit=limit, budget=budget)
    return found


def _told(found: Horizon) -> dict[str, Any]:
    told: dict[str, Any] = {
        "verified": "prove" if found.checked else "found",
        "horizon": found.length,
        "infinite": found.infinite,
        "proved": found.proved,
        "settled": found.settled,
        "right_through": found.right_through,
    }
    first = found.shortest
    if first is not None:
        told |= {
            "first_error": first.string,
            "first_error_length": first.length,
            "first_error_label": first.label,
            "first_error_logit": first.logit,
        }
    return told


def heads(config: ClassifierConfig, many: Sequence[WeightArrays]) -> list[dict[str, Any]]:
    """Of each model, which letter its first layer's heads score highest, and by how much.

    The score is q·k / sqrt(d_head) for the query that reads, without a factor for the length.
    """
    if not config.has_attention or config.has_positions or config.n_letters < 2:
        return [{} for _ in many]
    seen: dict[str, Tensor] = {}

    def record(name: str, activation: Tensor) -> Tensor:
        seen[name] = activation
        return activation

    stacked = {name: torch.from_numpy(np.stack([w[name] for w in many])) for name in many[0]}
    letters = config.alphabet.letters
    inputs = from_strings(config, letters)
    with torch.no_grad():
        forward(config, stacked, inputs, tap=record)
    q, k = (seen[f"blocks.0.attn.hook_{part}"][:, 0].numpy() for part in "qk")
    reading = 0 if inputs.reading is None else int(inputs.reading[0])
    first = 1 if config.reads == "first" else 0
    keys = k[:, first : first + len(letters)]
    scores = np.einsum("mhd,mlhd->mhl", q[:, reading], keys) / math.sqrt(config.d_head)
    order = np.argsort(-scores, axis=-1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=-1)
    margins = (ranked[..., 0] - ranked[..., 1]).astype(np.float64)
    return [
        {"head_letters": "".join(letters[i] for i in best), "head_margins": margin.tolist()}
        for best, margin in zip(order[..., 0], margins, strict=True)
    ]


def norms(weights: Mapping[str, Floats], prefix: str) -> dict[str, float]:
    """The root of the sum of squares of each kind of weight, over all layers."""
    squares: dict[str, float] = {}
    for name, weight in weights.items():
        kind = name.rsplit(".", 1)[-1]
        if kind in NORMS:
            squares[kind] = squares.get(kind, 0.0) + float(np.square(weight, dtype=float).sum())
    return {f"{prefix}{kind}": math.sqrt(square) for kind, square in squares.items()}
