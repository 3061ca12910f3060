"""Runs on disk: nothing repeated, nothing lost, whatever happens in between."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import BalancedStream
from tsc_interp.errors import ConfigError, TscError
from tsc_interp.model.evaluation import evaluate
from tsc_interp.training import jobs as jobs_module
from tsc_interp.training import runs as runs_module
from tsc_interp.training.config import RunConfig, TrainingConfig
from tsc_interp.training.jobs import Job, Watcher, train, train_seeds
from tsc_interp.training.runs import RunDirectory, RunError

SHORT = TrainingConfig(
    train=BalancedStream(batches=5),
    validation=BalancedStream(max_length=20, batches=2),
    test=BalancedStream(max_length=40, batches=2),
    max_epochs=4,
    check_from=2,
    patience=2,
)
CONFIG = RunConfig(training=SHORT)
SEEDS = (0, 1, 2)


def wanted(experiment="here", seeds=SEEDS, config=CONFIG):
    return [Job(experiment, config, seed) for seed in seeds]


def contents(directory: Path) -> dict[str, object]:
    """Every file that is part of a run; locks and left-over temporary files are not."""
    return {
        str(path.relative_to(directory)): _content(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def _content(path: Path) -> object:
    if path.suffix != ".safetensors":
        return path.read_bytes()
    with safe_open(path, framework="np") as file:  # its metadata has no order
        return file.metadata(), {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The runs as they should be."""
    directory = tmp_path_factory.mktemp("clean")
    train(wanted(), directory)
    return directory


def no_training(monkeypatch):
    monkeypatch.setattr(jobs_module, "train_ensemble", lambda members: pytest.fail("trained"))


def test_the_layout_and_what_is_in_it(clean):
    for seed in SEEDS:
        run = RunDirectory.of(clean, "here", CONFIG, seed)
        result, metrics = run.result(), run.metrics()
        names = {path.name for path in run.path.iterdir()}
        assert names == {"config.json", "metrics.jsonl", "checkpoints", "result.json"}
        assert len(metrics) == result.epochs
        assert [row.epoch for row in metrics] == list(range(1, result.epochs + 1))
        losses = [row.validation_loss for row in metrics]
        assert result.validation_loss == min(losses)
        assert losses.index(min(losses)) + 1 == result.chosen_epoch
        files = sorted(path.name for path in (run.path / "checkpoints").iterdir())
        assert files == [f"epoch={epoch:03d}.safetensors" for epoch in range(result.epochs + 1)]
        stored = json.loads((run.path / "config.json").read_text())
        assert RunConfig(classifier=stored["classifier"], training=stored["training"]) == CONFIG
        # The loader every command uses picks the chosen epoch.
        loaded = load_checkpoint(run.path)
        assert loaded.provenance["epoch"] == result.chosen_epoch
        assert loaded.provenance["seed"] == seed
        assert loaded.provenance["run_key"] == CONFIG.key()


def test_the_result_is_what_the_checkpoint_does(clean):
    """Confusion matrix and misclassified strings, against one-string-at-a-time evaluation."""
    run = RunDirectory.of(clean, "here", CONFIG, 1)
    alphabet = CONFIG.classifier.alphabet
    strings = [alphabet.write(row) for row in SHORT.test.epoch(CONFIG.classifier, 0)]
    matrix, wrong = np.zeros((2, 2), dtype=int), set()
    for row in evaluate(run.checkpoint(), strings):
        matrix[row.label, row.prediction] += 1
        if not row.correct:
            wrong.add((row.length, row.string))
    assert run.result().test.matrix() == matrix.tolist()
    assert run.result().test.misclassified == tuple(string for _, string in sorted(wrong))
    assert run.result().test.errors == matrix[0, 1] + matrix[1, 0] > 0


def test_a_finished_run_is_never_repeated(clean, monkeypatch):
    before = contents(clean)
    no_training(monkeypatch)
    assert [run.job.seed for run in train(wanted(), clean)] == list(SEEDS)
    assert contents(clean) == before


def test_a_run_under_two_names_is_trained_once(tmp_path):
    class Counting(Watcher):
        trained = 0

        def finished(self, job, result):
            self.trained += 1

    watcher = Counting()
    runs = train([*wanted("one"), *wanted("two", (1, 2))], tmp_path, watcher)
    assert watcher.trained == 3
    assert runs[1].result == runs[3].result
    # A name that comes later finds the work done, too.
    later = train(wanted("three", (2,)), tmp_path, watcher)
    assert watcher.trained == 3
    assert contents(later[0].directory.path) == contents(runs[2].directory.path)


def test_only_what_is_missing_is_trained(clean, tmp_path):
    class Planning(Watcher):
        def planned(self, to_train, finished):
            self.plan = (to_train, finished)

    watcher = Planning()
    train(wanted(seeds=(0,)), tmp_path)
    train(wanted(), tmp_path, watcher)
    assert watcher.plan == (2, 1)
    assert contents(tmp_path) == contents(clean)


