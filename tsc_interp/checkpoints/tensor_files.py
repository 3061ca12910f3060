"""Tensors in files that other programs wrote: `.pt` read without running code, safetensors, npz."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tsc_interp.checkpoints.safe import opened, require_file
from tsc_interp.errors import CheckpointError
from tsc_interp.files import reason, shown
from tsc_interp.memory import require_memory

_STATE = ("state_dict", "model_state_dict", "model_state", "model", "params", "weights")
"""Where programs put a state dict that they save with other things."""


def flattened(arrays: Any) -> dict[str, Any]:
    """A state dict: of a module, nested dictionaries, lists of dictionaries, or inside of others.

    Example:
        >>> flattened({"epoch": 3, "state_dict": {"layers": [{"W": 1.0}, {"W": 2.0}]}})
        {'layers.0.W': 1.0, 'layers.1.W': 2.0}
    """
    for key in _STATE:
        if isinstance(arrays, Mapping) and isinstance(arrays.get(key), Mapping):
            arrays = arrays[key]
    return dict(_leaves(arrays, ""))


def _leaves(arrays: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(arrays, nn.Module):
        arrays = arrays.state_dict()
    if isinstance(arrays, list | tuple) and any(
        isinstance(part, Mapping | nn.Module) for part in arrays
    ):
        arrays = dict(enumerate(arrays))
    if not isinstance(arrays, Mapping):
        yield prefix.removesuffix("."), arrays
        return
    for name, part in arrays.items():
        yield from _leaves(part, f"{prefix}{name}.".replace("/", "."))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A state dict of plain tensors, by name."""
    if path.suffix == ".safetensors":
        with opened(path) as file:
            return {name: torch.from_numpy(array) for name, array in file.read_any().items()}
    require_file(path)
    if path.suffix == ".npz":
        return _read_npz(path)
    size = _check_archive(path)
    try:
        with warnings.catch_warnings(action="ignore"):  # about kinds of tensors refused below
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch reads plain tensors only, and of what it refuses it raises whatever came up.
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CheckpointError(
            f"{shown(path)} cannot be read as plain tensors, and nothing else is read from it: "
            f"{first[:200]}"
        ) from None
    kind = type(state).__name__
    state = flattened(state)
    if not all(isinstance(weight, Tensor) for weight in state.values()):
        raise CheckpointError(f"{shown(path)} holds a {kind}, not a state dict of tensors")
    for name, weight in state.items():
        if problem := _oddity(weight):
            raise CheckpointError(f"{shown(path)}: {shown(name)} is {problem}, not plain numbers")
    if sum(weight.numel() * weight.element_size() for weight in state.values()) > size:
        raise CheckpointError(f"{shown(path)}: its tensors claim more numbers than the file holds")
    return {name: weight.detach() for name, weight in state.items()}


def _read_npz(path: Path) -> dict[str, Tensor]:
    """NumPy's archive of arrays; pickled objects are refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        require_memory("the arrays of this file", unpacked, each=1, instead="give a smaller file")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(array) for name, array in flattened(arrays).items()}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{shown(path)} cannot be read as NumPy arrays: {reason(error)[:200]}"
        ) from None


def _check_archive(path: Path) -> int:
    """The file's size, which bounds what reading it can take: torch stores, and never squeezes."""
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            squeezed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
            too_much = squeezed or sum(member.file_size for member in members) > size
            damaged = None if too_much else archive.testzip()
    except Exception as error:  # zipfile, too, raises whatever came up in a damaged file
        raise CheckpointError(
            f"{shown(path)} is not a readable archive of torch.save (1.6 or newer), so it is not "
            f"read: {reason(error)}"
        ) from None
    if damaged:
        raise CheckpointError(f"{shown(path)} is damaged: {shown(damaged)} fails its checksum")
    if too_much:
        raise CheckpointError(
            f"{shown(path)} would unpack to more than it is, which torch.save never writes, so it "
            "is not read"
        )
    return size


def _oddity(weight: Tensor) -> str | None:
    """What a tensor is if it is not an array of numbers in memory."""
    if weight.is_nested or weight.layout != torch.strided:
        return "sparse or nested"
    if weight.is_quantized or weight.is_complex() or weight.is_meta:
        return f"{weight.dtype} on {weight.device.type}"
    return None
