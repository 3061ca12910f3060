"""One check of arguments for every public function, before any work begins.

`@checked` reads a function's signature: an argument annotated `int`, `float`, `bool`, `str`, a
path, a list, a mapping or a callback has to be one. The least value of a whole number follows from
the argument's name: seeds begin at 0, lengths at 1. Models, strings and tasks are checked where
they are read.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

from tsc_interp.errors import CallError, UsageError, shorten, suggest

P = ParamSpec("P")
R = TypeVar("R")
Rule = Callable[[str, Any], str]
"""The argument's name and its value; returns what was expected, or "" where the value fits."""

MAX_SEED = 2**63 - 1
_FROM_ZERO = ("seed", "seeds", "tries", "epoch", "samples", "query", "keep", "classes")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments of the wrong type with a `UsageError` that names the argument.

    Whoever is given as `progress: Progress | bool | None` hears what is said inside.

    Args:
        function: Its annotations are text (`from __future__ import annotations`).

    Example:
        >>> from inspect import Parameter, Signature
        >>> def wait(seconds): return seconds
        >>> number = Parameter("seconds", Parameter.POSITIONAL_OR_KEYWORD, annotation="float")
        >>> wait.__signature__ = Signature([number])
        >>> checked(wait)("x")
        Traceback (most recent call last):
        tsc_interp.errors.UsageError: seconds is a number above 0, got 'x'
    """
    signature = inspect.signature(function)
    rules = {
        name: (rule, parameter.default)
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and (rule := _rule(str(parameter.annotation)))
    }
    progress = signature.parameters.get("progress")
    hears = progress is not None and str(progress.annotation).startswith("Progress | bool")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise call_error(function.__name__, signature, kwargs, error) from None
        for name, (rule, default) in rules.items():
            value = given.get(name, default)
            if value is not default and (expected := rule(name, value)):
                raise UsageError(f"{name} is {expected}, got {shorten(value)}")
        listener = given.get("progress")
        if not listener or not (hears or listener is True):
            return function(*args, **kwargs)
        from tsc_interp.telling import told

        with told(listener):
            return function(*args, **kwargs)

    return call


def call_error(
    name: str, signature: inspect.Signature, named: Iterable[str], error: TypeError
) -> CallError:
    """The error for a call that Python cannot bind: what is wrong, and what was meant."""
    known = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    unknown = [given for given in named if given not in known]
    return CallError(no_argument(name, unknown[0], known) if unknown else f"{name}: {error}")


def no_argument(function: str, unknown: str, known: Iterable[str]) -> str:
    """The message for an argument that a function does not have."""
    names = list(known)
    hint = suggest(unknown, names).rstrip() or f"it has {', '.join(names)}"
    return f"{function} has no argument {unknown!r}: {hint}"


def _rule(annotation: str) -> Rule | None:
    plain = annotation.removesuffix(" | None")
    rule = _RULES.get(plain) or _RULES.get(plain.split("[")[0])
    if rule is None or plain == annotation:
        return rule
    return lambda name, value: "" if value is None else rule(name, value)


def least_whole(name: str) -> int:
    """The least whole number that an argument of this name can be."""
    return 0 if name in _FROM_ZERO else 1


def _whole(name: str, value: Any) -> str:
    least = least_whole(name)
    if type(value) is bool or not isinstance(value, numbers.Integral) or int(value) < least:
        return f"a whole number from {least}"
    too_large = name.startswith("seed") and int(value) > MAX_SEED
    return f"a whole number up to {MAX_SEED}" if too_large else ""


def _number(name: str, value: Any) -> str:
    if type(value) is bool or not isinstance(value, numbers.Real) or not float(value) > 0:
        return "a number above 0"
    return "" if math.isfinite(value) else "a finite number, such as 3600"


def _kind(expected: str, *kinds: type) -> Rule:
    """The rule that a value is of one of these types."""
    return lambda name, value: "" if isinstance(value, kinds) else expected


def _path(name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        return "a path"
    try:
        fits = b"\0" not in os.fsencode(value)
    except UnicodeError:
        fits = False
    return "" if fits else "a path that this system can write"


def _callback(name: str, value: Any) -> str:
    return "" if callable(value) and not isinstance(value, type) else "a function"


def _true_or_callback(name: str, value: Any) -> str:
    return "" if type(value) is bool or not _callback(name, value) else "True or a function"


def _list(name: str, value: Any) -> str:
    fits = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    return "" if fits and hasattr(value, "__len__") else "a list"


def _texts(name: str, value: Any) -> str:
    fits = not _list(name, value) and all(isinstance(entry, str) for entry in value)
    return "" if fits else "a list of texts"


def _wholes(name: str, value: Any) -> str:
    fits = not _list(name, value) and not any(_whole(name, entry) for entry in value)
    return "" if fits else f"a list of whole numbers from {least_whole(name)}"


def _list_or_mapping(name: str, value: Any) -> str:
    return "" if isinstance(value, Mapping) or not _list(name, value) else "a list or a dictionary"


def _instance(kind: str) -> Rule:
    """Known by its name, so that nothing has to be imported for it."""

    def rule(name: str, value: Any) -> str:
        return "" if any(base.__name__ == kind for base in type(value).__mro__) else f"a {kind}"

    return rule


_RULES: Mapping[str, Rule] = {
    "int": _whole,
    "float": _number,
    "bool": _kind("True or False", bool),
    **dict.fromkeys(("str", "Kind", "Scores", "Form"), _kind("text", str)),
    "Form | bool": _kind("text, True or False", str, bool),
    **dict.fromkeys(("Callable", "Draw"), _callback),
    **dict.fromkeys(("Progress | bool", "Decided | bool"), _true_or_callback),
    **dict.fromkeys(("Mapping", "History"), _kind("a dictionary", Mapping)),
    "Sequence": _list,
    "Sequence[int]": _wholes,
    "Sequence[str]": _texts,
    "tuple[int, int]": _wholes,
    "Mapping[int, str] | Sequence[int]": _list_or_mapping,
    "str | Path": _path,
    "str | os.PathLike[str]": _path,
    "ClassifierConfig": _instance("ClassifierConfig"),
    "TrainingConfig": _instance("TrainingConfig"),
    "Watcher": _instance("Watcher"),
}
