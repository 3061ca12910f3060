"""Sweeps: rows keep their numbers, nothing is made twice, and every column is what it says."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsc_interp as tsc
from tests.training.test_experiments import QUICK as FILE
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli import main
from tsc_interp.errors import CheckpointError, ConfigError, OutputError, UsageError
from tsc_interp.files import TEMPORARY, temporary_name
from tsc_interp.sweeps import Sweep, running
from tsc_interp.sweeps.columns import RESULTS, option_columns, options_of
from tsc_interp.sweeps.definition import SweepOptions, SweepPart, definition_of, load_definition
from tsc_interp.sweeps.packing import all_pieces, pack, total, wanted
from tsc_interp.sweeps.work import do_task, rows_path, weights_path
from tsc_interp.training.config import RunConfig
from tsc_interp.training.engine import shape_of

QUICK = {
    "max_epochs": 2,
    "train": {"batches": 4},
    "validation": {"batches": 1},
    "test": {"batches": 2},
}
TOML = 'name = "quick"\n' + FILE.replace('"0..1"', '"0..4"')


def quick(seeds="0..4", **classifier):
    return tsc.Experiment.of("quick", seeds, classifier or {"d_model": [2, 3]}, QUICK)


class Here:
    """Workers that do a task when it is handed out, in this process; `behave` may do otherwise."""

    in_flight = 0

    def __init__(self, count=2, behave=lambda number: None):
        self.count, self.behave, self.asked, self.recovered = count, behave, 0, 0
        self.killed = False

    @contextmanager
    def opened(self):
        yield self

    def submit(self, function, *arguments):
        future: Future = Future()
        self.asked += 1
        try:
            self.behave(self.asked)
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def kill(self):
        self.killed = True

    def recover(self):
        self.recovered += 1


@pytest.fixture
def here(monkeypatch):
    def use(**options):
        workers = Here(**options)
        monkeypatch.setattr(running, "Processes", lambda count: workers)
        return workers

    return use


class Counting(running.SweepWatcher):
    def __init__(self):
        self.plans, self.names, self.told = [], [], []

    def planned(self, plan):
        self.plans.append(plan)

    def finished(self, task):
        self.names.append(task.name)

    def say(self, text):
        self.told.append(text)


# -- what is wanted ------------------------------------------------------------------------------


def test_a_file_is_a_grid_and_its_grids_are_put_on_top(tmp_path):
    file = tmp_path / "width.toml"
    file.write_text(
        'seeds = "3..5"\nverify = "prove"\nlimit = 500\n[classifier]\nn_heads = 2\nd_head = 3\n'
        "[[grid]]\nclassifier = {d_model = [4, 5]}\n"
        "[[grid]]\nseeds = 7\nclassifier = {d_model = 6, d_head = 1}\n"
    )
    found = load_definition(file)
    assert found.name == "width"
    assert found.options == SweepOptions(verify="prove", limit=500)
    shapes = [
        [(c.config.classifier.d_model, c.config.classifier.d_head) for c in part.cells]
        for part in found.parts
    ]
    assert shapes == [[(4, 3), (5, 3)], [(6, 1)]]
    assert [part.seeds for part in found.parts] == [(3, 4, 5), (7,)]


@pytest.mark.parametrize(("text", "says"), [
    ('verify = "maybe"', "verify"),
    ("limit = 0", "limit"),
    ("sedes = 3", "sedes"),
    ("[[grid]]\nname = 'x'", "grid"),
    ("grid = 3", "grid"),
    ("[classifier]\nd_modle = 2", "d_modle"),
    ('seeds = "0..99999999"', "seeds"),
])  # fmt: skip
def test_a_wrong_file_is_refused_in_words(tmp_path, text, says):
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_definition(file)
    with pytest.raises(UsageError):
        tsc.sweep(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_no_sweep_is_refused():
    for wrong in (3, [], [3], None):
        with pytest.raises(UsageError, match="sweep"):
            tsc.sweep(wrong)  # type: ignore[arg-type]


seeds = st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True).map(tuple)
CELLS = quick(1, d_model=[2, 3, 4], embedding_init=["default", "linear_like"]).cells
cells = st.lists(st.sampled_from(CELLS), min_size=1, max_size=3, unique=True).map(tuple)
parts = st.builds(SweepPart, seeds, cells)


def numbered(some):
    """By brute force: every pair of configuration and seed, in order, the first time it comes."""
    pairs = [(cell.config, seed) for part in some for cell in part.cells for seed in part.seeds]
    return list(dict.fromkeys(pairs))


def pairs_of(found):
    return [(piece.config, seed) for piece in found for seed in piece.seeds]


@given(st.lists(parts, min_size=1, max_size=4), st.lists(parts, max_size=2))
def test_rows_are_numbered_in_order_and_keep_their_numbers(some, more):
    found = all_pieces(some)
    assert pairs_of(found) == numbered(some)
    assert [piece.rows[0] for piece in found] == [
        sum(len(other.seeds) for other in found[:index]) for index in range(len(found))
    ]
    longer = pairs_of(all_pieces([*some, *more]))
    assert longer[: total(found)] == numbered(some)
    flags = wanted(all_pieces([*some, *more]), more)
    assert flags.tolist() == [pair in set(numbered(more)) for pair in longer]


@given(
    st.lists(parts, min_size=1, max_size=4), st.integers(1, 9), st.randoms(use_true_random=False)
)
def test_tasks_hold_what_is_missing_once_in_ensembles_that_train_alike(some, size, random):
    found = all_pieces(some)
    missing = np.array([random.random() < 0.7 for _ in range(total(found))])
    tasks = pack(found, missing, SweepOptions(), processes=2, ensemble=size)
    rows = {
        row: (piece.config, seed)
        for task in tasks
        for piece in task.pieces
        for row, seed in zip(piece.rows, piece.seeds, strict=True)
    }
    pairs = pairs_of(found)
    assert rows == {row: pairs[row] for row in np.flatnonzero(missing)}
    assert sum(task.models for task in tasks) == missing.sum()
    assert all(task.models <= size for task in tasks)
    for task in tasks:
        assert len({shape_of(piece.config.classifier) for piece in task.pieces}) == 1
    assert len({task.name for task in tasks}) == len(tasks)


# -- what is found of each model -----------------------------------------------------------------


def test_every_option_has_a_column_of_its_own():
    options = option_columns()
    assert not set(options) & set(RESULTS)
    config = RunConfig(classifier=tsc.ClassifierConfig(d_model=5, token_names=("x", "y", "z")))
    values = options_of(config)
    assert (values["d_model"], values["token_names"]) == (5, '["x", "y", "z"]')
    assert (values["task"], values["task_options"]) == ("contains_all", '{"letters": "ab"}')
    assert values["train_max_length"] == 10
    assert values["train_length"] is None  # of the other kind of training data
    missing = set(tsc.ClassifierConfig.model_fields) - set(options)
    assert not missing


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One task of two cells, done in this process."""
    place = tmp_path_factory.mktemp("sweep") / "quick"
    experiment = quick("3..5", d_model=4, embedding_init=["default", "linear_like"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "Processes", lambda count: Here())
        return tsc.sweep(experiment, place, verify="prove"), experiment


def test_a_sweep_makes_the_models_that_train_makes(made, tmp_path):
    found, experiment = made
    table = found.table()
    assert found.models == len(table) == 6
    runs = tsc.train(experiment, tmp_path)
    for row, run in zip(table.to_dicts(), runs, strict=True):
        checkpoint = run.checkpoint()
        assert row["weight_hash"] == checkpoint.weight_hash()
        assert found.checkpoint(row["row"]).weight_hash() == checkpoint.weight_hash()
        (_, fp), (fn, _) = run.result.test.confusion_matrix
        assert (row["test_false_positives"], row["test_false_negatives"]) == (fp, fn)
        assert row["test_errors"] == fp + fn
        assert (row["epochs"], row["chosen_epoch"]) == (run.result.epochs, run.result.chosen_epoch)
        assert row["validation_loss"] == run.result.validation_loss
        assert (row["seed"], row["config_key"]) == (run.job.seed, run.job.config.key())
        assert row["embedding_init"] == run.job.config.classifier.embedding_init


def test_a_row_says_what_the_verifier_says(made):
    found, _ = made
    for row in found.table().to_dicts():
        known = tsc.horizon(found.checkpoint(row["row"]))
        assert (row["horizon"], row["proved"]) == (known.length, known.proved)
        assert row["first_error"] == known.shortest.string
        assert row["first_error_logit"] == known.shortest.logit
        assert (row["verified"], row["infinite"]) == ("prove", False)


def test_margins_and_norms_are_those_of_the_weights(made):
    found, _ = made
    for row in found.table().to_dicts():
        weights = found.checkpoint(row["row"]).weights
        embedded = weights["embed.W_E"].astype(float)
        assert row["norm_W_E"] == pytest.approx(np.linalg.norm(embedded))
        model = tsc.load(f"{found.path}:{row['row']}")
        counts = found.pieces[0].config.training.test.epoch(model.config, 0)
        strings = [model.config.alphabet.write(c) for c in counts]
        logits = np.array([one.logit for one in tsc.evaluate(model, strings)])
        labels = model.config.task.labels(counts)
        assert row["test_margin"] == pytest.approx(
            np.where(labels, logits, -logits).min(), abs=1e-4
        )


@pytest.mark.parametrize("options", [
    {"n_outputs": 3, "task": "most_frequent"},
    {"n_positions": 256},
    {"reads": "last", "attend_cls": True},
    {"n_heads": 0},
    {"norm": "rms", "n_layers": 2},
    {"score_scale": "sqrt_d_head_log_n", "attend_cls": True},
], ids=lambda options: next(iter(options)))  # fmt: skip
def test_any_configuration_has_its_row(here, tmp_path, options):
    """As far as it goes: what cannot be verified says why, and errors are those of `train`."""
    here()
    experiment = quick("0..1", **options)
    found = tsc.sweep(experiment, tmp_path / "sweep", limit=50, boxes=500)
    runs = tsc.train(experiment, tmp_path / "runs")
    for row, run in zip(found.table().to_dicts(), runs, strict=True):
        assert row["weight_hash"] == run.checkpoint().weight_hash()
        assert row["test_errors"] == run.result.test.errors
        assert (row["verified"] == "no") == bool(row["not_verified"])


# -- going on ------------------------------------------------------------------------------------


def test_a_second_run_does_nothing_and_a_third_what_is_missing(here, tmp_path):
    here()
    watcher = Counting()
    place = tmp_path / "quick"
    first = tsc.sweep(quick(), place, verify="off", ensemble=3, watcher=watcher)
    assert len(watcher.names) == 4
    assert first.present().all()
    before = first.table()
    tsc.sweep(quick(), place, verify="off", ensemble=3, watcher=watcher)
    assert len(watcher.names) == 4
    assert watcher.plans[-1].missing == 0
    names = sorted(watcher.names)  # rows 0 to 2, 3 and 4, 5 to 7, 8 and 9
    rows_path(place, names[1]).unlink()
    weights_path(place, names[2]).unlink()
    again = tsc.sweep(quick(), place, verify="off", ensemble=3, watcher=watcher)
    assert watcher.plans[-1].missing == 5
    assert again.table(columns=["row", "weight_hash"]).equals(before.select("row", "weight_hash"))


def test_more_seeds_are_appended_and_rows_keep_their_numbers(here, tmp_path):
    here()
    place, watcher = tmp_path / "quick", Counting()
    both = ["row", "d_model", "seed", "weight_hash"]
    first = tsc.sweep(quick("0..1"), place, verify="off").table(columns=both)
    more = tsc.sweep(quick("0..3"), place, verify="off", watcher=watcher)
    assert (watcher.plans[0].models, watcher.plans[0].finished) == (8, 4)
    assert more.table("row < 4", both).equals(first)
    assert more.table("row >= 4", both).select("d_model", "seed").rows() == [
        (2, 2), (2, 3), (3, 2), (3, 3)
    ]  # fmt: skip
    tsc.sweep(quick("0..1"), place, verify="off", watcher=watcher)
    assert (watcher.plans[1].models, watcher.plans[1].finished) == (4, 4)


def test_what_killed_writers_left_is_removed(here, tmp_path):
    """Before a sweep goes on, and after workers died in the middle of a file."""
    place = tmp_path / "quick"

    def leave(number):
        for folder in (place, place / "rows", place / "weights"):
            folder.mkdir(exist_ok=True)
            (folder / temporary_name()).write_bytes(b"half")
        (place / "rows" / "note.txt").write_text("mine")
        if number == 2:
            raise BrokenProcessPool

    here(behave=leave)
    for _ in range(2):  # the second time there is nothing else to do
        tsc.sweep(quick("0..1"), place, verify="off", ensemble=1)
        assert not list(place.rglob(f"{TEMPORARY}*"))
        assert (place / "rows" / "note.txt").exists()
        leave(1)


ORPHAN = """
import os, time
from tsc_interp.sweeps.executors import Processes
if __name__ == "__main__":
    with Processes(1).opened() as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 1000)
        time.sleep(1000)
"""


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(tmp_path):
    (tmp_path / "orphan.py").write_text(ORPHAN)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, tmp_path / "orphan.py"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as parent:
        worker = int(parent.stdout.readline())
        parent.kill()
    ends = time.monotonic() + 60
    while Path(f"/proc/{worker}").exists() and time.monotonic() < ends:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()


def test_other_questions_need_another_place(here, tmp_path):
    here()
    tsc.sweep(quick("0", d_model=2), tmp_path / "a", verify="off")
    with pytest.raises(UsageError, match="another place"):
        tsc.sweep(quick("0", d_model=2), tmp_path / "a", verify="prove")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not a sweep"):
        tsc.sweep(quick("0", d_model=2), tmp_path / "b")
    assert os.listdir(tmp_path / "b") == ["thesis.txt"]


def test_lost_workers_are_replaced_and_their_tasks_done_again(here, tmp_path):
    def die_twice(number):
        if number in (2, 4):
            raise BrokenProcessPool

    workers, watcher = here(behave=die_twice), Counting()
    found = tsc.sweep(quick(), tmp_path / "quick", verify="off", ensemble=2, watcher=watcher)
    assert found.present().all()
    assert workers.recovered == len(watcher.told) == 2
    assert all("; going on with what is missing" in text for text in watcher.told)

    def always(number):
        raise BrokenProcessPool

    here(behave=always)
    with pytest.raises(CheckpointError, match="in a row"):
        tsc.sweep(quick(), tmp_path / "never", verify="off")


@pytest.mark.parametrize(("presses", "made"), [(1, 1), (2, 0)])
def test_ctrl_c_finishes_what_is_running_and_pressed_again_stops(
    here, tmp_path, capsys, presses, made
):
    def press(number):
        if number == 1:
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    workers = here(count=1, behave=press)
    file, place = tmp_path / "quick.toml", tmp_path / "out"
    file.write_text(TOML + "\n")
    arguments = ["sweep", str(file), "--out", str(place), "--ensemble", "1"]
    assert main(arguments) == 130
    captured = capsys.readouterr()
    assert "the same command goes on from there" in captured.err
    assert ("press Ctrl-C again" in captured.err) == (presses == 1)
    assert signal.getsignal(signal.SIGINT) is before
    assert int(Sweep.open(place).present().sum()) == made
    assert workers.killed == (presses == 2)
    here()
    assert main(arguments) == 0


def test_a_full_disk_ends_a_sweep_and_leaves_nothing_half_done(here, tmp_path):
    def full_from_the_second(number):
        if number >= 2:
            raise OutputError("cannot write: No space left on device")

    workers, watcher = here(behave=full_from_the_second), Counting()
    with pytest.raises(CheckpointError, match="No space left"):
        tsc.sweep(quick(), tmp_path / "quick", verify="off", ensemble=1, watcher=watcher)
    assert workers.asked <= 5  # it does not try all ten
    assert len(Sweep.open(tmp_path / "quick").table()) == 1
    here()
    assert tsc.sweep(quick(), tmp_path / "quick", verify="off").present().all()


def test_a_refused_write_says_so_and_leaves_no_temporary_file(tmp_path, monkeypatch):
    task = pack(all_pieces(definition_of(quick("0", d_model=2)).parts), np.array([True]),
                SweepOptions(verify="off"), 1)[0]  # fmt: skip

    def refuse(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OutputError, match=r"No space left on device.*goes on"):
        do_task(task, str(tmp_path / "full"))
    assert not list(tmp_path.rglob("*"))
    monkeypatch.undo()
    do_task(task, str(tmp_path / "full"))
    file = rows_path(tmp_path / "full", task.name)
    before = file.stat().st_mtime_ns
    do_task(task, str(tmp_path / "full"))
    assert file.stat().st_mtime_ns == before  # it was there already
    with pytest.raises(UsageError, match="must be the same"):
        do_task(task, str(tmp_path / "full"), "0.0.0")


# -- reading -------------------------------------------------------------------------------------


def test_a_row_is_a_checkpoint_everywhere(made, tmp_path, monkeypatch, capsys):
    found, _ = made
    assert main(["info", "--checkpoint", f"{found.path}:4"]) == 0
    assert "seed" in capsys.readouterr().out
    monkeypatch.chdir(found.path.parent)
    os.makedirs("sweeps", exist_ok=True)
    if not os.path.exists("sweeps/mine"):
        os.symlink(found.path, "sweeps/mine")
    assert load_checkpoint("mine:4").weight_hash() == found.checkpoint(4).weight_hash()
    with pytest.raises(UsageError, match="no row 6"):
        load_checkpoint(f"{found.path}:6")
    with pytest.raises(UsageError, match="chosen epoch only"):
        load_checkpoint(f"{found.path}:4", epoch=1)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        load_checkpoint(f"{tmp_path}:4")


def test_damaged_weights_and_descriptions_are_noticed(here, tmp_path):
    here()
    found = tsc.sweep(quick("0..1", d_model=2), tmp_path / "quick", verify="off", ensemble=2)
    (shard,) = (found.path / "weights").iterdir()
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="damaged"):
        found.checkpoint(0)
    shard.write_bytes(content[:100])
    with pytest.raises(CheckpointError, match="safetensors"):
        found.checkpoint(0)
    (rows,) = (found.path / "rows").iterdir()
    rows.write_bytes(rows.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="run again makes what it held"):
        found.present()
    description = found.path / "sweep.json"
    description.write_text(description.read_text().replace("quick", "quack"))
    with pytest.raises(CheckpointError, match="checksum"):
        Sweep.open(found.path)


