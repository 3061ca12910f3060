"""Many runs on one page: a small failure map for each, cell by cell and seed by seed.

    tsc.write_grid(tsc.runs(experiment="width"), "width.html")

Every map has the same colours and shows the same mixtures of letters, so that a glance tells which
options and seeds fail where. The page needs no script and no network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median

from markupsafe import Markup

from tsc_interp.checkpoints.run_list import StoredRun
from tsc_interp.errors import TscError, UsageError
from tsc_interp.files import write_output
from tsc_interp.report.limits import EXACT
from tsc_interp.report.reach import Reach, reach

MOST_RUNS = 300
"""Some 10 kB each: a page stays below 4 MB."""
_GENERATOR = "tsc-interp grid"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Tile:
    """One run: its map, its errors, how far it is right."""

    address: str
    seed: int
    map: Markup | None
    told: str
    """Without a map, why."""
    errors: int | None
    reach: Reach | None


@dataclass(frozen=True)
class Row:
    """The seeds of one cell of the grid."""

    name: str
    tiles: tuple[Tile, ...]

    @property
    def sentence(self) -> str:
        """How the seeds did, in numbers."""
        tested = [tile.errors for tile in self.tiles if tile.errors is not None]
        reached = [tile.reach.right_through for tile in self.tiles if tile.reach is not None]
        told = []
        if tested:
            told.append(f"{tested.count(0)} of {len(tested)} make no error on test strings")
        if reached:
            low, middle, high = min(reached), int(median(reached)), max(reached)
            told.append(f"proved right through {low:,} to {high:,} letters (median {middle:,})")
        return "; ".join(told) + "." if told else "Nothing is known of these."


def write_grid(
    runs: Sequence[StoredRun],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    force: bool = False,
    progress: Progress = lambda doing: None,
) -> Path:
    """Write the page and return its path; a file that is not such a page only with `force`."""
    target = Path(path)
    page = render_grid(grid(runs, progress), title or _title(runs))
    write_output(target, page.encode(), is_grid, force=force, reads=[run.path for run in runs])
    return target


def is_grid(start: bytes) -> bool:
    return f'content="{_GENERATOR} '.encode() in start


def grid(runs: Sequence[StoredRun], progress: Progress = lambda doing: None) -> list[Row]:
    """The runs by cell, in the order given."""
    if not runs:
        raise UsageError("no runs to show; 'tsc-interp train' makes some")
    if len(runs) > MOST_RUNS:
        raise UsageError(
            f"{len(runs):,} runs are too many for one page of up to {MOST_RUNS}; choose fewer, "
            "such as [run for run in tsc.runs(...) if run.cell[...] == ...]"
        )
    tiles = []
    for index, run in enumerate(runs, start=1):
        progress(f"{index} of {len(runs)} {run.address}")
        tiles.append((_cell(run), _tile(run)))
    return [
        Row(name, tuple(tile for _, tile in group))
        for name, group in groupby(tiles, key=lambda pair: pair[0])
    ]


def render_grid(rows: Sequence[Row], title: str) -> str:
    from tsc_interp.playground.scripts import assemble_style
    from tsc_interp.report.html import environment

    return (
        environment()
        .get_template("grid.html")
        .render(
            rows=rows,
            title=title,
            generator=_GENERATOR,
            map_style=Markup(assemble_style("map.css")),
        )
    )


def _tile(run: StoredRun) -> Tile:
    from tsc_interp.playground.mapfigure import map_picture

    picture, told, found = None, run.problem or run.state, None
    if run.result is not None and not run.result.diverged:
        try:
            checkpoint = run.checkpoint()
            if not EXACT.exceeded(checkpoint.config, checkpoint.n_parameters):
                found = reach(checkpoint)
            picture = Markup(map_picture(checkpoint)) or None
            told = "" if picture else "one letter has no map"
        except TscError as error:
            told = str(error)
    elif run.result is not None:
        told = "training diverged"
    return Tile(run.address, run.seed, picture, told, run.errors, found)


def _cell(run: StoredRun) -> str:
    options = [f"{name}={value}" for name, value in run.cell.items()]
    return " ".join([run.experiment, *options])


def _title(runs: Sequence[StoredRun]) -> str:
    return ", ".join(dict.fromkeys(run.experiment for run in runs)) or "runs"
