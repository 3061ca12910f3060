"""Limits the seconds and the bytes that a check may use; a check that needs more is rejected.

Bytes are counted, not measured, so a certificate is accepted or rejected alike on every machine.
Counted is whatever a certificate can make large: tables of balls (`Kept`), and the pieces that the
search for gaps or overlaps has yet to look at. Half of the bytes are for each. The document itself
is not counted: `files.py` bounds its size.

Part of the checker (check.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, TypeVar

from flint import ctx

from tsc_interp.trusted.errors import NotProved

Made = TypeVar("Made")
SECONDS = 300.0
MEMORY = 1 << 30
"""Bytes: one gibibyte."""

_BALL = 160
"""Bytes of a ball: the object, its place in a list, and a copy in a matrix while it is made."""
_ENTRY = 200
"""Bytes of an entry of a cache: its key, mostly."""


CertificateError = NotProved
"""A certificate that is not accepted, with the reason."""


def require(holds: bool, problem: str) -> None:
    if not holds:
        raise CertificateError(f"rejected: {problem}")


class Budget:
    """Called for each piece of work; raises `CertificateError` when too much was taken."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self.seconds, self.memory = seconds, memory
        self._until = 0.0

    def restart(self) -> None:
        """Allow the full time again, from now on."""
        self._until = monotonic() + self.seconds

    def __call__(self, held: int = 0) -> None:
        """Check the time, and the bytes that are held by what waits."""
        require(
            monotonic() < self._until,
            f"not checked within {self.seconds:g} seconds; allow more (seconds=...), or ask for a "
            "certificate of fewer boxes",
        )
        _require_memory(held, self.memory // 2)


class Kept:
    """Tables that are made once, and all forgotten before they would hold too many bytes."""

    def __init__(self, memory: int = MEMORY) -> None:
        self.most, self.held = memory // 2, 0
        self._found: dict[Hashable, Any] = {}

    def get(self, key: Hashable, balls: int, make: Callable[[], Made]) -> Made:
        """The table of this name, of about so many balls; made if it is not there."""
        if key in self._found:
            table: Made = self._found[key]
            return table
        size = _ENTRY + balls * (_BALL + (ctx.prec // 4 if ctx.prec > 128 else 0))
        _require_memory(size, self.most)
        table = make()
        if self.held + size > self.most:
            self._found.clear()
            self.held = 0
        self._found[key] = table
        self.held += size
        return table


def _require_memory(size: int, most: int) -> None:
    require(
        size <= most,
        f"more than {2 * most:,} bytes of memory are needed to check it; allow more (memory=...), "
        "or ask for a certificate of fewer boxes",
    )
