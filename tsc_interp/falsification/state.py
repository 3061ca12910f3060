"""What a search has asked so far, kept in a file, so that a killed search goes on where it was.

The file has a line of JSON for each batch of inputs: a hash of the inputs and their labels, and
what the model answered. A search makes the same inputs again from its seed and looks the answers
up, so it ends with the same result as one that was never interrupted. The first line names the
model and the frame, and a file of others is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import UsageError
from tsc_interp.files import shown

SCHEMA = "tsc-interp/falsify-state/3"


class State:
    """Answers by key, read from a file and appended to it; without a path, nothing is kept.

    Args:
        path: Where; a new file is begun, an old one continued.
        about: What the answers are about, which an old file must agree with.
    """

    def __init__(self, path: str | os.PathLike[str] | None, about: dict[str, str]) -> None:
        self.path = None if path is None else Path(path)
        self._known: dict[str, Any] = {}
        if self.path is None:
            return
        header = {"schema": SCHEMA, **about}
        if not self.path.exists():
            self.path.write_text(json.dumps(header) + "\n", encoding="utf-8")
            return
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        if not lines or _read(lines[0]) != header:
            raise UsageError(
                f"{shown(self.path)} keeps a search of another model, frame or label, or no "
                "search; name another file, or delete this one"
            )
        whole = [line for line in lines[1:] if line.endswith("\n")]
        if len(whole) < len(lines) - 1:  # it was killed while it wrote the last line
            self.path.write_text("".join([lines[0], *whole]), encoding="utf-8")
        self._known = dict(map(_read, whole))

    def get(self, key: str) -> Any:
        """What is known under this key, or None."""
        return self._known.get(key)

    def keep(self, key: str, value: Any) -> None:
        """Append what was found out."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, value]) + "\n")


def key_of(*arrays: NDArray[np.int64]) -> str:
    """A hash of inputs and labels."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:24]


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
