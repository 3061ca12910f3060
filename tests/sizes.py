"""How much a test tries: enough to notice a mistake, or everything with TSC_THOROUGH=1."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("TSC_THOROUGH") == "1"


def many(usually: int, thorough: int) -> int:
    """A number of cases, seeds or examples."""
    return thorough if THOROUGH else usually