def test_weights_that_are_cut_off_are_made_again(here, tmp_path):
    here()
    place, watcher = tmp_path / "quick", Counting()
    before = tsc.sweep(quick(), place, verify="off", ensemble=3).table(columns=["weight_hash"])
    first, second, *_ = sorted((place / "weights").iterdir())
    first.write_bytes(first.read_bytes()[:-1])
    second.write_bytes(b"")
    again = tsc.sweep(quick(), place, verify="off", ensemble=3, watcher=watcher)
    assert watcher.told == ["the weights of 2 ensembles are cut off; they are made again"]
    assert watcher.plans[0].missing == 5
    assert again.table(columns=["weight_hash"]).equals(before)
    assert all(again.checkpoint(row) for row in range(10))
    assert len(list(place.rglob("*.damaged"))) == 4
    assert main(["runs", str(place), "--limit", str(10**20)]) == 0


def test_conditions_are_sql_on_columns(made):
    found, _ = made
    assert set(found.table("embedding_init = 'default' and seed > 3")["seed"]) == {4, 5}
    with pytest.raises(UsageError, match=r"no column 'd_modle': did you mean 'd_model'\?"):
        found.table("d_modle = 2")
    for wrong in ("seed >", "drop table x"):
        with pytest.raises(UsageError, match="condition"):
            found.table(wrong)


@pytest.mark.slow
def test_the_command_makes_a_sweep_though_its_process_is_killed(tmp_path, capsys):
    file = tmp_path / "quick.toml"
    file.write_text(TOML)
    place = tmp_path / "out"

    def kill() -> None:
        while not (children := multiprocessing.active_children()):
            time.sleep(0.01)
        children[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    assert main(["sweep", str(file), "--out", str(place), "--processes", "1"]) == 0
    killer.join()
    captured = capsys.readouterr()
    assert "10 models to make" in captured.err
    assert "ended abruptly" in captured.err
    assert "models/s" in captured.err
    assert "d_model=3" in captured.out
    assert main(["sweep", str(file), "--out", str(place), "--json", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    document = json.loads(captured.out)
    assert document["schema"] == "tsc-interp/sweep/1"
    assert [cell["models"] for cell in document["cells"]] == [5, 5]
    assert main(["sweep", str(file), "--processes", "0"]) == 2
