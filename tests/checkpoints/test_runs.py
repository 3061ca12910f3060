"""Runs on disk: nothing repeated, nothing lost, whatever happens in between."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock, Timeout

from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory, RunError
from tsc_interp.checkpoints.run_records import sealed, unsealed
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import BalancedStream
from tsc_interp.errors import ConfigError, TscError
from tsc_interp.files import TEMPORARY, temporary_name
from tsc_interp.model.evaluation import evaluate
from tsc_interp.training import jobs as jobs_module
from tsc_interp.training import locking
from tsc_interp.training.config import Job, RunConfig, TrainingConfig
from tsc_interp.training.jobs import Plan, Watcher, train
from tsc_interp.training.run_writer import RunWriter

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


def contents(directory: Path) -> dict[str, bytes]:
    """Every file that is part of a run; locks and left-over temporary files are not."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


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
        run = RunWriter.of(clean, "here", CONFIG, seed)
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
    run = RunWriter.of(clean, "here", CONFIG, 1)
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
        def planned(self, plan):
            self.plan = plan

    watcher = Planning()
    train(wanted(seeds=(0,)), tmp_path)
    train(wanted(), tmp_path, watcher)
    assert watcher.plan == Plan(to_train=2, finished=1, most_epochs=8)
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

    monkeypatch.setattr(os, "replace", dying_at(-1))
    train(wanted(seeds=(0, 1)), tmp_path / "count")
    total = calls
    assert total > 20
    for n in range(1, total + 1):
        directory = tmp_path / f"die-at-{n}"
        calls = 0
        monkeypatch.setattr(os, "replace", dying_at(n))
        with pytest.raises(Killed):
            train(wanted(seeds=(0, 1)), directory)
        monkeypatch.setattr(os, "replace", real)
        train(wanted(seeds=(0, 1)), directory)
        assert contents(directory) == contents(tmp_path / "count"), n
    for seed in (0, 1):
        path = Path("here", CONFIG.key(), f"seed={seed}")
        assert contents(tmp_path / "count" / path) == contents(clean / path)


def test_dying_after_the_result_leaves_nothing_behind(clean, tmp_path, monkeypatch):
    """The last change of all: what an unfinished run needs is no longer needed."""

    class Killed(BaseException):
        pass

    def dying(path, missing_ok=False):
        if path.name == "resume.safetensors":
            raise Killed
        real(path, missing_ok)

    real = Path.unlink
    monkeypatch.setattr(Path, "unlink", dying)
    with pytest.raises(Killed):
        train(wanted(seeds=(0,)), tmp_path)
    here = Path("here", CONFIG.key(), "seed=0")
    assert set(contents(tmp_path / here)) - set(contents(clean / here)) == {"resume.safetensors"}
    monkeypatch.setattr(Path, "unlink", real)
    train(wanted(seeds=(0,)), tmp_path)
    assert contents(tmp_path / here) == contents(clean / here)


def test_a_run_is_finished_even_if_the_system_will_not_tidy_up(clean, tmp_path, monkeypatch):
    def refusing(path, missing_ok=False):
        if path.name == "resume.safetensors":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        real(path, missing_ok)

    real = Path.unlink
    monkeypatch.setattr(Path, "unlink", refusing)
    train(wanted(seeds=(0,)), tmp_path)
    monkeypatch.setattr(Path, "unlink", real)
    train(wanted(seeds=(0,)), tmp_path)
    here = Path("here", CONFIG.key(), "seed=0")
    assert contents(tmp_path / here) == contents(clean / here)


SCRIPT = """
import sys
from tsc_interp.training.config import Job, RunConfig
from tsc_interp.training.jobs import Watcher, train

def say(*words):
    print(*words, flush=True)

class Stopping(Watcher):
    def say(self, text):
        say("waiting" if text.startswith("waiting for another process") else text)
    def epoch(self, job, state):
        say("epoch", state.epoch)
        if state.epoch == int(sys.argv[3]):
            sys.stdin.readline()  # until the test lets go, which it does by killing

config = RunConfig.from_json(sys.argv[2])
train([Job("here", config, 0)], sys.argv[1], Stopping())
say("done")
"""


