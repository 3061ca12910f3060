"""Two models in one report: what changed, where they differ, epochs of one run."""

from __future__ import annotations

from pathlib import Path

import pytest

import tsc_interp as tsc
from tests.checkpoints.run_directories import write_run
from tests.verification.models import planted, random_checkpoint
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, UsageError
from tsc_interp.playground.mapdifference import difference_map
from tsc_interp.report import Report
from tsc_interp.report.commands import command, python
from tsc_interp.report.content import apart, disagreements, side_by_side


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Epoch 1 says yes to one a among 3 b's at most, epoch 2 among 5."""
    epochs = {0: planted(4), 1: planted(4, c_score=-1.0), 2: planted(6, c_score=-1.0)}
    return write_run(tmp_path / "runs" / "x" / "key" / "seed=4", epochs, chosen=2)


@pytest.fixture(scope="module")
def compared() -> Report:
    return tsc.analyze("generalization-errors", probes=["trace", "margin"], compare="walkthrough")


@pytest.fixture(scope="module")
def page(compared: Report) -> str:
    return compared.to_html(plotlyjs="cdn")


def test_what_changed_is_said_in_numbers(compared: Report, page: str) -> None:
    changed, differ = compared.comparison
    # 697 wrong test strings and the horizons 66 and 2,166 are published figures of the two.
    assert "errors on the 9,984 test strings go from 697 to 0" in changed
    assert "goes from 66 to 2,166" in changed
    assert "same configuration" in changed
    assert "generalization-errors alone says yes" in differ
    assert Report.from_json(compared.to_json()).to_json() == compared.to_json()
    for text in (compared.to_markdown(), page):
        assert "go from 697 to 0" in text
    assert tsc.analyze("walkthrough", ["ab"], probes="margin").comparison == []


def test_the_strings_they_differ_on_are_shown(compared: Report, page: str) -> None:
    table = disagreements(compared)
    assert table is not None
    by_letters = {row[0]: row for row in table.rows}
    row = by_letters["bc"]
    assert (row[1], row[4], row[5]) == ("bc{70}", "walkthrough", "893,605")
    for logit, name in zip(row[2:4], ("generalization-errors", "walkthrough"), strict=True):
        assert logit == pytest.approx(tsc.load(name)("bc{70}").item(), abs=1e-4)
    assert by_letters["ab"][1] == "ab{66}"
    for shown in ("<td>bc{70}</td>", 'id="trace-logits"', 'id="trace-logits-2"'):
        assert shown in page


def test_figures_of_both_share_their_axes(compared: Report) -> None:
    rows = {row[0].name: row for row in side_by_side(compared, "trace") if row[0] is not None}
    for name in ("logits", "embedding", "values"):
        one, other = (figure.figure.layout for figure in rows[name] if figure is not None)
        assert one.xaxis.range == other.xaxis.range
    alone = [model.figures["trace"]["embedding"].figure for model in compared.models]
    assert alone[0].layout.xaxis.range != alone[1].layout.xaxis.range


def test_names_are_cut_to_what_tells_them_apart() -> None:
    assert apart(["x seed=1 epoch=3", "x seed=1 epoch=8"]) == ["epoch=3", "epoch=8"]
    assert apart(["x seed=1 epoch=3", "x seed=2 epoch=3"]) == ["seed=1 epoch=3", "seed=2 epoch=3"]
    assert apart(["walkthrough", "attend-cls"]) == ["walkthrough", "attend-cls"]
    assert apart(["same", "same"]) == ["same", "same"]
    assert apart(["a`b", "x"]) == ["a'b", "x"]


def test_an_epoch_is_written_behind_its_run(run: RunDirectory) -> None:
    for epoch in (0, 1, 2):
        found = load_checkpoint(f"{run.path}@{epoch}")
        assert found.weight_hash() == run.checkpoint(epoch).weight_hash()
    assert load_checkpoint(f"{run.path}@1", epoch=1).weight_hash() == planted_hash(4)
    with pytest.raises(UsageError, match="is epoch 1, but epoch 2"):
        load_checkpoint(f"{run.path}@1", epoch=2)
    with pytest.raises(UsageError, match="no epoch 9"):
        load_checkpoint(f"{run.path}@9")
    for wrong in ("walkthrough@3", "nothing@3", "@3"):
        with pytest.raises(CheckpointError, match="no checkpoint"):
            load_checkpoint(wrong)


def planted_hash(width: int) -> str:
    return planted(width, c_score=-1.0).weight_hash()


def test_a_file_whose_name_ends_like_an_epoch_is_that_file(tmp_path: Path) -> None:
    odd = tmp_path / "model@3"
    planted(4).save(odd)
    assert load_checkpoint(str(odd)).weight_hash() == planted(4).weight_hash()


def test_two_epochs_of_a_run(run: RunDirectory) -> None:
    report = tsc.analyze(run.path, ["ab{4}"], probes="margin", epoch=1, compare="@2")
    assert report.short_names == ["epoch=1", "epoch=2"]
    # One a among 4 b's: only the later epoch still says yes.
    assert report.difference is not None
    assert report.difference.shortest_second_only == "ab{4}"
    assert f"--epoch 1 --compare {run.path}@2" in command(report, "margin")
    assert f"epoch=1, compare='{run.path}@2'" in python(report, "margin")
    with pytest.raises(UsageError, match="not a run"):
        tsc.analyze("walkthrough", ["ab"], probes="margin", compare="@2")


def test_the_map_of_differences() -> None:
    """`planted(k)` is right up to k - 1 b's per a: between the two, only the second says yes."""
    first, second = planted(4, c_score=-1.0), planted(6, c_score=-1.0)
    picture = difference_map(first, second, names=("<one>", "two"))
    assert 'class="two"' in picture
    assert 'class="one" d=""' not in picture
    assert "only &lt;one&gt; says yes" in picture
    assert "a, b: only two" in picture
    same = difference_map(first, first)
    assert 'class="one"' not in same
    assert 'class="two"' not in same
    with pytest.raises(UsageError, match="different alphabets"):
        difference_map(first, random_checkpoint(ClassifierConfig(n_letters=2), 0))


def test_models_without_a_common_playground_get_a_page_that_says_why() -> None:
    other = random_checkpoint(ClassifierConfig(n_letters=5), seed=0)
    report = tsc.analyze("walkthrough", "ab", probes="specialization", compare=other)
    page = report.to_html(plotlyjs="cdn")
    assert "There is no playground for this: a comparison shows both models the same" in page
