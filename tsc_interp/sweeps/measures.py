"""What a sweep says of a trained model: its tests, its horizon and its norms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import Checkpoint, WeightArrays
from tsc_interp.errors import UnsupportedError
from tsc_interp.sweeps.columns import NORMS
from tsc_interp.sweeps.definition import SweepOptions
from tsc_interp.training.config import RunConfig
from tsc_interp.training.testing import answered
from tsc_interp.verification.horizons import first_error

Floats = NDArray[np.float32]


def tested(config: RunConfig, many: Sequence[WeightArrays]) -> list[dict[str, Any]]:
    """Each model on the test set: its errors, and how far the right answer is ahead at least."""
    found = answered(config, many)
    positive = found.classes > 0
    of_two = {"test_false_positives": ~positive, "test_false_negatives": positive}
    return [
        {
            "test_errors": int(row.sum()),
            **{
                name: int((row & part).sum())
                for name, part in of_two.items()
                if config.classifier.n_outputs == 1
            },
            "test_margin": float(least),
        }
        for row, least in zip(found.answers != found.classes, found.least, strict=True)
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


def norms(weights: Mapping[str, Floats], prefix: str) -> dict[str, float]:
    """The root of the sum of squares of each kind of weight, over all layers."""
    squares: dict[str, float] = {}
    for name, weight in weights.items():
        kind = name.rsplit(".", 1)[-1]
        if kind in NORMS:
            squares[kind] = squares.get(kind, 0.0) + float(np.square(weight, dtype=float).sum())
    return {f"{prefix}{kind}": math.sqrt(square) for kind, square in squares.items()}
