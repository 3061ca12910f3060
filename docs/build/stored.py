"""Figures on pages and the stored results they state, as `docs/figures.toml` maps them.

    ["README.md"]
    "wrong at length 26" = "studies/results/own_models-*.json#models.*.right_through|min+1"

The phrase occurs once on its page and holds one number, which must equal the stored value, rounded
as the page shows it. A source without `#` is a command or a few words (`docs/build/ledger.py`).

FILE is a path in the repository, `*` allowed: several files are one list of values. PATH follows
keys with dots, `*` for every element, `[key=value,other!=value]` for the elements of a list that
match; a `.csv.gz` is its list of rows. REDUCTION is min, max, sum, mean, median or count, and
`+1` or `-1` may follow it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from studies.tables import read

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "figures.toml"

_NUMBER = re.compile(r"(\d[\d.,]*\d|\d)( ?%)?")
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_REDUCE = {"min": min, "max": max, "sum": sum, "mean": fmean, "median": median, "count": len}


@dataclass(frozen=True)
class Figure:
    """A phrase on a page, and the stored result it states."""

    phrase: str
    cited: str

    def fault(self, text: str) -> str:
        """What is wrong with the phrase on a page with this text; nothing if it holds."""
        times = " ".join(text.split()).count(self.phrase)
        if times != 1:
            return f"{self.phrase!r} occurs {times} times on its page"
        if "#" not in self.cited:
            return ""
        numbers = _NUMBER.findall(self.phrase)
        if len(numbers) != 1:
            return f"{self.phrase!r} holds {len(numbers)} numbers"
        ((number, percent),) = numbers
        value = stored(self.cited) * (100 if percent else 1)
        written = f"{value:,.{len(number.partition('.')[2])}f}"
        same = written.replace(",", "") == number.replace(",", "")
        return "" if same else f"{self.phrase!r}: {self.cited} is {written}"


def sources() -> Mapping[str, Mapping[str, str]]:
    """Return by page what stands behind its phrases."""
    return tomllib.loads(FIGURES.read_text(encoding="utf-8"))


def figures(page: str) -> Iterator[Figure]:
    """Yield the phrases of a page that have a source."""
    for phrase, cited in sources().get(page, {}).items():
        yield Figure(phrase, cited)


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
