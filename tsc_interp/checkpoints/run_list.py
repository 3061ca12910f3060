"""What has been trained: every run below a directory, with a name that a person can type.

    for run in tsc.runs():             four-letters/d_model=8/seed=2
        print(run.address, run.errors)

An address is an experiment, then what tells the run apart from the experiment's other runs:
options and the seed, in any order, as many as it takes. Nothing is stored for it: the options in
which the runs of an experiment differ are found by comparing them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.run_directory import DEFAULT_RUNS, RunDirectory, RunError
from tsc_interp.checkpoints.run_records import RunResult
from tsc_interp.errors import UsageError
from tsc_interp.files import entries, shown

_SEED = re.compile(r"seed=\d{1,19}")


@dataclass(frozen=True)
class StoredRun:
    """One run on disk. `checkpoint()` gives its chosen weights."""

    directory: RunDirectory
    cell: Mapping[str, str]
    """The options that tell it apart within its experiment: `{"d_model": "8"}`."""
    result: RunResult | None
    """None if it is not finished, or damaged."""
    problem: str | None = None
    """What is wrong with it, if it is damaged."""

    @property
    def path(self) -> Path:
        """The directory of the run."""
        return self.directory.path

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return self.directory.experiment

    @property
    def seed(self) -> int:
        """The seed of the initial weights."""
        return self.directory.seed

    @property
    def state(self) -> str:
        """`finished`, `unfinished` or `damaged`."""
        return "damaged" if self.problem else "finished" if self.result else "unfinished"

    @property
    def epochs(self) -> int:
        """How many it was trained for; so far, if it is not finished."""
        return self.result.epochs if self.result else max(self.directory.epochs(), default=0)

    @property
    def errors(self) -> int | None:
        """Test strings that are wrong, of a finished run."""
        return self.result.test.errors if self.result else None

    @property
    def address(self) -> str:
        """The run's name on the command line: `four-letters/d_model=8/seed=2`."""
        options = [f"{name}={value}" for name, value in self.cell.items()]
        return "/".join([self.experiment, *options, f"seed={self.seed}"])

    def checkpoint(self, epoch: int | None = None) -> Checkpoint:
        """One epoch's weights; without a number, the chosen one's."""
        return self.directory.checkpoint(epoch)

    def __repr__(self) -> str:
        outcome = self.state if self.result is None else f"{self.errors} test errors"
        return f"<run {self.address}: {self.epochs} epochs, {outcome}>"


@checked
def runs(
    directory: str | os.PathLike[str] = DEFAULT_RUNS, experiment: str | None = None
) -> list[StoredRun]:
    """List the runs below a directory, finished or not.

    Args:
        directory: The directory of the runs.
        experiment: The name of one experiment; by default all are listed.

    Returns:
        The runs, sorted by experiment, options and seed. Every function accepts a run as a model.

    Raises:
        RunError: The directory cannot be read.

    Example:
        >>> len(runs("no-such-directory"))
        0
    """
    stored: list[StoredRun] = []
    ordered = sorted(_run_directories(Path(directory), experiment), key=lambda run: run.experiment)
    for _, group in groupby(ordered, key=lambda run: run.experiment):
        directories = list(group)
        by_key = {run.key: flat_options(run.options) for run in directories}
        cells = dict(zip(by_key, cells_of(list(by_key.values())), strict=True))
        directories.sort(key=lambda run: (*map(_natural, cells[run.key].values()), run.seed))
        stored += [_stored(run, cells[run.key]) for run in directories]
    return stored


def find_run(address: str) -> StoredRun | None:
    """The one run in `runs` that an address fits; None if its experiment is not there."""
    experiment, *parts = [part for part in address.split("/") if part] or [""]
    candidates = runs(DEFAULT_RUNS, experiment)
    if not candidates:
        return None
    fitting = [run for run in candidates if all(_fits(run, part) for part in parts)]
    if len(fitting) == 1:
        return fitting[0]
    shown_runs = fitting or candidates
    named = ", ".join(run.address for run in shown_runs[:4]) + ", ..." * (len(shown_runs) > 4)
    problem = f"fits {len(fitting)} runs" if fitting else "fits no run"
    raise UsageError(
        f"{shown(address)!r} {problem} of experiment {candidates[0].experiment} ({named}); "
        f"'tsc-interp runs {candidates[0].experiment}' lists them, and with --out FILE.html shows "
        "them all on one page"
    )


# -- finding -----------------------------------------------------------------------------------


def _run_directories(directory: Path, experiment: str | None) -> Iterator[RunDirectory]:
    for place in _folders(directory):
        if experiment is not None and _plain(place.name) != _plain(experiment):
            continue
        for seed in (seed for key in _folders(place) for seed in _folders(key)):
            if _SEED.fullmatch(seed.name):
                try:
                    yield RunDirectory.open(seed)
                except RunError:  # not a run, or one that does not even say which
                    continue


def _folders(place: Path) -> list[Path]:
    return [Path(entry) for entry in entries(place, RunError) if _is_folder(entry)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Links that lead nowhere or in a circle, and what nobody may look at, hold no runs."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _stored(run: RunDirectory, cell: Mapping[str, str]) -> StoredRun:
    try:
        return StoredRun(run, cell, run.result())
    except RunError as error:
        return StoredRun(run, cell, None, problem=str(error))


# -- what tells runs apart ---------------------------------------------------------------------


def flat_options(options: Mapping[str, Any]) -> dict[str, str]:
    """`{"classifier.d_model": "8", ...}`; a task is called by its kind."""
    flat: dict[str, str] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": text for inner, text in flat_options(value).items()}
        else:
            flat[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return {name.removesuffix(".kind"): text for name, text in flat.items()}


def cells_of(configurations: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """For each configuration the options in which they differ, by their shortest clear names."""
    names = list(dict.fromkeys(name for flat in configurations for name in flat))
    varying = [name for name in names if len({flat.get(name) for flat in configurations}) > 1]
    # Options that only some have, such as a task's letter, are named where the others do not do.
    common = [name for name in varying if all(name in flat for flat in configurations)]
    points = {tuple(flat[name] for name in common) for flat in configurations}
    if len(points) == len(configurations):
        varying = common
    short = {name: _shortest(name, varying) for name in varying}
    return [
        {short[name]: flat[name] for name in varying if name in flat} for flat in configurations
    ]


def _shortest(name: str, among: Sequence[str]) -> str:
    parts = name.split(".")
    endings = [".".join(parts[start:]) for start in reversed(range(len(parts)))]
    clear = (end for end in endings if sum(f".{other}".endswith(f".{end}") for other in among) == 1)
    return next(clear, name)


def _fits(run: StoredRun, part: str) -> bool:
    """Whether a part of an address is true of a run: an option, the seed, or a run key's start."""
    name, equals, value = part.partition("=")
    if not equals:
        return len(part) >= 4 and run.directory.key.startswith(part)
    if name == "seed":
        return value == str(run.seed)
    flat = flat_options(run.directory.options)
    return any(
        _plain(text) == _plain(value)
        for option, text in flat.items()
        if f".{option}".endswith(f".{name}")
    )


def _plain(text: str) -> str:
    return text.replace("_", "-").lower()


def _natural(text: str) -> tuple[int, float, str]:
    """Numbers before words, and by their size."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text
