"""Zero and scale as weights, for every architecture: no weight is added, some are multiplied.

What a part of the last layer writes on average, where the answer is read, is added to a bias.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.changes import Mean, Noise, Scale, Set, Zero
from tsc_interp.interventions.constants import given_vector
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Part

if TYPE_CHECKING:
    from tsc_interp.model.classifier import Classifier

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


def becomes_bias(config: ClassifierConfig, one: Intervention) -> bool:
    """Whether a change puts a constant in place of what a part of the last layer writes."""
    where = one.place
    return (
        isinstance(one.change, Mean | Set)
        and isinstance(where, Part)
        and where.kind in ("head", "neuron", "mlp")
        and (where.position, where.layer, config.biases) == (None, config.n_layers - 1, True)
        and (config.has_cls or config.has_positions)  # else a mean differs from letter to letter
        and not config.beyond_verification
    )


def write_bias(weights: dict[str, Array], model: Classifier, one: Intervention) -> None:
    """Only the position that is read hears the last layer, so one constant is enough."""
    where = one.place
    assert isinstance(where, Part)
    if isinstance(one.change, Set):
        value = np.array(given_vector(model.cfg, one, where), dtype=np.float64)
    else:
        assert isinstance(one.change, Mean)
        strings = list(one.change.strings)
        inputs = model.inputs(strings)
        at = np.zeros(len(strings), int) if inputs.reading is None else inputs.reading.numpy()
        _, cache = model.run_with_cache(inputs, names_filter=where.hook)
        read = cache[where.hook].detach().double().numpy()[np.arange(len(strings)), at]
        value = (read if where.index is None else read[:, where.index]).mean(0)
    bias = f"blocks.{where.layer}." + ("attn.b_O" if where.kind == "head" else "mlp.b_out")
    written = written_by(weights, where)
    if where.kind == "mlp":
        weights[bias] = value
    else:
        weights[bias] += np.atleast_1d(value) @ np.atleast_2d(written)
    written[...] = 0.0


def written_by(weights: dict[str, Array], part: Part) -> Array:
    """The weights `[... d_model]` that a part writes with, as a view."""
    if part.kind == "embed":
        return weights["embed.W_E"]
    name = "attn.W_O" if part.kind == "head" else "mlp.W_out"
    stacked = weights[f"blocks.{part.layer}.{name}"]
    return stacked if part.index is None else np.asarray(stacked[part.index])


def read_by(weights: dict[str, Array], part: Part) -> Array:
    """The weights `[d_model ...]` that a part reads with, as a view."""
    if part.kind == "logit":
        return weights["unembed.W_U"]
    stacked = weights[f"blocks.{part.layer}.{READ_WEIGHT[part.kind]}"]
    assert part.index is not None
    if part.kind == "neuron":
        return stacked[:, part.index : part.index + 1]
    return np.asarray(stacked[part.index])


def factor(one: Intervention) -> float:
    """What remains of the part itself."""
    if isinstance(one.change, Scale):
        return one.change.factor
    if isinstance(one.change, Noise):
        raise UnsupportedError(f"{one}: noise moves each activation, so it is no constant")
    return 0.0
