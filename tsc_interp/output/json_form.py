"""JSON has no NaN and no infinities. Here they are the strings "NaN", "Infinity", "-Infinity".

Every document this package prints is written by `to_json`. Python's `float` reads the three strings
back as the numbers they stand for, and so does JavaScript's `Number`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def from_json(value: Any) -> Any:
    """A value as it was before `json_number`."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def jsonable(value: Any) -> Any:
    """The same data with every number that JSON lacks replaced, at any depth."""
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value


def to_json(document: Any, indent: int | None = None) -> str:
    """One document as text. It is plain ASCII, so any terminal and any file can hold it."""
    separators = (",", ":") if indent is None else None
    return json.dumps(jsonable(document), indent=indent, separators=separators, allow_nan=False)
