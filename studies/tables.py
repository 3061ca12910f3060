"""What a study found: rows in `results/NAME.csv.gz`, and beside them how long it took."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results"


def write(name: str, rows: Sequence[Row], times: Mapping[str, int]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    # No time and no name inside, so that equal rows are equal files.
    packed = gzip.compress(text.getvalue().encode(), 9, mtime=0)
    (RESULTS / f"{name}.csv.gz").write_bytes(packed)
    known = _times() | {name: dict(times)}
    (RESULTS / "times.json").write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


def read(name: str) -> list[Row]:
    """Every row, numbers as numbers; an empty entry is None."""
    text = gzip.decompress((RESULTS / f"{name}.csv.gz").read_bytes()).decode()
    return [
        {key: entry if key == "weights" else _value(entry) for key, entry in row.items()}
        for row in csv.DictReader(io.StringIO(text))
    ]


def laboratory(name: str) -> dict[str, Any]:
    """Return the stored result of a laboratory's whole run, as `tsc-interp lab NAME --json`."""
    stored = json.loads((RESULTS / f"lab-{name}.json").read_text(encoding="utf-8"))
    return dict(stored["result"])


def took(name: str) -> dict[str, int]:
    return dict(_times()[name])


def _times() -> dict[str, dict[str, int]]:
    place = RESULTS / "times.json"
    return dict(json.loads(place.read_text())) if place.exists() else {}


def _value(entry: str) -> Any:
    if entry == "":
        return None
    for kind in (int, float):
        try:
            return kind(entry)
        except ValueError:
            continue
    return entry
