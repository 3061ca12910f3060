"""A sweep on disk.

    sweeps/width/
      sweep.json     what is wanted: every grid, written out, and what is asked of each model
      rows/          FIRST-LAST-KEY.parquet, one per finished ensemble
      weights/       FIRST-LAST-KEY.safetensors, its models

Every file is written once, whole or not at all. Only `sweep.json` may be replaced, by one with more
grids at its end: rows keep their numbers.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tsc_interp._version import __version__
from tsc_interp.checkpoints import safe
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.run_records import sealed, unsealed
from tsc_interp.checkpoints.shards import (
    DESCRIPTION,
    is_sweep,
    row_checkpoint,
    weights_folder,
)
from tsc_interp.errors import (
    CheckpointError,
    ConfigError,
    OutputError,
    UsageError,
    shorten,
    suggest,
)
from tsc_interp.files import (
    entries,
    read_regular,
    reason,
    remove_temporaries,
    shown,
    write_atomically,
)
from tsc_interp.output.display import table
from tsc_interp.sweeps.definition import Definition, SweepOptions, SweepPart
from tsc_interp.sweeps.packing import Flags, Piece, all_pieces, total, wanted
from tsc_interp.sweeps.tables import frame, polars
from tsc_interp.sweeps.work import ROWS_SUFFIX, rows_folder, weights_path

if TYPE_CHECKING:
    from polars import DataFrame, LazyFrame

FORMAT = "tsc-interp/sweep"
FORMAT_VERSION = 1
_MAX_BYTES = 200_000_000
_NOTEBOOK_COLUMNS = ("row", "cell", "seed", "test_errors", "horizon", "proved", "first_error")


class SweepError(CheckpointError):
    """A sweep that cannot be read or written."""


@dataclass(frozen=True)
class Sweep:
    """A sweep on disk, with the models finished so far: `Sweep.open("sweeps/width").table()`."""

    path: Path
    definition: Definition

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Sweep:
        """Open the sweep in a directory."""
        path = Path(path)
        file = path / DESCRIPTION
        try:
            stored = unsealed(read_regular(file, _MAX_BYTES))
            version = stored["format"], stored["format_version"]
            if version != (FORMAT, FORMAT_VERSION):
                raise ValueError(f"it is {shorten(version)}, not version {FORMAT_VERSION}")
            definition = Definition(
                stored["name"],
                tuple(map(SweepPart.from_dict, stored["parts"])),
                SweepOptions.from_dict(stored["options"]),
                stored["about"],
            )
        except (FileNotFoundError, NotADirectoryError):
            raise SweepError(
                f"{shown(path)} is not a sweep: there is no {DESCRIPTION} in it"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
            raise SweepError(f"{shown(file)} cannot be used: {reason(error)}") from None
        return cls(path, definition)

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return self.definition.name

    @property
    def options(self) -> SweepOptions:
        """The options of the sweep."""
        return self.definition.options

    @cached_property
    def pieces(self) -> list[Piece]:
        """Every model of the sweep, cell by cell, in the order of the rows."""
        return all_pieces(self.definition.parts)

    @property
    def models(self) -> int:
        """The number of models of the whole sweep."""
        return total(self.pieces)

    def __repr__(self) -> str:
        return f"<sweep {self.name}: {int(self.present().sum()):,} of {self.models:,} models>"

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""
        title = html.escape(repr(self))
        if not self.shards():
            return f"<div>{title}</div>"
        rows = self.table()
        columns = [name for name in _NOTEBOOK_COLUMNS if name in rows.columns]
        return f"<div>{title}{table(columns, rows.select(columns).rows())}</div>"

    # -- what is there -------------------------------------------------------------------------

    def shards(self) -> list[Path]:
        """The rows of every finished ensemble; one without its weights does not count."""
        names = [entry.name for entry in entries(rows_folder(self.path), SweepError)]
        stems = [name.removesuffix(ROWS_SUFFIX) for name in names if name.endswith(ROWS_SUFFIX)]
        complete = [stem for stem in stems if not stem.startswith(".")]
        return [
            rows_folder(self.path) / f"{stem}{ROWS_SUFFIX}"
            for stem in complete
            if weights_path(self.path, stem).is_file()
        ]

    def scan(self) -> LazyFrame:
        """The rows as a lazy polars frame, each model once; see `columns.py` for what they say."""
        pl, shards = polars(), self.shards()
        if not shards:
            raise UsageError(f"{shown(self.path)} has no finished rows yet; run the sweep")
        rows: LazyFrame = pl.scan_parquet(
            shards, schema=frame(()).schema, missing_columns="insert", extra_columns="ignore"
        )
        return rows.unique("row", keep="first").sort("row")

    def table(self, where: str | None = None, columns: Sequence[str] | None = None) -> DataFrame:
        """The rows, or those for which a SQL condition holds: `"d_model = 4 and horizon < 50"`."""
        pl, rows = polars(), self.scan()
        try:
            if where is not None:
                rows = rows.filter(pl.sql_expr(where))
            if columns is not None:
                rows = rows.select(columns)
            table: DataFrame = rows.collect()
        except (pl.exceptions.PolarsError, TypeError) as error:
            raise self._explained(error, where) from None
        return table

    def _explained(self, error: Exception, where: str | None) -> Exception:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        if type(error).__name__ == "ColumnNotFoundError" and (
            name := re.search(r"\w+(?=\W*;)", first)
        ):
            return self.no_column(name[0])
        if where is not None:
            return UsageError(
                f"{shorten(where)} is not a condition on a sweep's columns, such as "
                f'"d_model = 4 and horizon < 50": {shown(first)}'
            )
        return SweepError(
            f"the rows of {shown(self.path)} cannot be read: {shown(first)}; a damaged file in "
            "rows/ can be deleted, and the sweep run again makes what it held"
        )

    def no_column(self, name: str) -> UsageError:
        """The error for a column that a sweep does not have."""
        columns = self.scan().collect_schema().names()
        near = suggest(name, columns).rstrip() or f"the columns are {', '.join(columns)}"
        return UsageError(f"no column {name!r}: {near}")

    def present(self) -> Flags:
        """Return for every row whether its model is finished."""
        flags = np.zeros(self.models, dtype=bool)
        if self.shards():
            rows = self.table(columns=["row"])["row"].to_numpy()
            flags[rows[rows < len(flags)]] = True
        return flags

    def put_damaged_aside(self) -> int:
        """Rename ensembles whose weights are cut off, rows and all, so that they are made again.

        A file's header says how long it is, so nothing else of it is read.
        """
        moved = 0
        for rows in self.shards():
            weights = weights_path(self.path, rows.stem)
            try:
                with safe.opened(weights):
                    continue
            except CheckpointError:
                moved += 1
            for path in (rows, weights):  # without rows an ensemble does not count
                try:
                    path.rename(path.with_name(f"{path.name}.damaged"))
                except OSError as error:
                    raise OutputError(f"cannot rename {shown(path)}: {reason(error)}") from None
        return moved

    def checkpoint(self, row: int) -> Checkpoint:
        """Return the model of one row as a checkpoint."""
        return row_checkpoint(self.path, row)

    # -- writing -------------------------------------------------------------------------------

    def wanted(self, definition: Definition) -> Flags:
        """Which rows are this definition's."""
        if definition.parts == self.definition.parts:
            return np.ones(self.models, dtype=bool)
        return wanted(self.pieces, definition.parts)

    def write(self) -> None:
        """Write the definition of the sweep."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tsc_interp": __version__,
            "name": self.name,
            "about": self.definition.about,
            "options": self.options.to_dict(),
            "parts": [part.to_dict() for part in self.definition.parts],
        }
        try:
            write_atomically(self.path / DESCRIPTION, sealed(document))
        except OSError as error:
            raise OutputError(f"cannot write {shown(self.path)}: {reason(error)}") from None


@contextmanager
def tidied(path: Path) -> Iterator[None]:
    """Under the sweep's lock: half-written files of killed processes go, before and after."""
    folders = path, rows_folder(path), weights_folder(path)
    remove_temporaries(*folders)
    try:
        yield
    finally:
        remove_temporaries(*folders)


def refuse_strangers(path: Path) -> None:
    """A place with something else in it is not taken for a new sweep."""
    if is_sweep(path) or not path.exists():
        return
    if not path.is_dir() or any(not entry.name.startswith(".") for entry in path.iterdir()):
        raise UsageError(
            f"{shown(path)} exists and is not a sweep; choose another place (--out DIR)"
        )


def prepared(path: Path, definition: Definition) -> Sweep:
    """The sweep in a directory, made or extended so that it has all of this definition's models."""
    if not is_sweep(path):
        sweep = Sweep(path, definition)
        sweep.write()
        return sweep
    stored = Sweep.open(path)
    if stored.options != definition.options:
        raise UsageError(
            f"{shown(path)} was made with {stored.options.to_json()}, and this sweep asks for "
            f"{definition.options.to_json()}; choose another place (--out DIR)"
        )
    parts = stored.definition.parts
    new = tuple(p for p in definition.parts if total(all_pieces([*parts, p])) > stored.models)
    if not new:
        return stored
    extended = Definition(stored.name, (*parts, *new), stored.options, stored.definition.about)
    sweep = Sweep(path, extended)
    sweep.write()
    return sweep
