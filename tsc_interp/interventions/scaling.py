"""Zero and scale as weights, for every architecture: no weight is added, some are multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.changes import Noise, Scale, Zero
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Part

Array = NDArray[np.float64]
READ_WEIGHT = {"query": "attn.W_Q", "key": "attn.W_K", "value": "attn.W_V", "neuron": "mlp.W_in"}


def only_scales(one: Intervention) -> bool:
    """Whether a change multiplies everything that a head, a neuron or an MLP computes."""
    where = one.place
    return (
        isinstance(one.change, Zero | Scale)
        and isinstance(where, Part)
        and where.kind in ("head", "neuron", "mlp", *READ_WEIGHT)
        and where.letter is None
        and where.position is None
    )


def scale(weights: dict[str, Array], config: ClassifierConfig, one: Intervention) -> None:
    """Multiply the weights behind a part, and the bias that belongs to it alone."""
    where, times = one.place, factor(one)
    assert isinstance(where, Part)
    index: Any = slice(None) if where.index is None else where.index
    block = f"blocks.{where.layer}."
    if where.kind in ("query", "key", "value"):
        if config.qk_norm != "off" and where.kind != "value":
            raise UnsupportedError(
                f"{one}: the norm of queries and keys undoes a change of weights"
            )
        if config.grouped and where.kind != "query":
            raise UnsupportedError(f"{one}: heads share these weights; change the head instead")
        name = block + READ_WEIGHT[where.kind]
        names = [name, name.replace("W_", "b_")]
    elif where.kind == "mlp":
        names = [block + "mlp.W_out", block + "mlp.b_out"]
    else:
        names = [block + ("attn.W_O" if where.kind == "head" else "mlp.W_out")]
    for name in names:
        if name in weights:
            weights[name][index] *= times


def factor(one: Intervention) -> float:
    """What remains of the part itself."""
    if isinstance(one.change, Scale):
        return one.change.factor
    if isinstance(one.change, Noise):
        raise UnsupportedError(f"{one}: noise moves each activation, so it is no constant")
    return 0.0
