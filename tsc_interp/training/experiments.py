"""Experiments as data, from a TOML file or in Python.

An experiment is a name, seeds, and options of `ClassifierConfig` and `TrainingConfig`. An option
given as a list is an axis of a grid, and every combination is a *cell*, with its own configuration:

    name = "width"                      seeds = "0..31"  (both ends), or [0, 1, 5], or 7
    [classifier]                        [training.train]
    d_model = [2, 4, 8, 16]             max_length = [10, 20]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import ConfigError, UsageError, shorten, suggest
from tsc_interp.files import read_regular, reason, shown
from tsc_interp.training.config import Job, RunConfig, TrainingConfig

MAX_SEED = 2**63 - 1
MAX_RUNS = 100_000

MAX_FILE = 1_000_000

Option = tuple[str, ...]
"""Where an option stands: ("training", "train", "max_length")."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_FIELDS = {"classifier": ClassifierConfig.model_fields, "training": TrainingConfig.model_fields}
_RANGE = re.compile(r"\s*(\d{1,19})\s*\.\.\s*(\d{1,19})\s*", re.ASCII)
_LIST = re.compile(r"\s*\d{1,19}\s*(,\s*\d{1,19}\s*)*", re.ASCII)


@dataclass(frozen=True)
class Cell:
    """One point of the grid: what distinguishes it, and the configuration there."""

    label: str
    config: RunConfig


@dataclass(frozen=True)
class Experiment:
    """A grid of configurations to train, each from several seeds.

    Args:
        name: The name of the experiment, and of the directory of its runs.
        seeds: The seeds; every configuration is trained once from each.
        cells: The configurations. `Experiment.of` makes them from options.
        about: A sentence for listings.
        chapter: The chapter of the source report it belongs to.

    Example:
        >>> experiment = Experiment.of("width", seeds="0..3", classifier={"d_model": [2, 4]})
        >>> ", ".join(cell.label for cell in experiment.cells)
        'd_model=2, d_model=4'
        >>> len(experiment.jobs())
        8
    """

    name: str
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    about: str = ""
    chapter: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        seeds: int | str | Sequence[int] = (0,),
        classifier: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        about: str = "",
        chapter: str = "",
        *,
        most: int = MAX_RUNS,
    ) -> Experiment:
        """Return an experiment from options; lists of values form a grid.

        Args:
            name: The name of the experiment, and of the directory of its runs.
            seeds: One, several, or a range such as `"0..31"`, both ends included.
            classifier: Options of `ClassifierConfig`.
            training: Options of `TrainingConfig`.
            about: A sentence for listings.
            chapter: The chapter of the source report it belongs to.
            most: The most runs that the grid may have.

        Raises:
            ConfigError: An unknown option or an impossible value, or more than `most` runs.
        """
        texts = {"name": name, "about": about, "chapter": chapter}
        for option, text in texts.items():
            if not isinstance(text, str):
                raise ConfigError(f"{option} = {shorten(text)}: expected text in quotes")
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{shorten(name)} cannot name an experiment: up to 100 letters, digits, '_', '-' "
                "and '.', because runs are kept in a directory of that name"
            )
        parsed = _parse_seeds(seeds, most)
        options = {"classifier": classifier or {}, "training": training or {}}
        for part, table in options.items():
            if not isinstance(table, Mapping):
                raise ConfigError(f"{part} = {shorten(table)}: expected a table of options")
        try:
            axes = dict(_axes(options))
        except RecursionError:
            raise ConfigError(f"{name}: the options are nested too deeply") from None
        runs = len(parsed) * prod(len(values) for values in axes.values())
        if runs > most:
            raise ConfigError(
                f"{name} has {runs:,} runs; at most {most:,} can be trained at a time"
            )
        for part, table in options.items():
            refuse_unknown(table, list(_FIELDS[part]), f" of the {part}")
        return cls(name, parsed, _cells(options, axes), about, chapter)

    @classmethod
    def load(cls, path: str | Path) -> Experiment:
        """Return the experiment in a TOML file; without a `name` it is called like the file."""
        path = Path(path)
        options = read_options(path, ("name", "about", "seeds", "classifier", "training"))
        try:
            return cls.of(options.pop("name", path.stem), **options)
        except ConfigError as error:
            raise ConfigError(f"{shown(path)}: {error}") from None

    def jobs(self) -> list[Job]:
        """Return one job per configuration and seed."""
        return [Job(self.name, cell.config, seed) for cell in self.cells for seed in self.seeds]


