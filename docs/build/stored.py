"""Figures on a page that cite a stored result: `26 <!-- figure: FILE#PATH|REDUCTION -->`.

The number right before the comment must equal the stored value, rounded as the page shows it.

FILE is a path in the repository, `*` allowed: several files are one list of values. PATH follows
keys with dots, `*` for every element, `[key=value,other!=value]` for the elements of a list that
match; a `.csv.gz` is its list of rows. REDUCTION is min, max, sum, mean, median or count, and
`+1` or `-1` may follow it.

Example:
    >>> [figure.cited for figure in figures("at length 26 <!-- figure: a.json#x|min+1 --> or")]
    ['a.json#x|min+1']
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from studies.tables import read

ROOT = Path(__file__).resolve().parents[2]

_FIGURE = re.compile(
    r"(?P<number>[\d.,]*\d)(?P<percent> ?%)?\**\s*<!-- figure: (?P<cited>\S.*?) -->"
)
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_REDUCE = {"min": min, "max": max, "sum": sum, "mean": fmean, "median": median, "count": len}


@dataclass(frozen=True)
class Figure:
    """A number on a page, and the stored result it cites."""

    number: str
    percent: bool
    cited: str

    def holds(self) -> bool:
        """Whether the stored value, rounded to the digits shown, is the number shown."""
        digits = len(self.number.partition(".")[2])
        value = stored(self.cited) * (100 if self.percent else 1)
        return f"{value:,.{digits}f}".replace(",", "") == self.number.replace(",", "")


def figures(text: str) -> Iterator[Figure]:
    """Yield the figures of a page that cite a stored result."""
    for found in _FIGURE.finditer(text):
        yield Figure(found["number"], found["percent"] is not None, found["cited"])


def stored(cited: str) -> float:
    """Return the value behind a citation.

    Raises:
        ValueError: If it names no file, or more or less than one number.
    """
    where, _, reduction = cited.partition("|")
    files, _, path = where.partition("#")
    values = [one for file in sorted(ROOT.glob(files)) for one in _found([_content(file)], path)]
    name, offset = re.fullmatch(r"(\w*)([+-]\d+)?", reduction).groups()  # type: ignore[union-attr]
    if name:
        value = _REDUCE[name](values)  # type: ignore[operator]
    elif len(values) == 1:
        (value,) = values
    else:
        raise ValueError(f"{cited} is {len(values)} values; name one, or a reduction such as |min")
    return float(value) + int(offset or 0)


def _content(file: Path) -> Any:
    if file.name.endswith(".csv.gz"):
        return read(file.name.removesuffix(".csv.gz"))
    return json.loads(file.read_text(encoding="utf-8"))


def _found(values: list[Any], path: str) -> list[Any]:
    for condition, key in _STEP.findall(path):
        if condition:
            values = [one for many in values for one in many if _matches(one, condition)]
        elif key == "*":
            values = [one for many in values for one in many]
        else:
            values = [one[int(key)] if isinstance(one, list) else one[key] for one in values]
    return values


def _matches(row: Any, condition: str) -> bool:
    for part in condition.split(","):
        key, differs, wanted = re.fullmatch(r"(.+?)(!?)=(.*)", part).groups()  # type: ignore[union-attr]
        if (str(row[key]) == wanted) == bool(differs):
            return False
    return True
