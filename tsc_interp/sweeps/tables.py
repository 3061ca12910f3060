"""Rows as Parquet and in a few numbers per cell; polars is loaded only where it is needed.

Needs the extra `sweeps`. One thread suffices for files of some hundred rows, and workers have one
core each.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tsc_interp.errors import needed
from tsc_interp.results.intervals import median_interval, share_interval
from tsc_interp.sweeps.columns import TABLE_FORMAT, TABLE_VERSION, schema

if TYPE_CHECKING:
    from polars import DataFrame, Expr


def polars() -> Any:
    """The library, or what to do to have it."""
    return needed("polars", "a sweep, whose rows are Parquet files,", "'tsc-interp[sweeps]'")


def frame(rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows with every column of the schema, in its order; what a row does not say is null."""
    pl = polars()
    types = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String}
    columns = {name: types[kind] for name, kind in schema().items()}
    values = {name: [row.get(name) for row in rows] for name in columns}
    return cast("DataFrame", pl.DataFrame(values, schema=columns))


def parquet(rows: DataFrame) -> bytes:
    """The content of a file, which says which version of the table it is."""
    target = io.BytesIO()
    metadata = {"format": TABLE_FORMAT, "format_version": str(TABLE_VERSION)}
    rows.write_parquet(target, metadata=metadata)
    return target.getvalue()


def reach() -> Expr:
    """Up to which length a model is right: its horizon, or without end if that is proved.

    Where the search ended before an error or a proof, it is what was reached, a lower bound.
    """
    pl = polars()
    length = pl.coalesce("horizon", "verified_length").cast(pl.Float64)
    return cast("Expr", pl.when(pl.col("infinite")).then(float("inf")).otherwise(length))


def by(table: DataFrame, *columns: str) -> list[dict[str, Any]]:
    """For each group of models: how many, how they did on test strings, how far they are right.

    `median_low` and `median_high` are the 95 % interval of the median over seeds, and
    `no_test_errors_low` and `_high` that of the share of models without a test error.
    """
    pl = polars()
    length = reach()
    verified = pl.col("verified") != "no"
    rows: list[dict[str, Any]] = (
        table.group_by(*columns, maintain_order=True)
        .agg(
            models=pl.len(),
            diverged=(pl.col("ending") == "diverged").sum(),
            no_test_errors=(pl.col("test_errors") == 0).sum(),
            verified=verified.sum(),
            proved=pl.col("proved").fill_null(False).sum(),
            infinite=pl.col("infinite").fill_null(False).sum(),
            shortest=length.filter(verified).min(),
            median=length.filter(verified).quantile(0.5, "lower"),
            longest=length.filter(verified).max(),
            lengths=length.filter(verified),
        )
        .to_dicts()
    )
    for cell in rows:
        lengths = [length for length in cell.pop("lengths") if length is not None]
        low, high = median_interval(lengths) if lengths else (None, None)
        least, most = share_interval(cell["no_test_errors"], cell["models"])
        cell |= {"no_test_errors_low": least, "no_test_errors_high": most}
        cell |= {"median_low": low, "median_high": high}
    return rows
