"""What colours mean: one thing each, in every figure and on every page (`MEANINGS`).

    vermillion, blue    the answer: yes and no, logits and shares in them above and below zero
    purple              what the model gets wrong
    dark green          what is right or proved, on pages
    slate               whatever is neither: notes, attention, counts
    strong colours      letters, each with a shape of its own
    muted colours       heads, groups, sets of data, with dashes or hatching
    grey                CLS, PAD, and lines that belong to no one

The first two are Okabe and Ito's, told apart with every common kind of colour blindness; letters
keep away from them, and none is as light or dark as a page. The playground uses the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

POSITIVE, NEGATIVE = "#D55E00", "#0072B2"
"""Vermillion and blue: a logit above and below zero; the ends of the diverging scale."""
WRONG = "#CC79A7"
"""Purple: regions, strings and flips that are wrong."""
INK = "#808080"
"""A grey with the same contrast on white and on near-black."""

LETTERS = ("#009E73", "#DDAA00", "#8B5CF6", "#56B4E9", "#8C6D46", "#44AA99", "#7F7F2A")
"""Green, gold, violet, sky, brown, teal, olive."""
MUTED = ("#4F6F8F", "#C2A36B", "#9A5B4C", "#6FA8A8", "#B79BC0", "#5E8B5A")
"""Slate, sand, rust, mist, mauve, moss."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""With MUTED, or where lines of one colour must differ: never colour alone."""
HATCH = {"fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.6)", "solidity": 0.2}
"""For bars that are wrong, over their colour."""


@dataclass(frozen=True)
class Meaning:
    """A colour of pages, on a light page and on a dark one."""

    name: str
    light: str
    dark: str


MEANINGS = (
    Meaning("yes", POSITIVE, "#E8772A"),
    Meaning("no", NEGATIVE, "#3A9BD9"),
    Meaning("wrong", "#9D2F6F", "#F29AC6"),
    Meaning("right", "#0B6B4F", "#5FD3A8"),
    Meaning("note", MUTED[0], "#9FB6CC"),
)
"""The table that pages take their colours from; figures use the constants above."""


def css_variables(*, dark: bool = False) -> str:
    """The table as custom properties of a style sheet: `--yes: #D55E00; --no: ...`."""
    return " ".join(
        f"--{meaning.name}: {meaning.dark if dark else meaning.light};" for meaning in MEANINGS
    )


_SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star", "hexagon",
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    colour: str
    symbol: str


def token_style(token: str) -> Look:
    """The colour and marker of `CLS`, `PAD` or a letter: 26 distinct pairs for the letters."""
    if token == "CLS":
        return Look(INK, "star-diamond")
    if token == "PAD":
        return Look(INK, "circle-open")
    lap, step = divmod(ord(token[0]) - ord("a"), len(LETTERS))
    return Look(LETTERS[step], _SYMBOLS[(step + 2 * lap) % len(_SYMBOLS)])


def string_style(label: int, right: bool) -> Look:
    """A string's colour says its true label, its shape whether the model is right."""
    if not right:
        return Look(WRONG, "x")
    return Look(POSITIVE if label else NEGATIVE, "circle")


def muted(index: int) -> dict[str, Any]:
    """A line's colour and dash: 30 before any two are alike."""
    return {"color": MUTED[index % len(MUTED)], "dash": DASHES[(index + index // 6) % len(DASHES)]}


# Colour scales come from the page's theme (see `style.template`), so that nothing and zero look
# like the page, light or dark: what lies between nothing and all of it, and signed values.
SHARE: dict[str, Any] = {"autocolorscale": True, "zmin": 0.0, "zmax": 1.0}


def diverging(values: ArrayLike) -> dict[str, Any]:
    """Colour options for signed values: blue below zero, vermillion above, centred on zero.

    Use as `go.Heatmap(z=z, **diverging(z))`.
    """
    limit = largest(values)
    return {"autocolorscale": True, "zmid": 0.0, "zmin": -limit, "zmax": limit}


def largest(values: ArrayLike) -> float:
    """The largest size among the finite values; 1 if there is none or all are zero."""
    finite = np.asarray(values, dtype=float)
    return float(np.abs(finite[np.isfinite(finite)]).max(initial=0.0)) or 1.0


def faint(colour: str, opacity: float = 0.18) -> str:
    return f"rgba({','.join(map(str, _channels(colour)))},{opacity})"


def mix(colour: str, other: str, share: float) -> str:
    """`share` of the first and the rest of the second."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
