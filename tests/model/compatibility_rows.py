"""What a row of the compatibility table is: a name, a verdict, and a call that settles it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BOTH, OLD, NEW = "3.9, 4.3", "3.9", "4.3"


@dataclass(frozen=True)
class Side:
    """One of the two: our model or the exported one, and a cache of its activations."""

    model: Any
    cache: Any
    tokens: Any
    ours: bool


@dataclass(frozen=True)
class Row:
    name: str
    status: str
    """works, differs or refused."""
    call: Callable[[Side], Any] | None
    """What is done on both sides, whose answers must be equal."""
    versions: str = BOTH
    note: str = ""
    expected: Any = None
    """Where TransformerLens has no equal: the answer, known without either."""


def works(name: str, call: Callable[[Side], Any], versions: str = BOTH, note: str = "") -> Row:
    return Row(name, "works", call, versions, note)


def differs(
    name: str, call: Callable[[Side], Any], note: str, versions: str = BOTH, expected: Any = None
) -> Row:
    return Row(name, "differs", call, versions, note, expected)


def logits(side: Side, out: Any) -> Any:
    return out if side.ours else out[:, 0]
