"""How an object shows itself in a notebook: one line as text, a light card as HTML.

A card has no scripts, loads nothing and brings no colours, so it is small and fits a light page and
a dark one. Text from outside is escaped; what stands between backticks is set as code.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tsc_interp.output.numbers import Cell, format_cell, is_number
from tsc_interp.output.visible import visible

MOST_ROWS = 12
Line = tuple[str, str]
"""A sentence on the terminal, after its rich style."""
GOOD, BAD, PLAIN = "green", "bold red", ""


@dataclass(frozen=True)
class Grid:
    """A table to be shown, under its title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    unfolded: bool = False


class Displayed:
    """A base for what notebooks show. Subclasses say what; how is the same for all."""

    def _facts(self) -> Sequence[str]:
        """A few words each, for the one line."""
        return ()

    def _lines(self) -> Sequence[tuple[str, str]]:
        """(mark, sentence), such as `("failure", "...")`; a mark may be empty."""
        return ()

    def _grids(self) -> Sequence[Grid]:
        """Shown folded, unless they say otherwise."""
        return ()

    def __repr__(self) -> str:
        facts = visible(", ".join(self._facts()))
        return f"<{type(self).__name__}: {facts}>" if facts else f"<{type(self).__name__}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        name = type(self).__name__
        return card(name, self._facts(), self._lines(), self._grids())


def card(
    name: str,
    facts: Sequence[str],
    lines: Sequence[tuple[str, str]] = (),
    grids: Sequence[Grid] = (),
) -> str:
    """What a notebook shows: a few words, sentences, folded tables."""
    listed = "".join(f"<li>{_mark(mark)}{prose(text)}</li>" for mark, text in lines)
    parts = [
        html.escape(visible(", ".join(facts))),
        f"<ul>{listed}</ul>" if listed else "",
        *map(_folded, grids),
    ]
    return f"<div><b>{name}</b> {''.join(parts)}</div>"


def prose(text: str) -> str:
    """A sentence as HTML, its `code` set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(visible(text)))


def _mark(mark: str) -> str:
    return f"<b>{html.escape(mark)}</b>: " if mark else ""


def _folded(grid: Grid) -> str:
    title = html.escape(visible(grid.title))
    opened = " open" if grid.unfolded else ""
    shown = table(grid.columns, grid.rows)
    return f"<details{opened}><summary>{title}</summary>{shown}</details>"


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The first rows, numbers to the right."""
    head = "".join(f"<th>{html.escape(visible(column))}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    more = len(rows) - MOST_ROWS
    rest = f"<tr><td colspan='{len(columns)}'>{more:,} more rows</td></tr>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}{rest}</tbody></table>"


def _cell(cell: Cell) -> str:
    side = "right" if is_number(cell) else "left"
    return f"<td style='text-align: {side}'>{html.escape(visible(format_cell(cell)))}</td>"
