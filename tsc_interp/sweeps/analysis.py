"""What a sweep shows: how far models are right by each option, by pairs of options, and outliers.

The measure is the length of the first error, which is never zero and spans many powers of ten, so
it is compared by its logarithm. Models proved right at every length have none: they are counted
apart. Where nothing was verified, the measure is the number of test errors, plus one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from tsc_interp.sweeps.columns import option_columns
from tsc_interp.sweeps.tables import by, polars

if TYPE_CHECKING:
    from polars import DataFrame

Floats = NDArray[np.float64]

MOST_VALUES = 24
"""An option with more values is no factor for a figure."""
_OUTLIERS = 12
_LEVEL = 0.05
_FEWEST = 8
"""Models in a cell before one of them can stand out."""
_NORMAL = 1.4826
"""Turns a median absolute deviation into the standard deviation of a normal distribution."""


@dataclass(frozen=True)
class Group:
    """The models that share a value of an option."""

    value: str
    models: int
    infinite: int
    measures: Floats
    """Of the others, sorted."""
    rows: NDArray[np.int64]
    """Theirs, in the same order."""


@dataclass(frozen=True)
class Factor:
    """An option that varies, and what it goes with."""

    name: str
    groups: tuple[Group, ...]
    explained: float
    """The share of the variance of log measure that lies between its values."""
    clear: bool
    """Whether that is more than chance gives: an F test at 5 %, shared among the options."""


@dataclass(frozen=True)
class Interaction:
    """Two options together: medians of the measure, NaN where there are no models.

    Models proved right at every length count as infinite.
    """

    first: str
    second: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    medians: Floats
    beyond: float
    """The share of the variance of log measure that the pair explains beyond its two effects."""


@dataclass(frozen=True)
class Outlier:
    row: int
    cell: str
    seed: int
    measure: float
    typical: float
    deviations: float
    """From the cell's median, in robust standard deviations of the logarithm."""
    first_error: str | None


@dataclass(frozen=True)
class Analysis:
    """Everything a page about a sweep says."""

    measure: str
    models: int
    cells: tuple[dict[str, Any], ...]
    factors: tuple[Factor, ...]
    interactions: tuple[Interaction, ...]
    outliers: tuple[Outlier, ...]
    left_out: tuple[str, ...]
    """Options with too many values."""


def analyse(table: DataFrame) -> Analysis:
    """The analysis of a sweep's rows."""
    name, data = _measured(table)
    varying = [c for c in option_columns() if c in data.columns and data[c].n_unique() > 1]
    left_out = tuple(column for column in varying if data[column].n_unique() > MOST_VALUES)
    used = [column for column in varying if column not in left_out]
    factors = [_factor(data, column, _LEVEL / len(used)) for column in used]
    factors.sort(key=lambda factor: -factor.explained)
    pairs = combinations([factor.name for factor in factors], 2)
    interactions = [joint for pair in pairs if (joint := _interaction(data, *pair)) is not None]
    interactions.sort(key=lambda pair: -pair.beyond)
    return Analysis(
        name, len(table), tuple(by(table, "cell")), tuple(factors), tuple(interactions),
        tuple(_outliers(data)), left_out,
    )  # fmt: skip


def _measured(table: DataFrame) -> tuple[str, DataFrame]:
    pl = polars()
    if (table["verified"] == "no").all():
        return "test errors + 1", table.with_columns(measure=(pl.col("test_errors") + 1.0))
    # A search that ended early knows that the first error is not before what it reached.
    length = pl.coalesce("first_error_length", pl.col("verified_length") + 1).cast(pl.Float64)
    finite = pl.when(pl.col("infinite").fill_null(False)).then(None).otherwise(length)
    known = table.filter(pl.col("verified") != "no")
    return "length of the first error", known.with_columns(measure=finite)


