"""Libraries of the extra `labs`, imported where they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tsc_interp.errors import UsageError


def sklearn(module: str, laboratory: str) -> Any:
    """Return a module of scikit-learn.

    Args:
        module: Its name within scikit-learn, such as `datasets`.
        laboratory: Who needs it, for the message.

    Raises:
        UsageError: If scikit-learn is not installed.
    """
    try:
        return import_module(f"sklearn.{module}")
    except ImportError:
        raise UsageError(
            f"the laboratory {laboratory} needs scikit-learn, which is not installed: "
            "pip install 'tsc-interp[labs]'"
        ) from None
