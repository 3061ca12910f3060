"""A grid of runs on one page: grouped by cell, with numbers known beforehand, and safe to write."""

from __future__ import annotations

from pathlib import Path

import pytest

import tsc_interp as tsc
from tests.run_directories import write_run
from tests.verification_models import planted
from tsc_interp.checkpoints.run_list import StoredRun
from tsc_interp.cli.app import main
from tsc_interp.errors import TscError, UsageError
from tsc_interp.report.grid import MOST_RUNS, Row, Tile, grid, is_grid, render_grid, write_grid
from tsc_interp.report.reach import Reach


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds: right up to 3 b's per a and up to 5; a third is not finished."""
    place = tmp_path_factory.mktemp("grid") / "runs"
    for seed, width in ((0, 4), (1, 6)):
        model = planted(width, c_score=-1.0)
        write_run(place / "odd" / "key" / f"seed={seed}", {0: model, 1: model}, seed=seed, chosen=1)
    model = planted(4)
    write_run(place / "odd" / "key" / "seed=2", {0: model, 1: model}, seed=2)
    return place


def test_runs_are_told_by_cell_and_seed(place: Path) -> None:
    (row,) = grid(tsc.runs(place))
    assert row.name == "odd"
    assert [tile.seed for tile in row.tiles] == [0, 1, 2]
    first, second, third = row.tiles
    assert first.reach is not None
    assert second.reach is not None
    # `ab{4}` and `ab{6}` are the first that are wrong, so 4 and 6 letters are right.
    assert (first.reach.right_through, first.reach.false_negative) == (4, "ab{4}")
    assert (second.reach.right_through, second.reach.false_negative) == (6, "ab{6}")
    assert first.errors == 3  # as write_run says
    assert first.map is not None
    assert (third.map, third.told, third.reach) == (None, "unfinished", None)
    assert row.sentence == (
        "0 of 2 make no error on test strings; proved right through 4 to 6 letters (median 5)."
    )


def test_the_page_shows_every_run_once_and_needs_nothing_else(place: Path, tmp_path: Path) -> None:
    told: list[str] = []
    page = write_grid(tsc.runs(place), tmp_path / "grid.html", progress=told.append)
    text = page.read_text()
    assert told[0] == "1 of 3 odd/seed=0"
    assert text.count('role="img"') == 2
    assert text.count("<style>") == 1  # the style once, not with each map
    assert "seed 0: 4" in text
    assert "unfinished" in text
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert is_grid(text[:4096].encode())


def test_a_page_of_ours_is_replaced_and_nothing_else(place: Path, tmp_path: Path) -> None:
    runs = tsc.runs(place)[:1]
    target = tmp_path / "grid.html"
    write_grid(runs, target)
    write_grid(runs, target)
    target.write_text("mine")
    with pytest.raises(TscError):
        write_grid(runs, target)
    assert target.read_text() == "mine"
    write_grid(runs, target, force=True)
    with pytest.raises(UsageError, match="no runs"):
        write_grid([], target)


def test_too_many_runs_are_refused_before_any_work(place: Path) -> None:
    one: StoredRun = tsc.runs(place)[0]
    with pytest.raises(UsageError, match="too many"):
        grid([one] * (MOST_RUNS + 1), progress=pytest.fail)


def test_names_are_text() -> None:
    tile = Tile("<b>", 0, None, "<i>", None, Reach(0, False, None, None))
    page = render_grid([Row("<script>", (tile,))], "<title>")
    assert "<script>" not in page
    assert "<i>" not in page
    assert "&lt;title&gt;" in page


def test_the_command(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "grid.html"
    assert main(["runs", "odd", "--runs", str(place), "--out", str(target)]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "3 of 3 odd/seed=2" in told.err
    assert f"wrote {target}" in told.err
    assert target.exists()
