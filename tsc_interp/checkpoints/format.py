"""A checkpoint: one safetensors file, weights under HookedTransformer's names, and metadata.

The metadata holds a format version, the configuration and the provenance, each as JSON text.
Reading never unpickles and never trusts: names, shapes, dtypes and finiteness are checked against
the configuration before anything is returned. Writing is atomic: a temporary file, then a rename.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, ConfigError
from tsc_interp.files import write_output

FORMAT = "tsc-interp/checkpoint"
FORMAT_VERSION = 1
SUFFIX = ".safetensors"

WeightArrays = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Checkpoint:
    """A trained (or fresh) classifier as data: no torch needed to hold, read or write it."""

    config: ClassifierConfig
    weights: WeightArrays
    provenance: Mapping[str, Any] = field(default_factory=dict)
    source: str = "memory"

    def __post_init__(self) -> None:
        _check_weights(self.config, self.weights, self.source)

    @property
    def n_parameters(self) -> int:
        return sum(weight.size for weight in self.weights.values())

    def weight_hash(self) -> str:
        """SHA-256 over configuration, names, shapes and exact bits: what a certificate is about."""
        digest = hashlib.sha256(self.config.to_json().encode())
        for name in sorted(self.weights):
            weight = np.ascontiguousarray(self.weights[name], dtype="<f4")
            digest.update(f"\0{name}{list(weight.shape)}\0".encode())
            digest.update(weight.tobytes())
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the file; one that is there is replaced if it is a checkpoint, or with `force`."""
        write_output(Path(path), self.to_bytes(), is_checkpoint, force=force)

    def to_bytes(self) -> bytes:
        """The file's content."""
        metadata = {
            "format": FORMAT,
            "format_version": str(FORMAT_VERSION),
            "config": self.config.to_json(),
            "provenance": json.dumps(dict(self.provenance), sort_keys=True),
        }
        arrays = {name: np.ascontiguousarray(w) for name, w in self.weights.items()}
        return to_safetensors(arrays, metadata=metadata)


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint in one file, every part of it checked."""
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"no checkpoint file at {path}")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            _check_format(metadata, path)
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise CheckpointError(_unreadable(path, error)) from None
    try:
        config = ClassifierConfig.from_json(metadata["config"])
        provenance = json.loads(metadata.get("provenance", "{}"))
    except (ConfigError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: the stored configuration cannot be used: {error}") from None
    return Checkpoint(config, weights, provenance, source=str(path))


def is_checkpoint(start: bytes) -> bool:
    """Whether a file that starts so is one of ours: the metadata come first."""
    return f'"format":"{FORMAT}"'.encode() in start


def _check_format(metadata: Mapping[str, str], path: Path) -> None:
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is a safetensors file, but not a tsc-interp checkpoint (no format in its "
            f"metadata); 'tsc-interp import' reads the report's own .pt files"
        )
    version = metadata.get("format_version", "")
    if not version.isdecimal() or int(version) > FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {version!r}; this version of tsc-interp reads up to "
            f"{FORMAT_VERSION}, so a newer tsc-interp is needed"
        )


def _check_weights(config: ClassifierConfig, weights: WeightArrays, source: str) -> None:
    expected = config.weight_shapes()
    missing, extra = (
        sorted(expected.keys() - weights.keys()),
        sorted(weights.keys() - expected.keys()),
    )
    if missing or extra:
        parts = [f"missing {', '.join(missing)}"] * bool(missing)
        parts += [f"unexpected {', '.join(extra)}"] * bool(extra)
        raise CheckpointError(
            f"{source}: the tensors do not fit the configuration: {'; '.join(parts)}"
        )
    for name, shape in expected.items():
        weight = weights[name]
        if weight.shape != shape:
            raise CheckpointError(
                f"{source}: {name} has shape {list(weight.shape)}, expected {list(shape)}"
            )
        if weight.dtype != np.float32:
            raise CheckpointError(f"{source}: {name} is {weight.dtype}, expected float32")
        if not np.isfinite(weight).all():
            raise CheckpointError(f"{source}: {name} has values that are NaN or infinite")


def _unreadable(path: Path, error: Exception) -> str:
    with path.open("rb") as file:
        start = file.read(4)
    if start[:2] == b"PK" or start[:1] == b"\x80":
        return (
            f"{path} is a pickled file, which can run code when read, so it is not read here; "
            f"'tsc-interp import {path} --out model{SUFFIX}' safely reads the report's own models"
        )
    return f"{path} is not a readable safetensors file (truncated or of another kind): {error}"