def start_process(directory: Path, stop_at: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(directory), CONFIG.to_json(), str(stop_at)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_kill_minus_nine_with_a_second_process_waiting(clean, tmp_path):
    """The second process waits for the first, and takes over where it was killed.

    Each tells what it does, line by line, and the test acts on what it reads: nothing is timed.
    """
    with start_process(tmp_path, stop_at=3) as first:
        try:
            assert [first.stdout.readline() for _ in "123"] == [
                "epoch 1\n",
                "epoch 2\n",
                "epoch 3\n",
            ]
            with start_process(tmp_path, stop_at=-1) as second:
                assert second.stdout.readline() == "waiting\n"
                first.send_signal(signal.SIGKILL)
                told, _ = second.communicate()
        finally:
            first.kill()
    assert second.returncode == 0
    # The third epoch had been written when the first process was killed in it.
    assert told == "epoch 4\ndone\n"
    here = Path("here", CONFIG.key(), "seed=0")
    assert contents(tmp_path / here) == contents(clean / here)


# -- damage ----------------------------------------------------------------------------------


class Interrupted(Exception):
    pass


class Stopping(Watcher):
    """Interrupts training after an epoch; notes what is said about damage."""

    def __init__(self, after: int = 10**6):
        self.after, self.problems, self.trained = after, [], 0

    def planned(self, plan):
        self.plan = plan

    def epoch(self, job, state):
        self.trained += 1
        if state.epoch == self.after:
            raise Interrupted

    def say(self, text):
        problem, _, moved_to = text.removesuffix(", training it again").partition("; moved to ")
        self.problems.append(problem)
        assert Path(moved_to).is_dir()
        assert Path(moved_to).name.startswith("damaged-seed=")


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """Two seeds, both stopped after their third epoch."""
    directory = tmp_path_factory.mktemp("unfinished")
    for seed in (0, 1):
        with pytest.raises(Interrupted):
            train(wanted(seeds=(seed,)), directory, Stopping(after=3))
    return directory


def flip(seed):
    def damage(file, other):
        content = bytearray(file.read_bytes())
        place = random.Random(seed).randrange(8 * len(content))
        content[place // 8] ^= 1 << place % 8
        file.unlink()
        file.write_bytes(content)

    return damage


def cut(file, other):
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[: len(content) // 2])


def empty(file, other):
    file.unlink()
    file.write_bytes(b"")


def remove(file, other):
    file.unlink()


def pipe(file, other):
    file.unlink()
    os.mkfifo(file)


def nonsense(file, other):
    file.unlink()
    file.write_text("[" * 100_000)


def of_another_seed(file, other):
    shutil.copy(other, file)


def of_another_epoch(file, other):
    others = sorted(file.parent.glob("epoch=*"))
    if file in others:
        shutil.copy(others[(others.index(file) + 1) % len(others)], file)


DAMAGES = {
    **{f"flip {seed}": flip(seed) for seed in range(1)},
    **{kind.__name__: kind for kind in (cut, empty, remove, pipe, nonsense, of_another_seed,
                                        of_another_epoch)},
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("state", ["clean", "unfinished"])
def test_damage_is_said_moved_aside_and_trained_again(state, name, clean, request, tmp_path):
    """Every file of a run, damaged in this way: in the end the very same run is there."""
    here = Path("here", CONFIG.key(), "seed=0")
    expected = contents(clean / here)
    source = request.getfixturevalue(state)
    files = sorted(str(path.relative_to(source / here)) for path in (source / here).rglob("*.*"))
    for number, file in enumerate(files):
        runs = tmp_path / str(number)
        shutil.copytree(source, runs, ignore=shutil.ignore_patterns(".lock"))
        DAMAGES[name](runs / here / file, source / here.with_name("seed=1") / file)
        changed = _seen(runs / here) != _seen(source / here)
        watcher = Stopping()
        train(wanted(seeds=(0,)), runs, watcher)
        assert contents(runs / here) == expected, file
        assert bool(watcher.problems) == changed, file


def _seen(directory):
    """As `contents`, but also what is no file."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


def test_a_run_in_the_place_of_another_is_not_believed(clean, tmp_path):
    """A folder renamed by hand: its files fit each other, but not the seed or the configuration."""
    other = RunConfig(training=SHORT.replace(learning_rate=0.02))
    for job in (Job("here", CONFIG, 5), Job("here", other, 0)):
        runs = tmp_path / f"{job.seed}"
        place = RunWriter.of(runs, "here", job.config, job.seed)
        shutil.copytree(clean / "here" / CONFIG.key() / "seed=0", place.path)
        watcher = Stopping()
        (run,) = train([job], runs, watcher)
        assert "config.json is that of another run or seed" in watcher.problems[0]
        assert run.result.seed == job.seed
        assert run.checkpoint().provenance["run_key"] == job.config.key()
        assert (place.path.parent / f"damaged-seed={job.seed}" / "result.json").exists()


def test_other_weights_that_fit_in_every_other_way_are_noticed(clean, tmp_path):
    """The right seed, run and epoch, and a file whose own hash is right: only the result knows."""
    shutil.copytree(clean, tmp_path, dirs_exist_ok=True)
    run = RunWriter.of(tmp_path, "here", CONFIG, 0)
    chosen = run.checkpoint()
    weights = {name: weight * np.float32(1.001) for name, weight in chosen.weights.items()}
    path = run.checkpoint_path(run.result().chosen_epoch)
    path.unlink()
    Checkpoint(chosen.config, weights, chosen.provenance).save(path)
    with pytest.raises(RunError, match="not the weights the result is about"):
        load_checkpoint(run.path)
    watcher = Stopping()
    train(wanted(seeds=(0,)), tmp_path, watcher)
    assert len(watcher.problems) == 1
    assert contents(run.path) == contents(clean / run.path.relative_to(tmp_path))


def test_options_that_are_not_those_of_the_key_are_noticed(clean, tmp_path):
    shutil.copytree(clean, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "here" / CONFIG.key() / "seed=0" / "config.json"
    stored = unsealed(file.read_bytes())
    stored["training"]["learning_rate"] = 0.5
    file.unlink()
    file.write_bytes(sealed(stored))
    with pytest.raises(RunError, match="run key is not that of its options"):
        RunDirectory.open(file.parent)


def test_the_lock_is_let_go_when_its_block_fails(tmp_path):
    waited, other = [], FileLock(tmp_path / ".lock")

    def failing():
        with locking.locked(tmp_path, waited.append):
            with pytest.raises(Timeout):
                other.acquire(timeout=0)
            raise Interrupted

    with pytest.raises(Interrupted):
        failing()
    other.acquire(timeout=0)
    other.release()
    assert waited == []


def test_damaged_runs_are_kept_side_by_side(tmp_path):
    for _ in range(3):
        run = train(wanted(seeds=(0,)), tmp_path)[0]
        (run.path / "result.json").write_text("mine")
    train(wanted(seeds=(0,)), tmp_path)
    names = {path.name for path in run.path.parent.iterdir() if not path.name.startswith(".")}
    assert names == {"seed=0", "damaged-seed=0", "damaged-seed=0-2", "damaged-seed=0-3"}


def test_copies_made_by_a_file_manager_are_not_epochs(clean, tmp_path):
    shutil.copytree(clean, tmp_path, dirs_exist_ok=True)
    run = RunDirectory.open(tmp_path / "here" / CONFIG.key() / "seed=0")
    epochs, first = run.epochs(), run.checkpoint_path(0)
    for name in ("epoch=004 (copy)", "epoch=", "epoch=x", "epoch=4", "epoch=-01", "epoch=0004"):
        shutil.copy(first, first.with_name(f"{name}.safetensors"))
    assert run.epochs() == epochs
    assert list(run.history()) == epochs
    assert load_checkpoint(run.path).provenance["epoch"] == run.result().chosen_epoch


def test_what_an_earlier_process_left_is_told(unfinished, tmp_path):
    shutil.copytree(unfinished, tmp_path, dirs_exist_ok=True)
    run = tmp_path / "here" / CONFIG.key() / "seed=0"
    for folder in (run.parent, run, run / "checkpoints"):  # killed in the middle of a file
        (folder / temporary_name()).write_bytes(b"half")
    (run.parent / temporary_name() / "checkpoints").mkdir(parents=True)  # or of a copy
    watcher = Stopping()
    train(wanted(), tmp_path, watcher)
    assert not list(tmp_path.rglob(f"{TEMPORARY}*"))
    assert watcher.plan == Plan(to_train=3, finished=0, unfinished=2, most_epochs=1 + 1 + 4)
    assert watcher.problems == []


def test_an_unfinished_run_gives_way_to_the_same_run_finished_elsewhere(unfinished, tmp_path):
    shutil.copytree(unfinished, tmp_path, dirs_exist_ok=True)
    train(wanted("other", (0,)), tmp_path)
    watcher = Stopping()
    (run,) = train(wanted("here", (0,)), tmp_path, watcher)
    assert watcher.trained == 0
    assert (run.path.parent / "unfinished-seed=0" / "resume.safetensors").exists()


def test_few_locks_are_held_at_a_time(tmp_path, monkeypatch):
    """One open file per configuration was too many for a grid of a thousand."""
    held, most, real = 0, 0, jobs_module.locked

    @contextmanager
    def counting(directory, waiting):
        nonlocal held, most
        with real(directory, waiting):
            held += 1
            most = max(most, held)
            yield
            held -= 1

    monkeypatch.setattr(jobs_module, "locked", counting)
    monkeypatch.setattr(jobs_module, "LOCKS_AT_ONCE", 3)
    quick = SHORT.replace(max_epochs=1, train=BalancedStream(batches=1))
    configs = [RunConfig(training=quick.replace(weight_decay=w / 100)) for w in range(8)]
    runs = train([Job("many", config, seed) for config in configs for seed in (0, 1)], tmp_path)
    assert most == 3
    assert [run.job.config for run in runs[::2]] == configs
    assert len({run.path for run in runs}) == 16
    assert not any(path.name.startswith("damaged") for path in tmp_path.rglob("*"))


def test_a_run_directory_is_read_without_torch(clean):
    code = (
        "import sys; from tsc_interp.checkpoints.run_directory import RunDirectory;"
        "run = RunDirectory.open(sys.argv[1]); run.history(); run.result(); run.metrics();"
        "run.classifier; sys.exit('torch' in sys.modules)"
    )
    path = clean / "here" / CONFIG.key() / "seed=0"
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == 0


def test_another_format_version_is_refused_and_left_alone(tmp_path):
    run = train(wanted(seeds=(0,)), tmp_path)[0].directory
    file = run.path / "config.json"
    file.write_text(file.read_text().replace('"format_version": 2', '"format_version": 3'))
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"format version 3.*--runs"):
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
    assert RunWriter.of(tmp_path, "here", CONFIG, 0).examine().state.epoch >= 1
    train(wanted(), tmp_path)
    assert contents(tmp_path) == contents(clean)


def test_a_diverged_run_is_finished_and_says_so(tmp_path):
    hot = RunConfig(training=SHORT.replace(learning_rate=1e38))
    bad, good = train([Job("hot", hot, 0), Job("here", CONFIG, 0)], tmp_path)
    assert bad.result.ending == "diverged"
    assert good.result.ending != "diverged"
    assert bad.result.chosen_epoch == 0
    assert np.isnan(bad.result.validation_loss)
    assert bad.directory.checkpoint().provenance["epoch"] == 0
    assert bad.directory.result() == bad.result or np.isnan(bad.directory.result().validation_loss)


def test_positions_must_reach_as_far_as_the_strings():
    with pytest.raises(ConfigError, match=r"n_positions = 11 is too small.*validation"):
        RunConfig(classifier=ClassifierConfig(n_positions=11), training=SHORT)
