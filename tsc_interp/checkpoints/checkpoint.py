"""A checkpoint: one safetensors file, weights under HookedTransformer's names, and metadata.

The metadata hold a format version, the configuration, the provenance and hashes of all three parts,
as text. Reading never unpickles and never trusts: names, shapes, dtypes and finiteness are checked
against the configuration, and everything against the hashes, before anything is returned. Equal
checkpoints are equal files, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints import safe
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, UsageError, shorten
from tsc_interp.files import as_path, shown, write_output
from tsc_interp.output.json_form import jsonable
from tsc_interp.output.visible import visible
from tsc_interp.strings import FIRST_LETTER

FORMAT = "tsc-interp/checkpoint"
FORMAT_VERSION = 2
_LAST_WITHOUT_HASHES = "7fc0354"
SUFFIX = ".safetensors"

WeightArrays = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, repr=False)
class Checkpoint:
    """The configuration and weights of a classifier, which can be saved and loaded without torch.

    Args:
        config: The shape of the model and its task.
        weights: float32 arrays by the names that `config.weight_shapes()` lists.
        provenance: Where the weights come from; kept in the file.
        source: The model's name in messages and reports.

    Raises:
        CheckpointError: A weight is missing, unknown, of another shape, or not finite.

    Example:
        >>> config = ClassifierConfig(n_heads=0, d_mlp=0)
        >>> shapes = config.weight_shapes()
        >>> weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
        >>> Checkpoint(config, weights).n_parameters
        12
    """

    config: ClassifierConfig
    weights: WeightArrays
    provenance: Mapping[str, Any] = field(default_factory=dict)
    source: str = "memory"

    def __post_init__(self) -> None:
        if not isinstance(self.config, ClassifierConfig) or not isinstance(self.weights, Mapping):
            raise CheckpointError(
                "a checkpoint has a ClassifierConfig and a dictionary of weights, got "
                f"{shorten(self.config)} and {shorten(self.weights)}"
            )
        try:
            _check_weights(self.config, self.weights)
        except CheckpointError as error:
            raise CheckpointError(f"{shown(self.source)}: {error}") from None

    def __repr__(self) -> str:
        about = f"{self.source}, {self.config.question}?, {self.n_parameters:,} parameters"
        return f"<Checkpoint: {visible(about)}>"

    def _repr_html_(self) -> str:
        from tsc_interp.output.display import Grid, card

        config = self.config
        chosen = [[k, str(v)] for k, v in config.to_dict().items() if k in config.model_fields_set]
        shapes = [[name, " × ".join(map(str, w.shape))] for name, w in self.weights.items()]
        about = [self.source, f"{config.question}?", f"{self.n_parameters:,} parameters"]
        tables = [
            Grid("configuration", ("option", "value"), chosen),
            Grid("weights", ("name", "shape"), shapes),
        ]
        return card("Checkpoint", about, grids=tables)

    @property
    def n_parameters(self) -> int:
        """The number of weights."""
        return sum(weight.size for weight in self.weights.values())

    @property
    def original_reads(self) -> int | None:
        """The most tokens that the original of an import accepts; None if that is not known."""
        most = self.provenance.get("n_ctx")
        return most if type(most) is int else None

    def weight_hash(self) -> str:
        """SHA-256 of the configuration and all weights, bit by bit; certificates name it."""
        return safe.hash_arrays(self.config.to_json(), self.weights)

    def folded(self) -> Checkpoint:
        """Return the checkpoint with learned factors of log n multiplied into each head's W_Q.

        The product is rounded to float32, so claims verified afterwards are about this model; the
        one that was trained differs from it by that rounding.
        """
        if not self.config.ssmax:
            return self
        weights = dict(self.weights)
        for layer in range(self.config.n_layers):
            name = f"blocks.{layer}.attn"
            factor = weights.pop(f"{name}.log_n_factor")
            weights[f"{name}.W_Q"] = weights[f"{name}.W_Q"] * factor[:, None, None]
        config = self.config.replace(score_scale="sqrt_d_head_log_n")
        return replace(self, config=config, weights=weights)

    def expanded(self) -> Checkpoint:
        """Return a checkpoint of the same function without shared weights; nothing is rounded.

        Every head gets its own copy of its group's keys and values, and tied embeddings are copied
        into `W_U`. Verification uses this form; hashes and certificates are about the original.

        Example:
            >>> config = ClassifierConfig(n_heads=2, n_key_value_heads=1)
            >>> shared = Checkpoint(config, {n: np.ones(s, np.float32)
            ...                              for n, s in config.weight_shapes().items()})
            >>> shared.weights["blocks.0.attn.W_K"].shape
            (1, 2, 1)
            >>> shared.expanded().weights["blocks.0.attn.W_K"].shape
            (2, 2, 1)
        """
        config, weights = self.config, dict(self.weights)
        if not (config.grouped or config.tied_embeddings):
            return self
        if config.tied_embeddings:
            weights["unembed.W_U"] = np.ascontiguousarray(weights["embed.W_E"][FIRST_LETTER:].T)
        if config.grouped:
            copies = config.n_heads // config.kv_heads
            shared = (".attn.W_K", ".attn.W_V", ".attn.b_K", ".attn.b_V")
            for name in [name for name in weights if name.endswith(shared)]:
                weights[name] = np.repeat(weights[name], copies, axis=0)
        plain = config.replace(n_key_value_heads=0, tied_embeddings=False)
        return replace(self, config=plain, weights=weights)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the file. An existing file is replaced if it is a checkpoint, or with `force`."""
        write_output(as_path(path), self.to_bytes(), is_checkpoint, force=force)

    def to_bytes(self) -> bytes:
        """Return the content of the file that `save` writes."""
        provenance = json.dumps(jsonable(dict(self.provenance)), sort_keys=True, allow_nan=False)
        metadata = {
            "format": FORMAT,
            "format_version": str(FORMAT_VERSION),
            "config": self.config.to_json(),
            "weight_hash": self.weight_hash(),
            "provenance": provenance,
            "provenance_hash": _hash(provenance),
        }
        return safe.to_bytes(self.weights, metadata)


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint in one file, every part of it checked."""
    path = Path(path)
    with safe.opened(path) as file:
        _check_format(file.metadata)
        config = _config(file.metadata)
        provenance = _provenance(file.metadata)
        weights = file.read(config.weight_shapes())
        _check_hashes(file.metadata, weights)
    return Checkpoint(config, weights, provenance, source=str(path))


def is_checkpoint(start: bytes) -> bool:
    """Whether a file that starts so is one of ours: the metadata come first."""
    return f'"format":"{FORMAT}"'.encode() in start


# -- metadata ----------------------------------------------------------------------------------


def _check_format(metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            "a safetensors file, but not a tsc-interp checkpoint (no format in its metadata); "
            "'tsc-interp import' reads the source report's own .pt files"
        )
    version = metadata.get("format_version", "")
    if version == "1":
        raise CheckpointError(
            f"format version 1 has no hashes; commit {_LAST_WITHOUT_HASHES} of tsc-interp was the "
            f"last to read it, and saves it as version {FORMAT_VERSION}"
        )
    if version != str(FORMAT_VERSION):
        raise CheckpointError(
            f"format version {shown(version)!r}; this version of tsc-interp reads "
            f"{FORMAT_VERSION}, so the file is damaged or a newer tsc-interp is needed"
        )


def _config(metadata: Mapping[str, str]) -> ClassifierConfig:
    if "config" not in metadata:
        raise CheckpointError("the stored configuration is missing")
    try:
        return ClassifierConfig.from_json(metadata["config"])
    except UsageError as error:
        raise CheckpointError(f"the stored configuration cannot be used: {error}") from None


def _provenance(metadata: Mapping[str, str]) -> dict[str, Any]:
    try:
        stored = json.loads(metadata.get("provenance", "{}"), parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the stored provenance cannot be read: {error}") from None
    if not isinstance(stored, dict):
        raise CheckpointError(f"the stored provenance is a {type(stored).__name__}, not an object")
    return stored


def _check_hashes(metadata: Mapping[str, str], weights: WeightArrays) -> None:
    arrays = {
        "weight_hash": safe.hash_arrays(metadata["config"], weights),
        "provenance_hash": _hash(metadata.get("provenance", "")),
    }
    for name, value in arrays.items():
        if metadata.get(name) != value:
            raise CheckpointError(
                f"damaged: the {name} stored in the file is not that of its content; get it from "
                "where it came from, or train it again"
            )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# -- weights -----------------------------------------------------------------------------------


def _check_weights(config: ClassifierConfig, weights: WeightArrays) -> None:
    safe.require_names(config.weight_shapes(), weights)
    for name, shape in config.weight_shapes().items():
        weight = weights[name]
        if weight.shape != shape:
            raise CheckpointError(f"{name} has shape {list(weight.shape)}, expected {list(shape)}")
        if weight.dtype != np.float32:
            raise CheckpointError(f"{name} is {weight.dtype}, expected float32")
        if not np.isfinite(weight).all():
            raise CheckpointError(f"{name} has values that are NaN or infinite")