def test_dying_at_any_write_loses_nothing(clean, tmp_path, monkeypatch):
    """For every rename the process makes: die there, run again, and get the very same files."""

    class Killed(BaseException):
        pass

    real, calls = os.replace, 0

    def dying_at(n):
        def replace(source, target):
            nonlocal calls
            calls += 1
            if calls == n:
                raise Killed
            real(source, target)

        return replace

    monkeypatch.setattr(runs_module.os, "replace", dying_at(-1))
    train(wanted(seeds=(0, 1)), tmp_path / "count")
    total = calls
    assert total > 20
    for n in range(1, total + 1):
        directory = tmp_path / f"die-at-{n}"
        calls = 0
        monkeypatch.setattr(runs_module.os, "replace", dying_at(n))
        with pytest.raises(Killed):
            train(wanted(seeds=(0, 1)), directory)
        monkeypatch.setattr(runs_module.os, "replace", real)
        train(wanted(seeds=(0, 1)), directory)
        assert contents(directory) == contents(tmp_path / "count"), n
    for seed in (0, 1):
        path = Path("here", CONFIG.key(), f"seed={seed}")
        assert contents(tmp_path / "count" / path) == contents(clean / path)


LONG = SHORT.replace(max_epochs=60, check_from=60)

SCRIPT = """
import sys, time
from tsc_interp.training.config import RunConfig
from tsc_interp.training.jobs import Job, Watcher, train

class Slow(Watcher):
    def epoch(self, job, progress):
        time.sleep(float(sys.argv[3]))

config = RunConfig.from_json(sys.argv[2])
train([Job("here", config, seed) for seed in (0, 1)], sys.argv[1], Slow())
"""


def start_process(directory: Path, pause: float) -> subprocess.Popen[bytes]:
    config = RunConfig(training=LONG).to_json()
    arguments = [sys.executable, "-c", SCRIPT, str(directory), config, str(pause)]
    return subprocess.Popen(arguments, env={**os.environ, "OMP_NUM_THREADS": "1"})


def test_kill_minus_nine_with_a_second_process_waiting(tmp_path):
    """The second process waits for the first, and takes over where it was killed."""
    config = RunConfig(training=LONG)
    run = RunDirectory.of(tmp_path, "here", config, 1)
    first, second = start_process(tmp_path, 0.25), None
    try:
        _wait_for(lambda: run.checkpoint_path(3).exists(), first)
        second = start_process(tmp_path, 0.0)
        _wait_for(lambda: run.checkpoint_path(5).exists(), first)
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert run.result() is None
        assert run.progress().epoch >= 4
        assert second.wait(timeout=120) == 0
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.kill()
    train([Job("here", config, seed) for seed in (0, 1)], tmp_path / "clean")
    assert contents(tmp_path / "here") == contents(tmp_path / "clean" / "here")


def _wait_for(condition, process):
    for _ in range(1200):
        if condition():
            return
        assert process.poll() is None, "the process ended early"
        time.sleep(0.05)
    pytest.fail("nothing happened for a minute")


def test_damage_is_noticed_and_repaired(clean, tmp_path):
    train(wanted(seeds=(0,)), tmp_path)
    run = RunDirectory.of(tmp_path, "here", CONFIG, 0)
    expected = contents(tmp_path)

    class Looking(Watcher):
        def epoch(self, job, progress):
            assert not (run.path / "result.json").exists(), "it would look finished"

    for file in (run.checkpoint_path(run.result().chosen_epoch), run.path / "result.json"):
        file.write_bytes(file.read_bytes()[:-7])
        assert run.result() is None
        train(wanted(seeds=(0,)), tmp_path, Looking())
        assert contents(tmp_path) == expected


def test_another_format_version_is_refused_and_left_alone(tmp_path):
    run = train(wanted(seeds=(0,)), tmp_path)[0].directory
    file = run.path / "config.json"
    file.write_text(file.read_text().replace('"format_version": 1', '"format_version": 2'))
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"format version 2.*--runs"):
        train(wanted(seeds=(0,)), tmp_path)
    assert contents(tmp_path) == before


def test_a_full_disk_is_a_clear_error_and_what_was_done_is_kept(clean, tmp_path, monkeypatch):
    real, writes = Path.open, 0

    def full_after(self, mode="r", *options, **more):
        nonlocal writes
        writes += mode == "xb"
        if writes > 12:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return real(self, mode, *options, **more)

    monkeypatch.setattr(Path, "open", full_after)
    with pytest.raises(TscError, match="No space left on device; what was finished before is kept"):
        train(wanted(), tmp_path)
    monkeypatch.undo()
    assert RunDirectory.of(tmp_path, "here", CONFIG, 0).progress().epoch >= 1
    train(wanted(), tmp_path)
    assert contents(tmp_path) == contents(clean)


def test_a_place_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    for place in (tmp_path / "file", Path("/proc/no-such-place")):
        with pytest.raises(RunError, match="cannot write"):
            train(wanted(seeds=(0,)), place)


def test_a_diverged_run_is_finished_and_says_so(tmp_path):
    hot = RunConfig(training=SHORT.replace(learning_rate=1e38))
    bad, good = train([Job("hot", hot, 0), Job("here", CONFIG, 0)], tmp_path)
    assert bad.result.verdict == "diverged"
    assert good.result.verdict != "diverged"
    assert bad.result.chosen_epoch == 0
    assert np.isnan(bad.result.validation_loss)
    assert bad.directory.checkpoint().provenance["epoch"] == 0
    assert bad.directory.result() == bad.result or np.isnan(bad.directory.result().validation_loss)


def test_the_short_way_for_scripts(tmp_path):
    runs = train_seeds(ClassifierConfig(d_model=3), [4, 5], SHORT, runs=tmp_path)
    assert [run.result.seed for run in runs] == [4, 5]
    assert runs[0].checkpoint_path.exists()


def test_positions_must_reach_as_far_as_the_strings():
    with pytest.raises(ConfigError, match=r"n_positions = 11 is too small.*validation"):
        RunConfig(classifier=ClassifierConfig(n_positions=11), training=SHORT)
