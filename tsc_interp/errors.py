"""Every error this package raises on purpose.

A message says what was given, what was expected, and what to do about it. The command line prints
it as it stands and exits with the class's `exit_code`; anything that is not a `TscError` is a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from tsc_interp.trusted.errors import TscError as TscError
from tsc_interp.trusted.errors import UsageError as UsageError


class CallError(UsageError, TypeError):
    """A call with an argument too many or too few, or one that no function here has."""


class StringError(UsageError):
    """A string that cannot be read, with the position at which reading stopped."""

    def __init__(self, text: object, position: int | None, problem: str, allowed: str) -> None:
        self.text = text
        self.position = position
        self.problem = problem
        self.allowed = allowed
        where = "" if position is None else f" at position {position}"
        super().__init__(f"cannot read {shorten(text)}{where}: {problem}; {allowed}")


class ConfigError(UsageError):
    """A configuration with an unknown key or an impossible value."""


class CheckpointError(TscError):
    """A checkpoint that cannot be found, read, or trusted."""


class OutputError(TscError):
    """Something that cannot be written; the message says what became of what was there."""


class UnsupportedError(TscError):
    """A question this model cannot be asked, with the reason."""


def shorten(value: object) -> str:
    """For a message: what was given, as Python writes it, without its middle if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return f"{type(value).__name__} with too many digits"
    return text if len(text) <= 60 else f"{text[:50]}...{text[-7:]}"


def suggest(given: object, known: Iterable[str]) -> str:
    """Return "did you mean 'margin'? " for the nearest known name, or nothing if none is near.

    Args:
        given: The name that was given.
        known: The names that exist.

    Example:
        >>> suggest("d_modle", ["d_model", "d_mlp"])
        "did you mean 'd_model'? "
        >>> suggest("nosuch", ["key-noise", "margin"])
        ''
    """
    plain = {name.lower().replace("_", "-"): name for name in known}
    near = difflib.get_close_matches(str(given).lower().replace("_", "-"), plain, n=1, cutoff=0.65)
    return f"did you mean {plain[near[0]]!r}? " if near else ""


def needed(module: str, what: str = "this", install: str = "") -> Any:
    """Import a module of an optional library for `what`, or say how to `install` it."""
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(
            f"{what} needs {library}, which is not installed: pip install {install or library}"
        ) from None