def _factor(data: DataFrame, name: str, level: float) -> Factor:
    groups = []
    for (value,), part in data.sort(name, nulls_last=True).group_by(name, maintain_order=True):
        measured = part.drop_nulls("measure").sort("measure")
        groups.append(
            Group(
                _written(value), len(part), int(part["infinite"].fill_null(False).sum()),
                measured["measure"].to_numpy(), measured["row"].to_numpy(),
            )
        )  # fmt: skip
    measures = [group.measures for group in groups if len(group.measures)]
    explained = _explained(measures)
    return Factor(name, tuple(groups), explained, _clear(explained, measures, level))


def _clear(explained: float, groups: Sequence[Floats], level: float) -> bool:
    between, within = len(groups) - 1, sum(map(len, groups)) - len(groups)
    if between < 1 or within < 1:
        return False
    ratio = (explained / between) / max((1 - explained) / within, 1e-300)
    return bool(fdtrc(between, within, ratio) < level)


def _explained(groups: Sequence[Floats]) -> float:
    """The variance between groups over that of all, of the logarithms."""
    logs = [np.log10(group) for group in groups]
    everything = np.concatenate(logs) if logs else np.zeros(0)
    total = float(((everything - everything.mean()) ** 2).sum()) if len(everything) else 0.0
    if total <= 0:
        return 0.0
    middle = everything.mean()
    return float(sum(len(log) * (log.mean() - middle) ** 2 for log in logs) / total)


def _interaction(data: DataFrame, first: str, second: str) -> Interaction | None:
    """None where the two options do not vary independently: a grid has every combination."""
    keys = [
        {value: place for place, value in enumerate(data[name].unique().sort(nulls_last=True))}
        for name in (first, second)
    ]
    medians = np.full((len(keys[0]), len(keys[1])), np.nan)
    parts = {}
    for (row, column), part in data.group_by(first, second, maintain_order=True):
        place = keys[0][row], keys[1][column]
        measures = part["measure"].fill_null(np.inf).to_numpy()
        # Of an even number the lower one in the middle: a mean with infinity says nothing.
        medians[place] = np.quantile(measures, 0.5, method="lower")
        if len(finite := measures[np.isfinite(measures)]):
            parts[place] = np.log10(finite)
    if (
        min(medians.shape) < 2
        or np.isfinite(medians).sum() <= 1
        or len(parts) <= max(medians.shape)
    ):
        return None
    beyond = _beyond_sums(parts, medians.shape)
    rows, columns = (tuple(_written(value) for value in key) for key in keys)
    return Interaction(first, second, rows, columns, medians, beyond)


def _beyond_sums(parts: Mapping[tuple[int, int], Floats], shape: tuple[int, ...]) -> float:
    """How much of the variance the cells explain that no sum of two effects does."""
    everything = np.concatenate(list(parts.values()))
    total = float(((everything - everything.mean()) ** 2).sum())
    if total <= 0:
        return 0.0
    sizes = np.array([len(part) for part in parts.values()], dtype=float)
    means = np.array([part.mean() for part in parts.values()])
    effects = np.zeros((len(parts), sum(shape)))
    for place, (first, second) in enumerate(parts):
        effects[place, [first, shape[0] + second]] = 1.0
    weights = np.sqrt(sizes)
    fitted, *_ = np.linalg.lstsq(effects * weights[:, None], means * weights, rcond=None)
    return float((sizes * (means - effects @ fitted) ** 2).sum() / total)


def _outliers(data: DataFrame) -> list[Outlier]:
    outliers = []
    for _, part in data.drop_nulls("measure").group_by("cell", "config_key", maintain_order=True):
        if len(part) < _FEWEST:
            continue
        logs = np.log10(part["measure"].to_numpy())
        middle = float(np.median(logs))
        spread = _NORMAL * float(np.median(np.abs(logs - middle)))
        if spread <= 0:
            continue
        for row, log in zip(part.to_dicts(), logs, strict=True):
            outlier = Outlier(
                row["row"], row["cell"], row["seed"], row["measure"], 10**middle,
                float((log - middle) / spread), row["first_error"],
            )  # fmt: skip
            outliers.append(outlier)
    outliers.sort(key=lambda outlier: (-abs(outlier.deviations), outlier.row))
    return [outlier for outlier in outliers[:_OUTLIERS] if abs(outlier.deviations) > 2]


def _written(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
