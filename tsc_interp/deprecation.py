"""Keywords that public functions once took: still accepted, with a warning that says what is new.

@old_keywords(reading=imported_first)
def horizon(model, *, limit=DEFAULT_LIMIT): ...
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Translation = Callable[[tuple[Any, ...], dict[str, Any], Any], Arguments]
"""Positional arguments, keywords and the old keyword's value, as the arguments to use instead."""


def old_keywords(
    **old: tuple[str, Translation],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept each old keyword, given as (what to write instead, the translation).

    Example:
        >>> def as_seconds(args, keywords, value):
        ...     return args, keywords | {"seconds": value / 1000}
        >>> @old_keywords(milliseconds=("seconds=", as_seconds))
        ... def wait(*, seconds=1.0):
        ...     return seconds
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     wait(milliseconds=500)
        0.5
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def accepting(*args: Any, **keywords: Any) -> R:
            for name in old.keys() & keywords.keys():
                instead, translate = old[name]
                warnings.warn(
                    f"{function.__name__}({name}=...) is now {instead}",
                    DeprecationWarning,
                    stacklevel=2,
                )
                args, keywords = translate(args, keywords, keywords.pop(name))
            return function(*args, **keywords)

        return accepting

    return decorate


def renamed(new: str) -> tuple[str, Translation]:
    """The same value under another keyword."""
    return f"{new}=", lambda args, keywords, value: (args, keywords | {new: value})