def refuse_unknown(options: Mapping[str, Any], allowed: Sequence[str], of: str = "") -> None:
    """Name the first option that is not allowed, and what may have been meant."""
    for name in sorted(options.keys() - set(allowed)):
        table = next((table for table, fields in _FIELDS.items() if name in fields), None)
        near = f"did you mean {table}.{name}?" if table else suggest(name, allowed).rstrip()
        known = f"the options are {', '.join(allowed)}"
        raise ConfigError(f"unknown option {shorten(name)}{of}: {near or known}")


def read_options(path: Path, allowed: Sequence[str]) -> dict[str, Any]:
    """What a TOML file says, if it says nothing but what is allowed."""
    try:
        options = tomllib.loads(read_regular(path, MAX_FILE).decode())
    except FileNotFoundError:
        raise UsageError(f"no experiment file at {shown(path)}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{shown(path)} is not a readable TOML file: {reason(error)}") from None
    try:
        refuse_unknown(options, allowed)
    except ConfigError as error:
        raise ConfigError(f"{shown(path)}: {error}") from None
    return options


def _parse_seeds(seeds: object, most: int) -> tuple[int, ...]:
    match = _RANGE.fullmatch(seeds) if isinstance(seeds, str) else None
    if match and int(match[1]) <= int(match[2]) < int(match[1]) + most:
        numbers: Any = range(int(match[1]), int(match[2]) + 1)
    elif isinstance(seeds, str) and _LIST.fullmatch(seeds):
        numbers = [int(part) for part in seeds.split(",")]
    else:
        numbers = [seeds] if isinstance(seeds, int) else seeds
    if (
        isinstance(numbers, Sequence)
        and numbers
        and all(type(seed) is int and 0 <= seed <= MAX_SEED for seed in numbers)
    ):
        return tuple(dict.fromkeys(numbers))
    raise ConfigError(
        f"seeds = {shorten(seeds)}: expected a range such as '0..31' (both ends included), a list "
        f"such as [0, 1, 5], or one whole number; each from 0 to {MAX_SEED}"
    )


def _cells(options: Mapping[str, Any], axes: Mapping[Option, Sequence[Any]]) -> tuple[Cell, ...]:
    """Every combination of the lists among the options."""
    cells = []
    for values in product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        label = ", ".join(f"{path[-1]}={shown(str(value))}" for path, value in point.items())
        try:
            cells.append(Cell(label, _config_at(options, point)))
        except ConfigError as error:
            where = f"cell {label}: " if label else ""
            raise ConfigError(f"{where}{error}") from None
    if not cells:
        empty = next(".".join(path) for path, values in axes.items() if not values)
        raise ConfigError(f"{empty} is an empty list, so the grid has no cells")
    return tuple(cells)


def _axes(options: object, path: Option = ()) -> list[tuple[Option, Sequence[Any]]]:
    if isinstance(options, Mapping):
        return [axis for key, value in options.items() for axis in _axes(value, (*path, key))]
    return [(path, options)] if isinstance(options, list | tuple | range) else []


def _config_at(options: Mapping[str, Any], point: Mapping[Option, Any]) -> RunConfig:
    def fill(value: object, path: Option = ()) -> Any:
        if isinstance(value, Mapping):
            return {key: fill(inner, (*path, key)) for key, inner in value.items()}
        return point.get(path, value)

    filled = fill(options)
    for part in ("train", "validation", "test"):
        stream = filled["training"].get(part)
        # Options of a stream change the source report's stream, not the defaults.
        if isinstance(stream, dict):
            filled["training"][part] = _stream(part, stream)
    return RunConfig(**filled)


def _stream(part: str, options: dict[str, Any]) -> dict[str, Any]:
    if options.get("kind", "balanced") != "balanced":
        return options
    default: dict[str, Any] = getattr(TrainingConfig(), part).to_dict()
    return {**default, **options}
