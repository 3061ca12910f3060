"""What a sweep is: grids of configurations and seeds, and what is asked of every model.

    name = "width"                     [classifier]
    seeds = "0..255"                   d_model = [2, 4, 8]
    verify = "prove"                   [training.train]
                                       max_length = [10, 20]

As in an experiment a list is an axis of a grid. Tables `[[grid]]` make several grids, each of them
the options above with its own on top; so options can vary together:

    [[grid]]                           [[grid]]
    classifier = {d_model = 4}         classifier = {d_model = 64, n_heads = [2, 16]}
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tsc_interp.errors import ConfigError, UsageError, shorten
from tsc_interp.files import shown
from tsc_interp.frozen import FrozenConfig
from tsc_interp.strings import MAX_REPEAT
from tsc_interp.training.config import RunConfig
from tsc_interp.training.experiments import (
    Cell,
    Experiment,
    read_options,
    refuse_unknown,
)
from tsc_interp.verification.summaries import DEFAULT_LIMIT

MAX_MODELS = 20_000_000
MAX_CELLS = 20_000
"""Each is written out in full in `sweep.json`."""

Verify = Literal["prove", "found", "off"]


class SweepOptions(FrozenConfig):
    """The options of verification, the same for all models of a sweep."""

    verify: Verify = Field(
        default="prove",
        description="prove: what the search finds goes to the checker; found: only what has no "
        "error up to the limit does, which may be right at every length; off: no horizons",
    )
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_REPEAT)
    budget: int = Field(default=20_000, ge=1, description="boxes per set of letters")


@dataclass(frozen=True)
class SweepPart:
    """One grid: every cell with every seed."""

    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]

    @property
    def models(self) -> int:
        return len(self.seeds) * len(self.cells)

    def to_dict(self) -> dict[str, Any]:
        cells = [{"label": cell.label, "config": cell.config.to_dict()} for cell in self.cells]
        return {"seeds": _runs_of(self.seeds), "cells": cells}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SweepPart:
        seeds = tuple(seed for first, last in stored["seeds"] for seed in range(first, last + 1))
        cells = tuple(
            Cell(cell["label"], RunConfig.from_dict(cell["config"])) for cell in stored["cells"]
        )
        return cls(seeds, cells)


@dataclass(frozen=True)
class Definition:
    """A name, grids, and what is asked of every model."""

    name: str
    parts: tuple[SweepPart, ...]
    options: SweepOptions = field(default_factory=SweepOptions)
    about: str = ""

    def __post_init__(self) -> None:
        models, cells = sum(p.models for p in self.parts), sum(len(p.cells) for p in self.parts)
        for kind, count, most in (("models", models, MAX_MODELS), ("cells", cells, MAX_CELLS)):
            if count > most:
                raise ConfigError(f"{self.name} has {count:,} {kind}; a sweep has at most {most:,}")


What = Definition | Experiment | Sequence[Experiment] | str | os.PathLike[str]


def definition_of(what: What, **options: Any) -> Definition:
    """The definition behind a file, one or several experiments; options given here win."""
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(what, str | os.PathLike):
        definition = load_definition(what)
    elif isinstance(what, Definition):
        definition = what
    else:
        definition = _of_experiments([what] if isinstance(what, Experiment) else what)
    return replace(definition, options=definition.options.replace(**given)) if given else definition


def load_definition(path: str | os.PathLike[str]) -> Definition:
    """From a TOML file; without a `name` the sweep is called like the file."""
    path = Path(path)
    fields = tuple(SweepOptions.model_fields)
    grid = ("seeds", "classifier", "training")
    options = read_options(path, ("name", "about", *fields, *grid, "grid"))
    try:
        base = {name: options[name] for name in grid if name in options}
        tables = options.get("grid", [{}])
        listed = isinstance(tables, list) and tables
        if not listed or not all(isinstance(table, Mapping) for table in tables):
            raise ConfigError(f"grid = {shorten(tables)}: expected tables, each under [[grid]]")
        grids = [_merged(base, table, grid) for table in tables]
        name, about = options.get("name", path.stem), options.get("about", "")
        parts = [Experiment.of(name, about=about, most=MAX_MODELS, **merged) for merged in grids]
        chosen = SweepOptions(**{key: options[key] for key in fields if key in options})
        return Definition(
            name, tuple(SweepPart(part.seeds, part.cells) for part in parts), chosen, about
        )
    except ConfigError as error:
        raise ConfigError(f"{shown(path)}: {error}") from None


def _of_experiments(experiments: Iterable[Any]) -> Definition:
    listed = list(experiments) if isinstance(experiments, Iterable) else [experiments]
    for experiment in listed:
        if not isinstance(experiment, Experiment):
            raise UsageError(
                "a sweep is a TOML file, an experiment (tsc.Experiment.of), or a list of "
                f"experiments; got {shorten(experiment)}"
            )
    if not listed:
        raise UsageError("a sweep needs an experiment, got an empty list")
    parts = tuple(SweepPart(experiment.seeds, experiment.cells) for experiment in listed)
    return Definition(listed[0].name, parts, about=listed[0].about)


def _merged(
    base: Mapping[str, Any], table: Mapping[str, Any], allowed: Sequence[str] = ()
) -> dict[str, Any]:
    if allowed:
        refuse_unknown(table, allowed, " of [[grid]]")
    merged = dict(base)
    for name, value in table.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _runs_of(seeds: Sequence[int]) -> list[list[int]]:
    """`[[first, last], ...]` of consecutive numbers."""
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and runs[-1][1] + 1 == seed:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return runs
