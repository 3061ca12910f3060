"""Tensors in files that other programs wrote: `.pt` read without running code, or safetensors."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from tsc_interp.checkpoints.safe import opened, require_file
from tsc_interp.errors import CheckpointError
from tsc_interp.files import reason, shown


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A state dict of plain tensors, by name."""
    if path.suffix == ".safetensors":
        with opened(path) as file:
            return {name: torch.from_numpy(array) for name, array in file.read_any().items()}
    require_file(path)
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
    if not isinstance(state, Mapping) or not all(
        isinstance(name, str) and isinstance(weight, Tensor) for name, weight in state.items()
    ):
        kind = type(state).__name__
        raise CheckpointError(f"{shown(path)} holds a {kind}, not a state dict of tensors")
    for name, weight in state.items():
        if problem := _oddity(weight):
            raise CheckpointError(f"{shown(path)}: {shown(name)} is {problem}, not plain numbers")
    if sum(weight.numel() * weight.element_size() for weight in state.values()) > size:
        raise CheckpointError(f"{shown(path)}: its tensors claim more numbers than the file holds")
    return {name: weight.detach() for name, weight in state.items()}


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
