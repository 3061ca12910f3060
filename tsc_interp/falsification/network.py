"""A model of any depth as plain arrays, so that it can be run quickly, with bounds, and exactly.

The family: token and learned position embeddings, attention both ways or causal, an MLP or none,
LayerNorm or RMS norm or none, biases. What else TransformerLens has is refused with the reason, and
so is a model with hooks or replaced parts, whose weights do not say what it computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.import_options import family_options
from tsc_interp.model.importing import (
    ACTIVATION_NAMES,
    exported_from,
    norm_weight,
    output_bias,
    refuse_unsupported,
)
from tsc_interp.model.interop import NORMS
from tsc_interp.model.layers import ACTIVATIONS
from tsc_interp.model.unaltered import (
    require_activation,
    require_epsilon,
    require_equal_layers,
    require_unaltered,
)
from tsc_interp.strings import CLS

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
    require_unaltered(model)
    cfg = model.cfg
    refuse_unsupported(cfg)
    extra = set(family_options(model, cfg)) - {"n_positions"}
    if extra or exported_from(model) is not None:
        raise UnsupportedError(f"{', '.join(sorted(extra)) or 'an export'} cannot be bounded here")
    kind = getattr(cfg, "normalization_type", None)
    if kind not in NORMS or getattr(cfg, "final_rms", False):
        raise UnsupportedError(f"normalization_type {kind!r} cannot be bounded here")
    require_equal_layers(model.blocks)
    has_mlp = not getattr(cfg, "attn_only", False)
    act = ACTIVATION_NAMES.get(str(getattr(cfg, "act_fn", None) or "gelu"), "") if has_mlp else ""
    if has_mlp:
        if not act:
            raise UnsupportedError(f"the activation {cfg.act_fn!r} cannot be bounded here")
        require_activation(model, ACTIVATIONS[act], str(cfg.act_fn))
    if kind is not None:
        require_epsilon(model, float(cfg.eps))
    options: dict[str, Any] = {
        "n_layers": int(cfg.n_layers),
        "n_heads": int(cfg.n_heads),
        "d_head": int(cfg.d_head),
        "causal": str(getattr(cfg, "attention_dir", None) or "causal") == "causal",
        "norm": NORMS[kind].removesuffix("_pre"),
        "final": kind is not None,
        "eps": float(getattr(cfg, "eps", 1e-5)),
        "activation": act,
    }
    return _network(_named(model, has_mlp), **options)


def _named(model: Any, has_mlp: bool) -> dict[str, Array]:
    """The weights under HookedTransformer's names, whichever version the model is of."""
    state = model.state_dict()
    found: dict[str, Any] = {"embed.W_E": model.W_E, "unembed.W_U": model.W_U}
    found["unembed.b_U"] = output_bias(model)
    table = getattr(model, "W_pos", None)
    if table is not None and bool(table.any()):
        found["pos_embed.W_pos"] = table
    parts: dict[str, tuple[str, ...]] = {
        "attn": ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")
    }
    parts |= {"mlp": ("W_in", "b_in", "W_out", "b_out")} if has_mlp else {}
    norms = ["ln_final"]
    for i in range(model.cfg.n_layers):
        for part, names in parts.items():
            found |= {f"blocks.{i}.{part}.{name}": getattr(model, name)[i] for name in names}
        norms += [f"blocks.{i}.ln1", f"blocks.{i}.ln2"]
    for name in norms:
        held = {f"{name}.{part}": norm_weight(state, name, part) for part in "wb"}
        found |= {key: weight for key, weight in held.items() if weight is not None}
    return {key: _array(weight) for key, weight in found.items()}


_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "score_scale": ("sqrt_d_head",), "positions": ("learned",), "adaptive_temperature": (False,),
    "attention_norm": ("off",), "n_key_value_heads": (0,), "qk_norm": ("off",),
    "attention_scale": (0.0,), "gated_mlp": (False,), "tied_embeddings": (False,),
    "has_attention": (True,),
}  # fmt: skip


def of_checkpoint(checkpoint: Checkpoint) -> Network:
    """The arrays of one of our classifiers.

    Raises:
        UnsupportedError: The model has a part that this family has not.
    """
    config = checkpoint.config
    for option, plain in _PLAIN.items():
        if getattr(config, option) not in plain:
            raise UnsupportedError(f"{option} = {getattr(config, option)} cannot be bounded here")
    return _network(
        {name: weight.astype(np.float64) for name, weight in checkpoint.weights.items()},
        n_layers=config.n_layers,
        n_heads=config.n_heads,
        d_head=config.d_head,
        causal=config.causal,
        norm=config.norm.removesuffix("_pre"),
        final=config.final_norm,
        eps=config.norm_eps,
        activation=config.act_fn if config.has_mlp else "",
        unseen=None if config.attend_cls or config.reads == "last_letter" else CLS,
    )


def _network(held: Mapping[str, Array], *, n_layers: int, final: bool, **options: Any) -> Network:
    """Weights under HookedTransformer's names; what is missing of biases and norms is neutral."""
    d_model = held["embed.W_E"].shape[1]

    def affine(name: str, part: str) -> Affine:
        weight = held[f"{name}.W_{part}"]
        if part in "QKV":
            weight = weight.transpose(1, 0, 2).reshape(d_model, -1)
        weight = weight.reshape(-1, weight.shape[-1])
        bias = held.get(f"{name}.b_{part}", np.zeros(weight.shape[1])).reshape(-1)
        return Affine(weight, bias)

    def norm(name: str) -> Affine | None:
        if options["norm"] == "off":
            return None
        ones, zeros = np.ones(d_model), np.zeros(d_model)
        return Affine(held.get(f"{name}.w", ones), held.get(f"{name}.b", zeros))

    layers = []
    for i in range(n_layers):
        heads = [affine(f"blocks.{i}.attn", part) for part in "QKVO"]
        mlp: Any = ()
        if options["activation"]:
            mlp = [
                norm(f"blocks.{i}.ln2"),
                *(affine(f"blocks.{i}.mlp", part) for part in ("in", "out")),
            ]
        layers.append(Layer(norm(f"blocks.{i}.ln1"), *heads, *mlp))
    read = affine("unembed", "U")
    if read.weight.shape[1] == 1:
        read = Affine(np.hstack([0 * read.weight, read.weight]), np.array([0.0, read.bias[0]]))
    return Network(
        embed=held["embed.W_E"],
        positions=held.get("pos_embed.W_pos"),
        layers=tuple(layers),
        final=norm("ln_final") if final else None,
        unembed=read,
        **options,
    )


def _array(weight: Any) -> Array:
    found: Array = weight.detach().float().cpu().numpy().astype(np.float64)
    if not np.isfinite(found).all():
        raise UnsupportedError("the model has weights that are not finite")
    return found
