"""Reads the bytes of a checkpoint: a closed description of the model, its weights, their hash.

A checkpoint is a safetensors file: eight bytes of length, a JSON header, float32 numbers. The
header's metadata hold the options of the model as JSON. Every option that the forward pass depends
on is read here and has to have a value that is known here; one that is unknown is refused. Names,
shapes and finiteness of the weights are checked against the options. The hash covers both.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.trusted.errors import NotProved, require

CLS, PAD, FIRST_LETTER = 0, 1, 2
"""Tokens; letters come after."""
MAX_PARAMETERS = 250_000
MAX_HEADER = 16_000_000
MAX_SIZE = 65_536
"""Of any option that counts something, so that nothing large is made before weights are read."""

Weights = Mapping[str, NDArray[np.float32]]

_INERT = {
    "task", "token_names", "dropout", "embedding_init", "attention_init", "mlp_init",
}  # fmt: skip
"""Options that do not change what a trained model computes."""
_REFUSED = {
    "adaptive_temperature": (False, "adaptive temperature"),
    "attention_norm": ("off", "a norm after attention"),
}
"""Options that are known in one value only, and what others are called."""
_CHOICES = {
    "norm": ("off", "rms", "layer", "rms_pre", "layer_pre"),
    "act_fn": ("gelu", "gelu_new", "relu", "silu"),
    "reads": ("first", "last", "last_letter"),
    "positions": ("learned", "sinusoidal", "rotary", "alibi", "shortformer"),
    "qk_norm": ("off", "rms", "rms_pre"),
    "score_scale": ("sqrt_d_head", "sqrt_d_head_log_n", "sqrt_d_head_log_n_cls"),
}


@dataclass(frozen=True)
class Spec:
    """What a model computes, but for its weights; each option as `ClassifierConfig` explains it."""

    n_letters: int
    d_model: int
    n_heads: int
    d_head: int
    d_mlp: int
    n_layers: int = 1
    norm: str = "off"
    norm_eps: float = 1e-5
    attend_cls: bool = False
    n_positions: int = 0
    score_scale: str = "sqrt_d_head"
    biases: bool = False
    act_fn: str = "gelu"
    final_norm: bool = False
    n_outputs: int = 1
    reads: str = "first"
    positions: str = "learned"
    rotary_dim: int = 0
    rotary_base: float = 10_000.0
    rotary_adjacent_pairs: bool = False
    n_key_value_heads: int = 0
    qk_norm: str = "off"
    attention_scale: float = 0.0
    gated_mlp: bool = False
    tied_embeddings: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kinds = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
            good = type(value) in kinds[str(field.type)]
            require(good, f"the option {field.name} = {value!r} is not {field.type}")
            if field.name in _CHOICES:
                require(value in _CHOICES[field.name], f"{field.name} = {value!r} is not known")
            elif type(value) is not str:
                most = MAX_SIZE if field.type == "int" else 1e9
                require(0 <= value <= most, f"{field.name} = {value!r} is out of range")
        sizes = self.n_letters, self.d_model, self.d_head, self.n_layers, self.n_outputs
        require(min(sizes) > 0 and self.norm_eps > 0, "a size of the model is zero")
        if self.n_heads:
            groups = self.n_heads % self.kv_heads == 0
            require(groups, "heads do not share keys and values evenly")
            turned = self.positions != "rotary" or self.turned % 2 == 0 < self.turned <= self.d_head
            require(turned, "rotary positions turn pairs of a head's components")
            scaled = self.attention_scale == 0 or self.attention_scale >= 1e-6
            require(scaled, "attention_scale is below 1e-6")
        causal = self.reads != "first"
        require(self.attend_cls or not causal, "in causal attention the reading token attends too")
        require(not (self.log_n and causal), "scores grow with log n only where CLS reads first")
        require(self.positions != "alibi" or causal, "ALiBi needs causal attention")
        placed = self.positions == "learned" or self.has_positions
        require(placed, f"{self.positions} positions without a number of them")
        require(not (self.gated_mlp and not self.d_mlp), "a gate without an MLP")
        require(not (self.final_norm and self.norm == "off"), "a final norm of no kind")
        tied = not self.tied_embeddings or self.n_outputs == self.n_letters
        require(tied, "tied embeddings have one output per letter")

    @property
    def vocab(self) -> int:
        return FIRST_LETTER + self.n_letters

    @property
    def n_classes(self) -> int:
        """One output is as good as two, of which the first is always zero."""
        return max(2, self.n_outputs)

    @property
    def kv_heads(self) -> int:
        return self.n_key_value_heads or self.n_heads

    @property
    def turned(self) -> int:
        """How many components of a query or key rotary positions turn."""
        return self.rotary_dim or self.d_head

    @property
    def has_positions(self) -> bool:
        return self.n_positions > 0

    @property
    def added_positions(self) -> bool:
        """Whether positions are added to embeddings."""
        return self.has_positions and self.positions in ("learned", "sinusoidal")

    @property
    def has_norm(self) -> bool:
        return self.norm != "off"

    @property
    def centred_norm(self) -> bool:
        """LayerNorm takes the mean out; RMS norms do not."""
        return self.norm.startswith("layer")

    @property
    def learned_norm(self) -> bool:
        return self.norm in ("rms", "layer")

    @property
    def log_n(self) -> bool:
        """Whether scores are multiplied by the log of the number of letters (and `cls_counted`)."""
        return self.score_scale != "sqrt_d_head"

    @property
    def cls_counted(self) -> int:
        return int(self.score_scale == "sqrt_d_head_log_n_cls")

    @property
    def sees_order(self) -> bool:
        """Whether the answer depends on more than how often each letter occurs."""
        causal = self.reads == "last_letter" or (self.reads == "last" and self.n_layers > 1)
        return self.has_positions or causal

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every weight's name and shape."""
        d, k = self.d_model, self.d_head
        shapes: dict[str, tuple[int, ...]] = {"embed.W_E": (self.vocab, d)}
        if self.has_positions and self.positions in ("learned", "shortformer"):
            shapes["pos_embed.W_pos"] = (self.n_positions, d)
        for layer in range(self.n_layers):
            block = f"blocks.{layer}"
            if self.n_heads:
                name = f"{block}.attn"
                shapes |= _norm(self.norm, f"{block}.ln1", d)
                for part, n in (("Q", self.n_heads), ("K", self.kv_heads), ("V", self.kv_heads)):
                    shapes[f"{name}.W_{part}"] = (n, d, k)
                    shapes |= {f"{name}.b_{part}": (n, k)} if self.biases else {}
                shapes[f"{name}.W_O"] = (self.n_heads, k, d)
                shapes |= {f"{name}.b_O": (d,)} if self.biases else {}
                shapes |= _norm(self.qk_norm, f"{name}.q_norm", k)
                shapes |= _norm(self.qk_norm, f"{name}.k_norm", k)
            if self.d_mlp:
                name, m = f"{block}.mlp", self.d_mlp
                shapes |= _norm(self.norm, f"{block}.ln2", d)
                shapes |= {f"{name}.W_gate": (d, m)} if self.gated_mlp else {}
                shapes |= {f"{name}.W_in": (d, m), f"{name}.W_out": (m, d)}
                shapes |= {f"{name}.b_in": (m,), f"{name}.b_out": (d,)} if self.biases else {}
        shapes |= _norm(self.norm, "ln_final", d) if self.final_norm else {}
        shapes |= {} if self.tied_embeddings else {"unembed.W_U": (d, self.n_outputs)}
        return shapes | ({"unembed.b_U": (self.n_outputs,)} if self.biases else {})


