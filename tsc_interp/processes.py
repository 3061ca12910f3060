"""How many processors there are for this process and its helpers."""

from __future__ import annotations

import os


def cores() -> int:
    """How many processors this process may use; not every system tells which."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
