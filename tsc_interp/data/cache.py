"""Epochs of a stream on disk, so that a second process need not draw them again.

One small `.npz` per epoch in a cache directory: `TSC_CACHE` if set (`TSC_CACHE=off` for none),
otherwise `tsc-interp` under `XDG_CACHE_HOME` or `~/.cache`. Everything in it can be deleted at any
time. A file is written under another name and renamed, carries checksums (it is a zip archive), and
one that cannot be read is made again; a directory that cannot be written to means no cache, not an
error.
"""

from __future__ import annotations

import os
import zipfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np

from tsc_interp.files import write_atomically
from tsc_interp.strings import Counts

# Raise when the stream's definition or the file's layout changes.
_VERSION = 1


def directory() -> Path | None:
    """Where the cache lives, or None when it is off."""
    chosen = os.environ.get("TSC_CACHE")
    if chosen is not None:
        return None if chosen in ("", "off") else Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tsc-interp"


def read(key: str) -> tuple[Counts, int] | None:
    """An epoch's counts and the seed of the batch that follows it, if they are there."""
    file = _file(key)
    if file is None:
        return None
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            return stored["counts"].astype(np.int64), int(stored["next_seed"])
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile):
        return None


def write(key: str, counts: Counts, next_seed: int) -> None:
    file = _file(key)
    if file is None:
        return
    content = BytesIO()
    np.savez(content, counts=counts.astype(np.int32), next_seed=np.uint64(next_seed))
    with suppress(OSError):
        write_atomically(file, content.getvalue(), durable=False)


def _file(key: str) -> Path | None:
    base = directory()
    return None if base is None else base / f"streams-{_VERSION}" / f"{key}.npz"