@dataclass(frozen=True)
class Model:
    """A model as bytes say it; shared weights are written out."""

    spec: Spec
    weights: Weights
    hash: str

    def same_outputs(self, label: int) -> set[int]:
        """Outputs with the same weights and bias are the same number."""
        columns = self.weights["unembed.W_U"].astype(np.float64)
        if self.spec.biases:
            bias = self.weights["unembed.b_U"].astype(np.float64)
            columns = np.concatenate([columns, bias[None]])
        if self.spec.n_outputs == 1:
            columns = np.concatenate([np.zeros_like(columns), columns], axis=1)
        return set(np.flatnonzero((columns == columns[:, [label]]).all(0)).tolist())


def read_model(content: bytes) -> Model:
    """Return the model in the bytes of a checkpoint.

    Raises:
        NotProved: They are no checkpoint, or one of a model that is not known here.
    """
    try:
        return _read(content)
    except NotProved:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotProved(f"rejected: not a checkpoint: {type(error).__name__}: {error}") from None


def _read(content: bytes) -> Model:
    size = int.from_bytes(content[:8], "little")
    require(8 <= size + 8 <= min(len(content), MAX_HEADER), "not a checkpoint: no header")
    header = strict_json(content[8 : 8 + size])
    metadata = header.pop("__metadata__")
    options = strict_json(metadata["config"])
    for name, (value, words) in _REFUSED.items():
        given = options.pop(name, value)
        require(type(given) is type(value) and given == value, f"{words} is not known here")
    require(options.get("score_scale") != "sqrt_d_head_ssmax", "a learned factor of log n")
    known = {field.name for field in fields(Spec)}
    unknown = sorted(set(options) - known - _INERT)
    require(not unknown, f"options that are not known here: {', '.join(unknown)}")
    spec = Spec(**{name: value for name, value in options.items() if name in known})
    shapes, numbers = spec.shapes(), content[8 + size :]
    require(set(header) == set(shapes), "the weights do not fit the options")
    weights, total = {}, 0
    for name, shape in shapes.items():
        entry, bytes_of = header[name], 4 * math.prod(shape)
        start, end = entry["data_offsets"]
        fits = entry["dtype"] == "F32" and tuple(entry["shape"]) == shape
        require(fits and start >= 0 and end == start + bytes_of, f"{name} does not fit")
        require(end <= len(numbers), f"{name} lies beyond the end of the file")
        weights[name] = np.frombuffer(numbers[start:end], dtype="<f4").reshape(shape)
        require(bool(np.isfinite(weights[name]).all()), f"{name} has numbers that are not finite")
        total += weights[name].size
    require(
        total <= MAX_PARAMETERS,
        f"the model has {total:,} parameters; exact arithmetic is affordable up to "
        f"{MAX_PARAMETERS:,}",
    )
    digest = hashlib.sha256(metadata["config"].encode())
    for name in sorted(weights):
        digest.update(f"\0{name}{list(weights[name].shape)}\0".encode())
        digest.update(weights[name].tobytes())
    return Model(spec, _written_out(spec, weights), digest.hexdigest())


def strict_json(text: str | bytes) -> Any:
    """A JSON document without duplicate keys, NaN or infinities."""
    return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers differ on which of two equal keys counts, so there must not be two."""
    require(len(dict(pairs)) == len(pairs), "a JSON object names a key twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise NotProved(f"{name} is not a number of JSON")


def _norm(kind: str, name: str, width: int) -> dict[str, tuple[int, ...]]:
    kept = {"rms": ("w",), "layer": ("w", "b")}.get(kind, ())
    return {f"{name}.{part}": (width,) for part in kept}


def _written_out(spec: Spec, weights: Mapping[str, Any]) -> Weights:
    """The same function without shared weights: a copy for each head, and `W_U`."""
    whole = dict(weights)
    if spec.tied_embeddings:
        whole["unembed.W_U"] = whole["embed.W_E"][FIRST_LETTER:].T
    if spec.n_heads:
        copies, shared = spec.n_heads // spec.kv_heads, (".W_K", ".W_V", ".b_K", ".b_V")
        for name in [name for name in whole if name.endswith(shared)]:
            whole[name] = np.repeat(whole[name], copies, axis=0)
    return whole
