"""A sweep in a few numbers per cell: what the command prints and the page begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsc_interp.results.intervals import median_interval, share_interval
from tsc_interp.sweeps.tables import polars

if TYPE_CHECKING:
    from polars import DataFrame, Expr


def reach() -> Expr:
    """Up to which length a model is right: its horizon, or without end if that is proved.

    Where the search ended before an error or a proof, it is what was reached, a lower bound.
    """
    pl = polars()
    expression: Expr = (
        pl.when(pl.col("infinite"))
        .then(float("inf"))
        .otherwise(pl.coalesce("horizon", "verified_length").cast(pl.Float64))
    )
    return expression


def by(table: DataFrame, *columns: str) -> list[dict[str, Any]]:
    """For each group of models: how many, how they did on test strings, how far they are right.

    `median_low` and `median_high` are the 95 % interval of the median over seeds, and
    `no_test_errors_low` and `_high` that of the share of models without a test error.
    """
    pl = polars()
    length = reach()
    known = pl.col("verified") != "no"
    rows: list[dict[str, Any]] = (
        table.group_by(*columns, maintain_order=True)
        .agg(
            models=pl.len(),
            diverged=(pl.col("ending") == "diverged").sum(),
            no_test_errors=(pl.col("test_errors") == 0).sum(),
            verified=known.sum(),
            proved=pl.col("proved").fill_null(False).sum(),
            infinite=pl.col("infinite").fill_null(False).sum(),
            shortest=length.filter(known).min(),
            median=length.filter(known).quantile(0.5, "lower"),
            longest=length.filter(known).max(),
            lengths=length.filter(known),
        )
        .to_dicts()
    )
    return [_with_intervals(cell) for cell in rows]


def _with_intervals(cell: dict[str, Any]) -> dict[str, Any]:
    lengths = [length for length in cell.pop("lengths") if length is not None]
    low, high = median_interval(lengths) if lengths else (None, None)
    least, most = share_interval(cell["no_test_errors"], cell["models"])
    return cell | {
        "no_test_errors_low": least, "no_test_errors_high": most,
        "median_low": low, "median_high": high,
    }  # fmt: skip
