"""A model of any depth as plain arrays, so that it can be run quickly, with bounds, and exactly.

The family: token and learned position embeddings, attention both ways or causal, an MLP or none,
LayerNorm or RMS norm or none, biases. What else TransformerLens has is refused with the reason, and
so is a model with hooks or replaced parts, whose weights do not say what it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.import_options import exported_from, is_causal, model_options
from tsc_interp.model.interop import weight_of
from tsc_interp.strings import CLS, FIRST_LETTER

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Affine:
    """`x W + b`."""

    weight: Array
    bias: Array


@dataclass(frozen=True)
class Layer:
    """Heads side by side: `query.weight` is `[d_model, n_heads * d_head]`."""

    norm1: Affine | None
    query: Affine
    key: Affine
    value: Affine
    output: Affine
    norm2: Affine | None = None
    into: Affine | None = None
    out: Affine | None = None


@dataclass(frozen=True)
class Network:
    """Weights as float64, which holds every float32 number exactly. Norms are diagonal maps."""

    embed: Array
    positions: Array | None
    layers: tuple[Layer, ...]
    final: Affine | None
    unembed: Affine
    n_heads: int
    d_head: int
    causal: bool
    norm: str
    """`layer`, `rms` or `off`."""
    eps: float
    activation: str
    scale: float = 0.0
    """What scores are divided by; 0: the root of `d_head`."""
    unseen: int | None = None
    """A token that no head attends to."""

    @property
    def outputs(self) -> int:
        """One output is two, the first of them zero."""
        return int(self.unembed.weight.shape[1])

    @property
    def longest(self) -> int | None:
        """The longest row there are positions for."""
        return None if self.positions is None else len(self.positions)


def of_transformer_lens(model: Any) -> Network:
    """The arrays of a `HookedTransformer` or a `TransformerBridge`.

    Raises:
        UnsupportedError: The model has a part that this family has not.
    """
    options = model_options(model)
    if exported_from(model) is not None or getattr(model.cfg, "final_rms", False):
        raise UnsupportedError("an export, or a final RMS norm, cannot be bounded here")
    return _network(options, partial(weight_of, model), causal=is_causal(model.cfg))


def of_checkpoint(checkpoint: Checkpoint) -> Network:
    """The arrays of one of our classifiers.

    Raises:
        UnsupportedError: The model has a part that this family has not.
    """
    config, weights = checkpoint.config, dict(checkpoint.weights)
    if config.tied_embeddings:
        weights["unembed.W_U"] = weights["embed.W_E"][FIRST_LETTER:].T
    return _network(
        {name: getattr(config, name) for name in (*_PLAIN, *_READ)},
        weights.get,
        causal=config.causal,
        unseen=None if config.attend_cls or config.reads == "last_letter" else CLS,
    )


_PLAIN: Mapping[str, Any] = {
    "score_scale": "sqrt_d_head", "positions": "learned", "adaptive_temperature": False,
    "attention_norm": "off", "n_key_value_heads": 0, "qk_norm": "off",
    "gated_mlp": False, "has_attention": True,
}  # fmt: skip
_READ = ("n_layers", "n_heads", "d_head", "d_mlp", "n_positions", "norm", "norm_eps", "final_norm",
         "act_fn", "attention_scale")  # fmt: skip


def _network(
    options: Mapping[str, Any],
    weight_named: Callable[[str], Any],
    *,
    causal: bool,
    unseen: int | None = None,
) -> Network:
    """The network of a classifier's options, and of weights by HookedTransformer's names.

    Missing biases are zero, and missing weights of norms are neutral.
    """
    for option, plain in _PLAIN.items():
        if options.get(option, plain) != plain:
            raise UnsupportedError(f"{option} = {options[option]} cannot be bounded here")
    kind = options["norm"].removesuffix("_pre")

    def array(name: str, neutral: Array | None = None) -> Array:
        weight = weight_named(name)
        return _array(neutral if weight is None else weight)

    embed = array("embed.W_E")
    d_model = embed.shape[1]

    def affine(name: str, part: str) -> Affine:
        weight = array(f"{name}.W_{part}")
        if part in "QKV":
            weight = weight.transpose(1, 0, 2).reshape(d_model, -1)
        weight = weight.reshape(-1, weight.shape[-1])
        return Affine(weight, array(f"{name}.b_{part}", np.zeros(weight.shape[1])).reshape(-1))

    def norm(name: str) -> Affine | None:
        if kind == "off":
            return None
        return Affine(array(f"{name}.w", np.ones(d_model)), array(f"{name}.b", np.zeros(d_model)))

    layers = []
    for i in range(options["n_layers"]):
        heads = [affine(f"blocks.{i}.attn", part) for part in "QKVO"]
        layer = Layer(norm(f"blocks.{i}.ln1"), *heads)
        if options["d_mlp"]:
            into, out = (affine(f"blocks.{i}.mlp", part) for part in ("in", "out"))
            layer = replace(layer, norm2=norm(f"blocks.{i}.ln2"), into=into, out=out)
        layers.append(layer)
    read = affine("unembed", "U")
    if read.weight.shape[1] == 1:
        read = Affine(np.hstack([0 * read.weight, read.weight]), np.array([0.0, read.bias[0]]))
    return Network(
        embed=embed,
        positions=array("pos_embed.W_pos") if options["n_positions"] else None,
        layers=tuple(layers),
        final=norm("ln_final") if options["final_norm"] else None,
        unembed=read,
        n_heads=options["n_heads"],
        d_head=options["d_head"],
        causal=causal,
        norm=kind,
        eps=options["norm_eps"],
        activation=options["act_fn"] if options["d_mlp"] else "",
        scale=options["attention_scale"],
        unseen=unseen,
    )


def _array(weight: Any) -> Array:
    """A tensor's or an array's float32 numbers as float64."""
    numbers = weight.detach().float().cpu().numpy() if isinstance(weight, Tensor) else weight
    if not np.isfinite(numbers).all():
        raise UnsupportedError("the model has weights that are not finite")
    return np.asarray(numbers, dtype=np.float64)
