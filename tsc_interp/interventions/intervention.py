"""An intervention: a part of a model, and how it is changed. Nothing but data.

    Intervention.parse("head0.value[c]=like(b)")
    Intervention.of("head0", Mean(("aab", "abc")))

`hooks.py` makes TransformerLens hooks of it, `weights.py` a new checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tsc_interp.errors import UsageError, shorten
from tsc_interp.interventions.changes import Change, Like, Mean, Noise, Resample, change
from tsc_interp.interventions.parts import Edge, Part, Place, place

# A token may itself be called "=", so the sign is sought outside of brackets.
_SIGN = re.compile(r"((?:[^=\[]|\[.+?\])*)(=)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Intervention:
    """A part of a model, and a change to it.

    Args:
        place: The part, or the edge between two parts.
        change: The change.

    Raises:
        UsageError: This change does not apply to this part.

    Example:
        >>> str(Intervention.parse("head0.value[c]=like(b)"))
        'head0.value[c]=like(b)'
        >>> Intervention.of("head0", "zero") == Intervention.parse("head0=zero")
        True
    """

    place: Place
    change: Change

    def __post_init__(self) -> None:
        where, how = self.place, self.change
        if isinstance(where, Part) and where.kind == "logit":
            raise UsageError("the logit is what an intervention is judged by; it is not changed")
        if isinstance(how, Like) and not (isinstance(where, Part) and where.letter):
            raise UsageError(
                f"{self}: like() is for one letter's key or value, as in head0.value[c]=like(b)"
            )
        if isinstance(where, Edge) and isinstance(how, Noise | Resample):
            raise UsageError(f"{self}: an edge is set to zero, mean, from or scale")

    @classmethod
    def of(cls, where: str | Place, how: str | Change = "zero") -> Intervention:
        """Return the intervention from a part and a change, as objects or text."""
        return cls(place(where), change(how))

    @classmethod
    def parse(cls, text: str) -> Intervention:
        """Return the intervention written as `part=change`."""
        match = _SIGN.fullmatch(text)
        where, equals, how = match.groups() if match else (text, "", "")
        if not equals:
            raise UsageError(
                f"{text!r}: an intervention is written part=change, such as head0=zero or "
                "'head0.value[c]=like(b)'"
            )
        return cls.of(where, how)

    def over(self, strings: Iterable[str]) -> Intervention:
        """Return the intervention with a mean that names no strings taken over these strings."""
        if self.change == Mean():
            return Intervention(self.place, Mean(tuple(strings)))
        return self

    def check(self, cfg: Any) -> None:
        """Raise an error unless a model with these sizes has the part."""
        self.place.check(cfg)

    def __str__(self) -> str:
        return f"{self.place}={self.change}"


Given = str | Intervention | Iterable[str | Intervention]


def as_interventions(given: Given) -> tuple[Intervention, ...]:
    """One or several, as notation or as data."""
    entries: list[Any] = [given]
    if isinstance(given, Iterable) and not isinstance(given, str):
        entries = list(given)
    for entry in entries:
        if not isinstance(entry, str | Intervention):
            raise UsageError(
                f"an intervention is text such as 'head0=zero', or an Intervention; got "
                f"{shorten(entry)}"
            )
    interventions = tuple(
        Intervention.parse(entry) if isinstance(entry, str) else entry for entry in entries
    )
    if not interventions:
        raise UsageError("no intervention was given")
    return interventions
