"""A small picture for notebook cells: one bar per row on a logarithmic axis of lengths.

It is an SVG without scripts or fixed text colours, so that it fits a light page and a dark one.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tsc_interp.output.visible import visible

_LEFT, _WIDTH, _ROW, _SPACE = 70, 360, 20, 150
_RIGHT, _WRONG = "#4F6F8F", "#CC79A7"
"""Slate and purple, as in `plots/colours.py`, which is a room further on."""


@dataclass(frozen=True)
class Bar:
    """A name, how far all is well, and what stands at the first error, if there is one."""

    name: str
    length: float
    """May be infinite."""
    error: str | None = None


def length_bars(bars: Sequence[Bar], limit: int) -> str:
    """How far each row is right, up to `limit`; a mark and its string where one is wrong."""
    decades = max(1, math.ceil(math.log10(max(limit, 2))))
    height = _ROW * len(bars) + 26
    width = _LEFT + _WIDTH + _SPACE

    def place(length: float) -> float:
        share = math.log10(1 + min(length, 10.0**decades)) / math.log10(1 + 10.0**decades)
        return round(_LEFT + _WIDTH * share, 1)

    parts = [_bar(bar, i, place(bar.length)) for i, bar in enumerate(bars)]
    for power in range(decades + 1):
        if power % math.ceil((decades + 1) / 7) == 0:
            at = place(10.0**power)
            parts.append(_text(at, height - 8, f"{10**power:,}", "middle", 0.7))
    said = "; ".join(
        f"{bar.name}: {f'first error {bar.error}' if bar.error else 'no error'}" for bar in bars
    )
    return (
        f"<svg role='img' aria-label='{_escaped(said)}' viewBox='0 0 {width} {height}' "
        f"width='{width}' style='max-width: 100%; font: 12px sans-serif' fill='currentColor'>"
        f"{''.join(parts)}</svg>"
    )


def _bar(bar: Bar, row: int, end: float) -> str:
    top = _ROW * row + 4
    drawn = [
        _text(_LEFT - 8, top + 10, bar.name, "end", 1),
        f"<rect x='{_LEFT}' y='{top}' width='{max(1, end - _LEFT):.1f}' height='12' "
        f"fill='{_RIGHT}' opacity='0.75'/>",
    ]
    if bar.error is not None:
        drawn.append(f"<rect x='{end}' y='{top - 2}' width='4' height='16' fill='{_WRONG}'/>")
        drawn.append(_text(end + 10, top + 10, bar.error, "start", 1))
    return "".join(drawn)


def _text(x: float, y: float, text: str, anchor: str, opacity: float) -> str:
    return (
        f"<text x='{x}' y='{y}' text-anchor='{anchor}' opacity='{opacity}'>{_escaped(text)}</text>"
    )


def _escaped(text: str) -> str:
    return html.escape(visible(text))
