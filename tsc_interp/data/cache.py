"""Epochs of a stream on disk, so that a second process need not draw them again.

One small file per epoch in a cache directory: `TSC_CACHE` if set (`TSC_CACHE=off` for none),
otherwise `tsc-interp` in the user's cache directory. Everything in it can be deleted at any time. A
file holds a checksum over its content and over what it is the content of; one that does not fit, or
is no file at all, is made again. A directory that cannot be written to means no cache, no error.
"""

from __future__ import annotations

import hashlib
import os
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import platformdirs

from tsc_interp.files import read_regular, write_atomically
from tsc_interp.strings import Counts

# Raise when the stream's definition or the file's layout changes.
_VERSION = 2
_SUFFIX = ".epoch"
_LIMIT = 2**31

# The seed of the batch that follows, rows, letters; then the counts, row by row.
_HEAD = struct.Struct("<QQQ")
_COUNT = np.dtype("<i4")


def directory() -> Path | None:
    """Where the cache lives, or None when it is off or there is no place for it."""
    chosen = os.environ.get("TSC_CACHE")
    if chosen in ("", "off"):
        return None
    try:
        if chosen is not None:
            return Path(chosen).expanduser()
        place = platformdirs.user_cache_path("tsc-interp", appauthor=False)
    except RuntimeError:  # no home directory
        return None
    # Some versions leave the tilde, which would become the name of a folder.
    return place if place.is_absolute() else None


def read(key: str) -> tuple[Counts, int] | None:
    """An epoch's counts and the seed of the batch that follows it, if they are there."""
    file = _file(key)
    if file is None:
        return None
    try:
        content = read_regular(file, _LIMIT)
    except (OSError, ValueError):
        return None
    checksum, body = content[:32], content[32:]
    if len(body) < _HEAD.size or checksum != _checksum(key, body):
        return None
    next_seed, rows, letters = _HEAD.unpack_from(body)
    if len(body) != _HEAD.size + _COUNT.itemsize * rows * letters:
        return None
    counts = np.frombuffer(body, _COUNT, offset=_HEAD.size)
    return counts.reshape(rows, letters).astype(np.int64), next_seed


def write(key: str, counts: Counts, next_seed: int) -> None:
    file = _file(key)
    if file is None:
        return
    body = _HEAD.pack(next_seed, *counts.shape) + counts.astype(_COUNT).tobytes()
    with suppress(OSError):
        write_atomically(file, _checksum(key, body) + body, durable=False)


def _checksum(key: str, body: bytes) -> bytes:
    return hashlib.sha256(f"{key}\0".encode() + body).digest()


def _file(key: str) -> Path | None:
    base = directory()
    return None if base is None else base / f"streams-{_VERSION}" / f"{key}{_SUFFIX}"
