"""The sweeps that `tsc-interp runs` lists, and the rows of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tsc_interp.cli.common import messages, output, print_json

_SHOWN = ("row", "cell", "seed", "test_errors", "horizon", "proved", "first_error")


def list_sweeps(places: Sequence[Path], quietly: bool = False) -> list[dict[str, Any]]:
    """One row each: how many models it has and is to have; a sweep that cannot be read says so."""
    from tsc_interp.errors import TscError
    from tsc_interp.output.table import print_table
    from tsc_interp.sweeps import Sweep

    rows: list[dict[str, Any]] = []
    problems = []
    for place in places:
        try:
            sweep = Sweep.open(place)
            made, of = int(sweep.present().sum()), sweep.models
        except TscError as error:
            problems.append(str(error))
            continue
        known = {"sweep": sweep.name, "verify": sweep.options.verify, "path": str(place)}
        rows.append({**known, "models": made, "of": of})
    if not quietly:
        cells = [
            [row["sweep"], f"{row['models']:,} of {row['of']:,}", row["verify"], row["path"]]
            for row in rows
        ]
        print_table(output(), ["sweep", "models", "verify", "path"], cells, right=[1])
        for problem in problems:
            messages().print(problem, soft_wrap=True)
        messages().print("'tsc-interp runs SWEEP' lists its rows", soft_wrap=True)
    return rows


def list_rows(place: Path, where: str | None, sort: str | None, limit: int, as_json: bool) -> None:
    """The rows of a sweep, or some of them; in JSON with every column."""
    from tsc_interp.output.table import print_table
    from tsc_interp.sweeps import Sweep

    sweep = Sweep.open(place)
    table = sweep.table(where)
    if sort is not None:
        column = sort.removeprefix("-")
        if column not in table.columns:
            raise sweep.no_column(column)
        table = table.sort(column, descending=sort.startswith("-"), nulls_last=True)
    rows = table.head(min(limit, len(table))).to_dicts()
    if as_json:
        print_json("sweep-rows/1", {"sweep": sweep.name, "matching": len(table), "rows": rows})
        return
    for row in rows:
        row["horizon"] = "infinite" if row["infinite"] else row["horizon"]
    cells = [[_written(row[name]) for name in _SHOWN] for row in rows]
    headings = [name.replace("_", " ") for name in _SHOWN]  # two words may stand on two lines
    print_table(output(), headings, cells, title=sweep.name, right=(0, 2, 3, 4))
    messages().print(
        f"{len(rows):,} of {len(table):,} rows; --checkpoint {place}:ROW is a row's model",
        soft_wrap=True,
    )


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return str(value)
