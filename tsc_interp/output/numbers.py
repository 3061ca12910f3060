"""One way to write a number, so that every form of a report shows the same digits."""

from __future__ import annotations

import math

Cell = str | int | float | bool | None
"""What a table may hold."""

NOTHING = "–"


def format_cell(cell: Cell) -> str:
    """Four decimals for ordinary numbers, four significant digits for tiny and huge ones."""
    if cell is None:
        return NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, str):
        return cell
    if math.isnan(cell):
        return NOTHING
    if math.isinf(cell):
        return "∞" if cell > 0 else "-∞"
    if cell == 0 or 1e-3 <= abs(cell) < 1e6:
        return f"{cell:,.4f}"
    return f"{cell:.3e}"


def is_number(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))
