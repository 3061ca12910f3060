"""One way to write a number, so that every form of a report shows the same digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

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


def columns_of_numbers(rows: Sequence[Sequence[Cell]]) -> list[int]:
    """The columns that hold nothing but numbers, which stand to the right."""
    return [c for c in range(len(rows[0]) if rows else 0) if all(is_number(row[c]) for row in rows)]


def counted(count: int, what: str, plural: str | None = None) -> str:
    """Write a number with its noun.

    Example:
        >>> counted(1, "run"), counted(2000, "run"), counted(0, "neuron")
        ('1 run', '2,000 runs', '0 neurons')
    """
    return f"{number(count)} {what if count == 1 else plural or what + 's'}"


def number(value: int) -> str:
    """Write a whole number: 1,373,700 in full, 3.98·10⁹⁵ rounded."""
    return f"{value:,}" if abs(value) < 10**12 else power_of_ten(Fraction(value))


def share(value: Fraction) -> str:
    """Write an exact share: 0.03125, 8.04·10⁻³⁴, 1 − 8.04·10⁻³⁴.

    Example:
        >>> share(Fraction(1, 3)), share(1 - Fraction(1, 10**9)), share(Fraction(1))
        ('0.3333', '1 − 1.00·10⁻⁹', '1')
    """
    if value in (0, 1):
        return str(int(value))
    if Fraction(9999, 10000) < value < 1:
        return f"1 − {share(1 - value)}"
    return power_of_ten(value) if 0 < value < Fraction(1, 1000) else f"{float(value):.4g}"


def percent(value: float, digits: int = 2) -> str:
    """Write a share of one: 97.65%, and over 99.99% rather than a rounded 100%."""
    step = 10.0 ** -(digits + 2)
    return f"over {1 - step:.{digits}%}" if 1 - step / 2 <= value < 1 else f"{value:.{digits}%}"


class Share(Fraction):
    """An exact share of one, which prints shortly: 1 − 8.04·10⁻³⁴."""

    def __str__(self) -> str:
        return share(self)

    __repr__ = __str__


def power_of_ten(value: Fraction) -> str:
    """Write a positive number with three digits: 3.98·10⁹⁵."""
    top, bottom = abs(value.numerator), value.denominator
    exponent = round(math.log10(top) - math.log10(bottom))
    # log10 is rounded, and so are the digits: either may cross a power of ten.
    while (digits := _hundredths(top, bottom, exponent)) < 100:
        exponent -= 1
    while (digits := _hundredths(top, bottom, exponent)) >= 1000:
        exponent += 1
    sign = "-" if value < 0 else ""
    return f"{sign}{digits / 100:.2f}·10{str(exponent).translate(_SUPERSCRIPT)}"


def _hundredths(top: int, bottom: int, exponent: int) -> int:
    top, bottom = top * 10 ** max(2 - exponent, 0), bottom * 10 ** max(exponent - 2, 0)
    return (2 * top + bottom) // (2 * bottom)


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
