"""Safetensors files: written the same way every time, and read only after a look at the outside.

The library writes metadata in a random order, so the few bytes around the numbers are put together
here: 8 bytes of length, a JSON header padded to 8 bytes, then the arrays one after the other.
Reading is the library's; before it, anything that is not a regular file with a header of a sensible
size is refused, so that a pipe cannot hang a reader nor a header fill the memory.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from tsc_interp.errors import CheckpointError
from tsc_interp.files import reason, shown

MAX_HEADER = 16_000_000

Array = NDArray[np.float32]
Arrays = Mapping[str, Array]


def to_bytes(arrays: Arrays, metadata: Mapping[str, str]) -> bytes:
    """The content of a file: equal for equal content, on every machine."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    parts, end = [], 0
    for name in sorted(arrays):
        part = np.ascontiguousarray(arrays[name], dtype="<f4").tobytes()
        offsets = [end, end := end + len(part)]
        header[name] = {"dtype": "F32", "shape": list(arrays[name].shape), "data_offsets": offsets}
        parts.append(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def sealed_bytes(arrays: Arrays, metadata: Mapping[str, str]) -> bytes:
    """The same, with a checksum over the metadata and the arrays."""
    return to_bytes(arrays, {**metadata, "checksum": hash_arrays(_sorted_text(metadata), arrays)})


def hash_arrays(text: str, arrays: Arrays) -> str:
    """SHA-256 over a text, and over the names, shapes and exact bits of arrays."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f4")
        digest.update(f"\0{name}{list(array.shape)}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def require_names(expected: Collection[str], names: Collection[str]) -> None:
    """Refuse names that are not the expected ones."""
    wrong = {
        "missing": [name for name in expected if name not in names],
        "unexpected": [name for name in names if name not in expected],
    }
    parts = [
        f"{problem} {', '.join(map(shown, sorted(listed)[:5]))}" + ", ..." * (len(listed) > 5)
        for problem, listed in wrong.items()
        if listed
    ]
    if parts:
        raise CheckpointError(f"the tensors do not fit the configuration: {'; '.join(parts)}")


class SafeFile:
    """An open file: its metadata, and its arrays, whose kind is known before they load."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.metadata: dict[str, str] = file.metadata() or {}
        self.names: set[str] = set(file.keys())

    def read(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
        """All arrays, if they have these names and shapes and are float32."""
        require_names(shapes.keys(), self.names)
        for name, shape in shapes.items():
            outside = self._file.get_slice(name)
            if outside.get_dtype() != "F32":
                raise CheckpointError(f"{name} is {outside.get_dtype()}, expected F32 (float32)")
            if tuple(outside.get_shape()) != shape:
                raise CheckpointError(
                    f"{name} has shape {outside.get_shape()}, expected {list(shape)}"
                )
        return {name: self._file.get_tensor(name) for name in sorted(shapes)}

    def read_sealed(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
        """The same for a file written by `sealed_bytes`, whose checksum has to fit its content."""
        arrays = self.read(shapes)
        metadata = {key: text for key, text in self.metadata.items() if key != "checksum"}
        if self.metadata.get("checksum") != hash_arrays(_sorted_text(metadata), arrays):
            raise CheckpointError("damaged: its checksum does not fit its content")
        return arrays

    def read_any(self) -> dict[str, Array]:
        """All arrays, whatever they are."""
        return {name: self._file.get_tensor(name) for name in sorted(self.names)}


@contextmanager
def opened(path: Path) -> Iterator[SafeFile]:
    """The file, or a `CheckpointError`; errors of the block are told with the file's name."""
    require_file(path)
    start = b""
    try:
        with path.open("rb") as file:
            start = file.read(8)
        length = int.from_bytes(start, "little")
        if length > MAX_HEADER:
            raise ValueError(f"a header of {length:,} bytes; at most {MAX_HEADER:,} are read")
        with safe_open(path, framework="np") as file:
            yield SafeFile(file)
    except CheckpointError as error:
        raise CheckpointError(f"{shown(path)}: {error}") from None
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, MemoryError) as error:
        raise CheckpointError(_unreadable(path, start, error)) from None


def require_file(path: Path) -> None:
    """Refuse what is not a regular file, before it is opened: a pipe would wait for a writer."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise CheckpointError(f"no file at {shown(path)}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{shown(path)} cannot be read: {reason(error)}") from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "neither a file nor a folder"
        raise CheckpointError(f"{shown(path)} is {kind}, expected a checkpoint file")


def _sorted_text(metadata: Mapping[str, str]) -> str:
    return json.dumps(dict(metadata), sort_keys=True)


def _unreadable(path: Path, start: bytes, error: Exception) -> str:
    if start[:2] == b"PK" or start[:1] == b"\x80":
        return (
            f"{shown(path)} looks like a pickled file, which can run code when read, so it is not "
            f"read here; 'tsc-interp import' safely reads the source report's own models"
        )
    return (
        f"{shown(path)} is not a readable safetensors file (truncated or of another kind): "
        f"{shown(reason(error))}"
    )
