"""What has been trained: found, named, addressed, listed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tsc_interp as tsc
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.checkpoints.run_list import cells_of, find_run, flat_options
from tsc_interp.cli import main
from tsc_interp.cli.common import Pace
from tsc_interp.errors import CheckpointError, UsageError
from tsc_interp.training.jobs import Watcher

QUICK = {
    "max_epochs": 2,
    "train": {"batches": 2},
    "validation": {"batches": 1},
    "test": {"batches": 1},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two experiments in a working directory: a grid of two options, and a single run."""
    place = tmp_path_factory.mktemp("work")
    grid = {"d_model": [2, 10], "attend_cls": [False, True]}
    tsc.train(tsc.Experiment.of("four-letters", [0, 1], {"n_letters": 4, **grid}, QUICK),
              place / "runs")  # fmt: skip
    tsc.train(tsc.Experiment.of("single", 3, training=QUICK), place / "runs")
    return place


@pytest.fixture
def here(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_run_is_listed_in_the_order_of_its_options(here):
    addresses = [run.address for run in tsc.runs()]
    assert addresses == [
        *(f"four-letters/attend_cls={attend}/d_model={width}/seed={seed}"
          for attend in ("false", "true") for width in (2, 10) for seed in (0, 1)),
        "single/seed=3",
    ]  # fmt: skip
    assert [run.address for run in tsc.runs("runs", "single")] == ["single/seed=3"]
    assert tsc.runs("nowhere") == []
    run = tsc.runs()[2]
    assert (run.experiment, run.seed, run.epochs, run.state) == ("four-letters", 0, 2, "finished")
    assert run.cell == {"attend_cls": "false", "d_model": "10"}
    assert run.errors == run.result.test.errors
    assert run.checkpoint().config.d_model == 10
    assert repr(run).startswith("<run four-letters/attend_cls=false/d_model=10/seed=0: 2 epochs, ")


def test_what_cannot_be_looked_at_holds_no_runs(here):
    """`tsc.runs("/")` met such links in /proc and failed."""
    before = len(tsc.runs())
    (here / "runs" / "circle").symlink_to("circle")
    assert len(tsc.runs()) == before


def test_every_address_leads_back_to_its_run(here):
    for run in tsc.runs():
        assert find_run(run.address).path == run.path
        loaded = load_checkpoint(run.address)
        assert loaded.weight_hash() == run.checkpoint().weight_hash()
        assert load_checkpoint(run.address, epoch=1).provenance["epoch"] == 1


@pytest.mark.parametrize("address", [
    "four_letters/seed=1/d_model=10/attend_cls=True",
    "four-letters/classifier.d_model=10/attend_cls=true/seed=1",
    "four-letters//d_model=10/attend_cls=true/seed=1/",
])  # fmt: skip
def test_other_ways_to_write_an_address(address, here):
    config = load_checkpoint(address).config
    assert (config.d_model, config.attend_cls) == (10, True)
    assert load_checkpoint(address).provenance["seed"] == 1


def test_the_run_key_is_an_address_too_and_one_run_needs_no_more(here):
    run = tsc.runs()[0]
    assert find_run(f"four-letters/{run.directory.key}/seed=0").path == run.path
    assert find_run("single").seed == 3


@pytest.mark.parametrize(("address", "words"), [
    ("four-letters/d_model=10", "fits 4 runs"),
    ("four-letters/seed=7", "fits no run"),
    ("four-letters/d_model=3/seed=0", "fits no run"),
    ("four-letters/seed=0/nonsense", "fits no run"),
])  # fmt: skip
def test_addresses_that_do_not_name_one_run(address, words, here):
    with pytest.raises(UsageError, match=rf"{words} of experiment four-letters .*tsc-interp runs"):
        load_checkpoint(address)


@pytest.mark.parametrize("address", ["five-letters/seed=0", "", "/", "..", "single.safetensors"])
def test_addresses_of_nothing(address, here):
    with pytest.raises(CheckpointError):
        load_checkpoint(address)


def test_bundled_names_and_files_come_first(here):
    tsc.train(tsc.Experiment.of("walkthrough", 0, training=QUICK), "runs")
    assert load_checkpoint("walkthrough").source == "walkthrough"
    assert "seed=0" in load_checkpoint("walkthrough/seed=0").source


def test_options_only_some_have_are_named_where_they_tell_apart():
    def cells(*tasks):
        return cells_of([flat_options({"classifier": {"task": task}}) for task in tasks])

    majority, contains = (
        {"kind": "majority", "letter": "a"},
        {"kind": "contains_all", "letters": "ab"},
    )
    assert cells(majority, contains) == [{"task": "majority"}, {"task": "contains_all"}]
    assert cells(majority, {**majority, "letter": "b"}) == [{"letter": "a"}, {"letter": "b"}]
    assert cells(majority) == [{}]
    nested = [{"training": {"train": {"seed": 1}, "test": {"seed": s}}, "seed": s} for s in (1, 2)]
    assert cells_of([flat_options(one) for one in nested]) == [
        {"test.seed": "1", "seed": "1"}, {"test.seed": "2", "seed": "2"},
    ]  # fmt: skip


def test_the_command(here, capsys):
    assert main(["runs"]) == 0
    out, err = capsys.readouterr()
    assert "four-letters/attend_cls=true/d_model=10/seed=1" in out
    assert "analyze NAME" in err
    assert main(["runs", "single", "--horizon", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tsc-interp/runs/2"
    (row,) = document["runs"]
    assert row["verified_length"] == tsc.horizon("single").verified_length
    assert Path(row["path"]).is_dir()
    assert main(["runs", "nothing"]) == 2
    assert main(["runs", "--runs", "empty"]) == 0
    assert "tsc-interp train" in capsys.readouterr().err


def test_unfinished_damaged_and_foreign_folders_are_told_apart(here, capsys):
    runs = tsc.runs()
    runs[0].directory.result_path.unlink()
    runs[1].directory.result_path.write_text("{}")
    (here / "runs" / "notes" / "mine" / "seed=0").mkdir(parents=True)
    (here / "runs" / "notes.txt").write_text("mine")
    assert [run.state for run in tsc.runs()] == ["unfinished", "damaged", *["finished"] * 7]
    assert main(["runs"]) == 0
    assert "damaged: result.json" in capsys.readouterr().err


# -- while it trains -------------------------------------------------------------------------

TRAIN = ["train", "--name", "mine", "--seeds", "0..1", "--set", "d_model=[2,3]",
         *(part for option in ("max_epochs=2", "train.batches=2", "validation.batches=1",
                               "test.batches=1")
           for part in ("--set", f"training.{option}"))]  # fmt: skip


def test_ctrl_c_says_how_to_go_on_and_going_on_says_what_it_found(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with monkeypatch.context() as patched:
        patched.setattr("tsc_interp.cli.training_view._watcher", lambda *_: _Interrupting())
        assert main(TRAIN) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    assert main(TRAIN) == 0
    assert "4 runs to train (1 begun before), 0 already there" in capsys.readouterr().err


class _Interrupting(Watcher):
    def epoch(self, job, state):
        raise KeyboardInterrupt


def test_time_left_is_an_upper_bound_that_knows_what_is_saved():
    now = 100.0
    left = Pace(30, clock=lambda: now)
    assert left.time_left("at most ") == "time left not known yet"
    now = 110.0
    left.spend(5)  # 2 s each, 25 to come
    assert left.time_left("at most ") == "at most 50 s left"
    left.save(10)
    assert left.time_left("at most ") == "at most 30 s left"
    now = 250.0
    assert left.time_left("at most ") == "at most 7 min 30 s left"
    left.save(20)
    assert left.time_left("at most ") == "at most 0 s left"
