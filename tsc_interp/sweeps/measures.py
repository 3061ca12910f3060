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

from tsc_interp.checkpoints.checkpoint import Checkpoint, WeightArrays
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_strings
from tsc_interp.sweeps.columns import NORMS
from tsc_interp.sweeps.definition import SweepOptions
from tsc_interp.training.config import RunConfig
from tsc_interp.training.engine import batches, engine_for, shape_of
from tsc_interp.training.losses import loss_named
from tsc_interp.training.testing import ahead, answers
from tsc_interp.verification.horizons import first_error

Floats = NDArray[np.float32]

# As many at once as make a call worth it, few enough for the logits of a thousand models.
_STRINGS = 1024


def tested(config: RunConfig, many: Sequence[WeightArrays]) -> list[dict[str, Any]]:
    """Each model on the test set: its errors, and how far the right answer is ahead at least."""
    outputs = config.classifier.n_outputs
    engine = engine_for(shape_of(config.classifier), loss_named(config.training.loss, outputs))
    parameters = engine.pack(many)
    least, wrong, labels = [], [], []
    for strings, truth in batches(engine, config.training.test, 0, _STRINGS):
        logits, classes = engine.logits(parameters, strings), truth.astype(np.int64)
        least.append(ahead(logits, classes, outputs).min(axis=1))
        wrong.append(answers(logits, outputs) != classes)
        labels.append(classes)
    margin, mistakes = np.min(least, axis=0), np.concatenate(wrong, axis=1)
    positive = np.concatenate(labels) > 0
    of_two = {"test_false_positives": ~positive, "test_false_negatives": positive}
    return [
        {
            "test_errors": int(row.sum()),
            **{name: int((row & part).sum()) for name, part in of_two.items() if outputs == 1},
            "test_margin": float(ahead),
        }
        for row, ahead in zip(mistakes, margin, strict=True)
    ]


def verified(checkpoint: Checkpoint, options: SweepOptions) -> dict[str, Any]:
    """The horizon and the first error, and who says so."""
    if options.verify == "off":
        return {"verified": "no", "not_verified": "verify = off", "proved": False}
    started, prove = process_time(), options.verify == "prove"
    try:
        horizon = first_error(checkpoint, limit=options.limit, boxes=options.budget, prove=prove)
    except UnsupportedError as error:
        return {"verified": "no", "not_verified": str(error), "proved": False}
    row: dict[str, Any] = {
        "verified": "prove" if horizon.checked else "found",
        "horizon": horizon.length,
        "infinite": horizon.infinite,
        "proved": horizon.proved,
        "complete": horizon.complete,
        "verified_length": horizon.verified_length,
        "seconds_verify": process_time() - started,
    }
    if horizon.shortest is not None:
        row |= {
            "first_error": horizon.shortest.string,
            "first_error_length": horizon.shortest.length,
            "first_error_label": horizon.shortest.label,
            "first_error_logit": horizon.shortest.logit,
        }
    return row


def heads(config: ClassifierConfig, many: Sequence[WeightArrays]) -> list[dict[str, Any]]:
    """Of each model, which letter its first layer's heads score highest, and by how much.

    The score is q·k / sqrt(d_head) for the query that reads, without a factor for the length.
    """
    readable = config.has_attention and not (config.has_positions or config.n_letters < 2)
    if not readable or config.grouped or config.qk_norm != "off":
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
    scores = np.einsum("mhd,mlhd->mhl", q[:, reading], keys) / config.score_divisor
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
