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


def counted(count: int, what: str, plural: str | None = None) -> str:
    """Write a number with its noun.

    Example:
        >>> counted(1, "run"), counted(2000, "run"), counted(0, "neuron")
        ('1 run', '2,000 runs', '0 neurons')
    """
    return f"{number(count)} {what if count == 1 else plural or what + 's'}"


def number(value: int) -> str:
    """1,373,700 in full, 3.98e95 rounded."""
    if abs(value) < 10**12:
        return f"{value:,}"
    exponent = int(math.log10(value))
    unit = 10 ** (exponent - 2)
    hundredths = (value + unit // 2) // unit
    # log10 is rounded, and so are the digits: either may cross a power of ten.
    if hundredths >= 1000:
        hundredths, exponent = hundredths // 10, exponent + 1
    return f"{hundredths / 100:.2f}e{exponent}"
