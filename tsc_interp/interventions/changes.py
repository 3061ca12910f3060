"""Changes to a part: zero, an average, its content on another string, or a small change.

    zero                      zero
    mean                      the average over the strings of the run
    mean(aab, abc)            the average over these strings
    from(aab)                 its content when the model reads this string: mean(aab)
    like(b)                   for a letter's key or value: that of another letter
    set(0.7)                  these numbers, one for each component
    scale(0.5)                its content times this factor
    noise(0.1, seed=3)        moved by a random vector of this length, relative to its own
    resample(seed=0)          for every string, its content on another one, drawn with the seed
    patch(aab)                at each position, its content there when the model reads this string

All but `scale`, `noise`, `resample` and `patch` put a constant in the part's place, one per kind of
token (CLS, a, b, ...), which is what a position is when order does not matter. `patch` is position
by position, keys, values and attention weights too: activation patching, as in TransformerLens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tsc_interp.errors import UsageError, suggest


class Change:
    """How a part is changed; written as its name and, in brackets, what it is given."""

    def __str__(self) -> str:
        name, given = type(self).__name__.lower(), self._given()
        return f"{name}({given})" if given else name

    def _given(self) -> str:
        return ""


@dataclass(frozen=True)
class Zero(Change):
    """Nothing."""


@dataclass(frozen=True)
class Mean(Change):
    """Over these strings; without any, over those the model is run on."""

    strings: tuple[str, ...] = ()

    def _given(self) -> str:
        if len(self.strings) > 6:
            return f"{', '.join(self.strings[:3])} and {len(self.strings) - 3:,} more"
        return ", ".join(self.strings)


@dataclass(frozen=True)
class Like(Change):
    """A letter's key or value becomes that of another letter."""

    letter: str

    def _given(self) -> str:
        return self.letter


@dataclass(frozen=True)
class Set(Change):
    """These numbers, at every position of the part: one for a neuron, else a vector."""

    vector: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.vector or not all(abs(x) < float("inf") for x in self.vector):
            raise UsageError(f"set needs one or more finite numbers, got {self.vector}")

    def _given(self) -> str:
        return ", ".join(f"{x:g}" for x in self.vector)


@dataclass(frozen=True)
class Scale(Change):
    """Its content times this factor."""

    factor: float

    def __post_init__(self) -> None:
        if not abs(self.factor) < float("inf"):
            raise UsageError(f"scale needs a finite number, got {self.factor}")

    def _given(self) -> str:
        return f"{self.factor:g}"


@dataclass(frozen=True)
class Noise(Change):
    """Each vector moved by `size` times its own length.

    `along` is the whole space, the vector's own direction (its norm changes), or across it (its
    direction changes: it is turned, its norm kept).
    """

    size: float
    seed: int = 0
    along: str = "any"

    def __post_init__(self) -> None:
        if not 0 <= self.size < float("inf"):
            raise UsageError(f"noise needs a size of 0 or more, got {self.size}")
        if self.along not in ("any", "norm", "direction"):
            raise UsageError(f"noise is along any, norm or direction, got {self.along!r}")

    def _given(self) -> str:
        along = "" if self.along == "any" else f", along={self.along}"
        return f"{self.size:g}, seed={self.seed}{along}"


@dataclass(frozen=True)
class Resample(Change):
    """For every string what it is on another of the strings, drawn with the seed."""

    seed: int = 0

    def _given(self) -> str:
        return f"seed={self.seed}"


@dataclass(frozen=True)
class Patch(Change):
    """At each position what it is there in the run on this string, or on this row of token ids."""

    source: str | tuple[int, ...]

    def _given(self) -> str:
        return self.source if isinstance(self.source, str) else " ".join(map(str, self.source))


_NAMES = ("zero", "mean", "from", "like", "set", "scale", "noise", "resample", "patch")
_NOTATION = re.compile(r"(?P<name>[a-z]+)(?:\((?P<inside>.*)\))?")


def change(text: str | Change) -> Change:
    """Return the change that a notation names; objects are returned unchanged.

    Example:
        >>> change("scale(0.5)")
        Scale(factor=0.5)
    """
    if not isinstance(text, str):
        return text
    match = _NOTATION.fullmatch(text.strip())
    name, inside = (match["name"], match["inside"]) if match else ("", None)
    arguments = [part.strip() for part in (inside or "").split(",") if part.strip()]
    plain = [part for part in arguments if "=" not in part]
    named = dict(part.replace(" ", "").split("=", 1) for part in arguments if "=" in part)
    try:
        parsed = _made(name, plain, named)
    except (ValueError, TypeError, IndexError):
        parsed = None
    if parsed is None or named:
        raise UsageError(
            f"{text!r} is no change; {suggest(name, _NAMES)}changes are zero, mean, "
            "mean(aab, abc), from(aab), like(b), set(0.7), scale(0.5), noise(0.1, seed=0), "
            "resample(seed=0), patch(aab)"
        )
    return parsed


def _made(name: str, plain: list[str], named: dict[str, str]) -> Change | None:
    if name == "mean":
        return Mean(tuple(plain))
    if name == "set" and plain:
        return Set(tuple(map(float, plain)))
    if name == "zero" and not plain:
        return Zero()
    if name == "resample" and not plain:
        return Resample(int(named.pop("seed", "0")))
    if len(plain) != 1:
        return None
    if name == "from":
        return Mean((plain[0],))
    if name == "patch":
        return Patch(tuple(map(int, plain[0].split())) if plain[0][0].isdigit() else plain[0])
    if name == "like":
        return Like(plain[0])
    if name == "scale":
        return Scale(float(plain[0]))
    if name == "noise":
        return Noise(float(plain[0]), int(named.pop("seed", "0")), named.pop("along", "any"))
    return None
