"""Rows as Parquet, and polars, which is loaded only where a table is read or written.

Needs the extra `sweeps`. One thread suffices for files of some hundred rows, and workers have one
core each.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tsc_interp.errors import needed
from tsc_interp.sweeps.columns import TABLE_FORMAT, TABLE_VERSION, schema

if TYPE_CHECKING:
    from polars import DataFrame


def polars() -> Any:
    """The library, or what to do to have it."""
    return needed("polars", "a sweep, whose rows are Parquet files,", "'tsc-interp[sweeps]'")


def frame(rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows with every column of the schema, in its order; what a row does not say is null."""
    pl = polars()
    types: dict[Any, Any] = {
        bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String,
        "floats": pl.List(pl.Float64),
    }  # fmt: skip
    columns = {name: types[kind] for name, kind in schema().items()}
    table: DataFrame = pl.DataFrame(
        {name: [row.get(name) for row in rows] for name in columns}, schema=columns
    )
    return table


def parquet(rows: DataFrame) -> bytes:
    """The content of a file, which says which version of the table it is."""
    target = io.BytesIO()
    metadata = {"format": TABLE_FORMAT, "format_version": str(TABLE_VERSION)}
    rows.write_parquet(target, metadata=metadata)
    return target.getvalue()
